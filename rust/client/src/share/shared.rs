//! Resources shared by polls, the membership and the sessions of a share consumer.

use std::sync::{Arc, Mutex};

use samsarrow_arrow::decode::{DecodeOptions, Decoder};
use samsarrow_arrow::{Pool, Topics};
use samsarrow_wire::sync::lock;
use tokio::sync::watch;
use tokio::time::Instant;

use super::decode::{CHUNK_BYTES, ShareDecoder, schema_of};
use super::meters::ShareMeters;
use super::options::ShareOptions;
use super::session;
use super::state::{Sent, State};
use crate::cluster::coordinator::Coordinator;
use crate::cluster::{Cluster, ConnectionKind};
use crate::config::{ConsumerOptions, Options};
use crate::error::{Error, Result};
use crate::fetcher::decode_options;
use crate::metrics::Source;

#[derive(Debug)]
pub(super) struct Shared {
    /// The cluster, with the connections of share sessions.
    pub(super) cluster: Cluster,
    pub(super) coordinator: Coordinator,
    pub(super) options: ConsumerOptions,
    pub(super) share: ShareOptions,
    pub(super) member_id: String,
    pub(super) topics: Topics,
    pool: Pool,
    state: Mutex<State>,
    /// Notifies the sessions of changes.
    pub(super) tasks: watch::Sender<u64>,
    /// Notifies the membership of changes. Each poll notifies the sessions only.
    pub(super) membership: watch::Sender<u64>,
    /// Notifies waiting calls of changes.
    pub(super) polls: watch::Sender<u64>,
}

impl Shared {
    pub(super) fn new(options: &Options, share: ShareOptions) -> Result<Arc<Shared>> {
        let cluster = Cluster::new(options)?;
        let group = options.consumer.group.id.clone().unwrap_or_default();
        let mut state = State::new();
        state.meters = ShareMeters::new(options.common.metrics.windows);
        let metrics = Arc::clone(cluster.metrics());
        let shared = Arc::new(Shared {
            coordinator: Coordinator::new(cluster.clone(), &group),
            cluster: cluster.with_connections(ConnectionKind::Share),
            options: options.consumer.clone(),
            share,
            member_id: crate::group::new_member_id(),
            topics: Topics::default(),
            pool: Pool::default(),
            state: Mutex::new(state),
            tasks: watch::Sender::new(0),
            membership: watch::Sender::new(0),
            polls: watch::Sender::new(0),
        });
        let source: Arc<dyn Source> = Arc::clone(&shared) as _;
        metrics.add(Arc::downgrade(&source));
        Ok(shared)
    }

    /// Runs `work` with the locked state.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut lock(&self.state))
    }

    /// Notifies the membership and the sessions.
    pub(super) fn notify_tasks(&self) {
        self.membership.send_modify(|changes| *changes = changes.wrapping_add(1));
        self.notify_sessions();
    }

    pub(super) fn notify_sessions(&self) {
        self.tasks.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    pub(super) fn notify_polls(&self) {
        self.polls.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    pub(super) fn decode_options(&self) -> DecodeOptions {
        DecodeOptions { max_bytes: CHUNK_BYTES, ..decode_options(&self.options) }
    }

    /// Returns a decoder that shares the topic dictionary and memory pool with the other sessions.
    pub(super) fn new_decoder(&self) -> ShareDecoder {
        let options = self.decode_options();
        let schema = schema_of(&options);
        ShareDecoder::new(Decoder::sharing(options, self.topics.clone(), self.pool.clone()), schema)
    }

    /// Starts the tasks of brokers that lead assigned partitions.
    pub(super) fn start_sessions(self: &Arc<Self>) {
        let new: Vec<i32> = self.with(|state| {
            if state.closing {
                return Vec::new();
            }
            let nodes: Vec<i32> = state.targets.keys().copied().collect();
            nodes.into_iter().filter(|node| state.add_session(*node)).collect()
        });
        for node in new {
            tokio::spawn(session::run(Arc::clone(self), node));
        }
    }

    /// Makes the next poll raise an error.
    pub(super) fn fail(&self, error: Error) {
        self.with(|state| state.failure = Some(error));
        self.notify_polls();
    }

    /// Applies the result of acknowledgements.
    pub(super) fn settle(&self, sent: &Sent, error: Option<Error>, renewed_until: Instant) {
        if let Some(error) = &error {
            tracing::warn!(
                client_id = self.cluster.client_id(),
                group_id = self.coordinator.group(),
                "records of {} are not acknowledged, and may be delivered again: {error}",
                sent.tp
            );
        }
        self.with(|state| {
            if let Some(rows) = state.rows.get_mut(&sent.tp) {
                for taken in &sent.taken {
                    match &error {
                        None => rows.applied(taken, renewed_until),
                        Some(_) => rows.rejected(taken),
                    }
                }
            }
            state.record(&sent.tp, &sent.taken, error.map_or(Ok(()), Err));
        });
    }

    /// Records that the request with these acknowledgements has completed. The session's task notifies waiting calls
    /// once, after it has applied the whole response.
    pub(super) fn complete(&self, sent: &Sent) {
        self.with(|state| {
            if let Some(rows) = state.rows.get_mut(&sent.tp) {
                rows.complete(&sent.taken);
            }
            state.finish_commits();
        });
    }
}
