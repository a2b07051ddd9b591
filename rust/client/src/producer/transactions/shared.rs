//! What the transactions of a producer need beside their state, and which protocol they follow.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use samsarrow_wire::messages::{ApiKey, EndTxnRequest, ProduceRequest, Request, TxnOffsetCommitRequest};
use tokio::sync::watch;

use super::state::Protocol;
use crate::cluster::coordinator::Coordinator;
use crate::cluster::{ApiVersionOverride, Cluster, ConnectionKind};
use crate::config::ProducerOptions;

/// The feature that says which protocol a cluster wants.
const FEATURE: &str = "transaction.version";
/// From these versions on, requests are of the second protocol, whatever the cluster's feature says: a broker may know
/// them and yet be used with the first.
pub(in crate::producer) const PRODUCE_V2: i16 = 12;
pub(super) const END_V2: i16 = 5;
pub(in crate::producer) const OFFSETS_V2: i16 = 5;
/// For requests that are asked until they are answered.
pub(in crate::producer) const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// What the transactions of a producer need, beside their state.
#[derive(Debug)]
pub(crate) struct Transactions {
    pub(crate) id: Arc<str>,
    pub(crate) timeout: Duration,
    pub(in crate::producer) coordinator: Coordinator,
    pub(super) cluster: Cluster,
    /// Of the groups whose offsets were sent.
    groups: Mutex<HashMap<String, Coordinator>>,
    /// Rings when requests of the transaction have been answered.
    pub(in crate::producer) changed: watch::Sender<()>,
}

impl Transactions {
    /// For `transactional.id`, if the options have one; nothing is asked yet.
    pub(crate) fn new(options: &ProducerOptions, cluster: &Cluster) -> Option<Self> {
        let id: Arc<str> = options.transactional_id.as_deref()?.into();
        // Coordinators write to their logs before they answer: records do not wait behind that.
        let cluster = cluster.with_connections(ConnectionKind::Transactions);
        Some(Self {
            coordinator: Coordinator::of_transactions(cluster.clone(), &id),
            id,
            timeout: options.transaction_timeout,
            cluster,
            groups: Mutex::default(),
            changed: watch::Sender::new(()),
        })
    }

    /// The coordinator of a group, as it is known from the transactions before.
    pub(in crate::producer) fn of_group(&self, group: &str) -> Coordinator {
        let mut groups = self.groups.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = groups.get(group) {
            return known.clone();
        }
        let found = Coordinator::new(self.cluster.clone(), group);
        groups.insert(group.to_owned(), found.clone());
        found
    }

    pub(in crate::producer) fn ring(&self) {
        self.changed.send_replace(());
    }

    /// The protocol of a transaction that begins now. A version that the user chose may rule the second one out, which
    /// brokers allow.
    pub(in crate::producer) fn protocol(&self) -> Protocol {
        let chosen = &self.cluster.options().api_versions;
        let older = |key: ApiKey, version: i16| chosen.get(key.name()).is_some_and(|chosen| *chosen < version);
        let first = self.cluster.feature_level(FEATURE) < 2
            || older(ProduceRequest::KEY, PRODUCE_V2)
            || older(EndTxnRequest::KEY, END_V2)
            || older(TxnOffsetCommitRequest::KEY, OFFSETS_V2);
        if first { Protocol::V1 } else { Protocol::V2 }
    }
}

/// `cluster`, asked for `key` in a version of the protocol.
pub(in crate::producer) fn within(cluster: &Cluster, protocol: Protocol, key: ApiKey, second: i16) -> Cluster {
    match protocol {
        Protocol::V1 => cluster.with_version(key, ApiVersionOverride::AtMost(second - 1)),
        Protocol::V2 => cluster.clone(),
    }
}
