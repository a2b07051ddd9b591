//! Coordinators of a transactional producer, the choice of the transaction protocol, and access to the transaction state.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use samsarrow_wire::messages::{ApiKey, EndTxnRequest, ProduceRequest, Request, TxnOffsetCommitRequest};
use samsarrow_wire::sync::lock;
use tokio::sync::watch;

use super::state::{Protocol, Transaction};
use crate::cluster::coordinator::Coordinator;
use crate::cluster::{ApiVersionOverride, Cluster, ConnectionKind};
use crate::collections::HashMap;
use crate::config::ProducerOptions;
use crate::error::{Error, Result};
use crate::producer::accumulator::Accumulator;
use crate::producer::shared::Shared;

/// Cluster feature that selects the transaction protocol.
const FEATURE: &str = "transaction.version";
/// First versions of requests with protocol V2. Requests in these versions use V2 even if the cluster's feature selects
/// V1. Brokers may support these versions without the feature, so V1 limits requests to older versions.
const PRODUCE_V2: i16 = 12;
pub(super) const END_V2: i16 = 5;
pub(in crate::producer) const OFFSETS_V2: i16 = 5;
/// Timeout of requests that are retried until they succeed or fail permanently.
pub(in crate::producer) const NO_TIMEOUT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Coordinators and settings of a transactional producer.
#[derive(Debug)]
pub(crate) struct Transactions {
    pub(crate) id: Arc<str>,
    pub(crate) timeout: Duration,
    pub(in crate::producer) coordinator: Coordinator,
    pub(super) cluster: Cluster,
    /// Coordinators of groups whose offsets were sent.
    groups: Mutex<HashMap<String, Coordinator>>,
    /// Signals that requests of the transaction are complete.
    pub(in crate::producer) changed: watch::Sender<()>,
}

impl Transactions {
    /// Creates the transactions of a producer with a `transactional.id`, without sending a request.
    pub(crate) fn new(options: &ProducerOptions, cluster: &Cluster) -> Option<Self> {
        let id: Arc<str> = options.transactional_id.as_deref()?.into();
        // Requests to coordinators have a separate connection, because coordinators write to their logs before they
        // respond, which would delay records on the same connection.
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

    /// Returns the coordinator of a group, cached across transactions.
    pub(in crate::producer) fn group_coordinator(&self, group: &str) -> Coordinator {
        let mut groups = lock(&self.groups);
        if let Some(known) = groups.get(group) {
            return known.clone();
        }
        let coordinator = Coordinator::new(self.cluster.clone(), group);
        groups.insert(group.to_owned(), coordinator.clone());
        coordinator
    }

    pub(in crate::producer) fn notify_changed(&self) {
        self.changed.send_replace(());
    }

    /// Returns the protocol of a transaction that begins now. If configured API versions are too old for V2, V1 is
    /// used, which brokers accept too.
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

/// Returns `cluster`, limited to the versions of `key` that `protocol` uses.
pub(in crate::producer) fn with_protocol(cluster: &Cluster, protocol: Protocol, key: ApiKey, second: i16) -> Cluster {
    match protocol {
        Protocol::V1 => cluster.with_version(key, ApiVersionOverride::AtMost(second - 1)),
        Protocol::V2 => cluster.clone(),
    }
}

impl Shared {
    /// Returns the cluster, limited to the Produce versions of the current transaction protocol.
    pub(crate) fn produce_cluster(&self) -> Cluster {
        let protocol = self.lock().transaction.as_ref().map(|transaction| transaction.protocol);
        match protocol {
            Some(protocol) => with_protocol(&self.cluster, protocol, ProduceRequest::KEY, PRODUCE_V2),
            None => self.cluster.clone(),
        }
    }
}

pub(super) fn not_transactional(call: &str) -> Error {
    Error::State(format!("{call}: this producer has no transactions: set the option transactional.id"))
}

/// Returns the transaction state, or an error for a producer without `transactional.id`.
pub(super) fn transaction_of<'a>(accumulator: &'a mut Accumulator, call: &str) -> Result<&'a mut Transaction> {
    accumulator.transaction.as_mut().ok_or_else(|| not_transactional(call))
}
