//! A group member: state shared by its task and both protocols.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;

use super::assignor::Assignor;
use super::commit_queue::CommitQueue;
use super::membership::{Membership, Owned, Rebalance};
use super::subscription::Subscription;
use crate::cluster::Cluster;
use crate::cluster::coordinator::Coordinator;
use crate::cluster::metadata::Metadata;
use crate::config::{GroupOptions, GroupProtocol};
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::types::{TopicPartition, join_limited};

/// Reason why a membership ended.
#[derive(Debug)]
pub(crate) enum MembershipEnd {
    /// The coordinator no longer knows the member or its generation. The member may rejoin.
    Fenced {
        /// True if the member id is still valid.
        keep_id: bool,
        /// Error returned by the coordinator.
        error: Error,
    },
    /// The application did not poll for `max.poll.interval.ms`.
    PollIntervalExceeded,
    /// An error that rejoining would not fix.
    Fatal(Error),
}

impl std::fmt::Display for MembershipEnd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fenced { error, .. } | Self::Fatal(error) => error.fmt(f),
            Self::PollIntervalExceeded => f.write_str("no poll for max.poll.interval.ms"),
        }
    }
}

/// Wakes the polling thread.
pub(crate) trait PollWaker: Send + Sync {
    /// Makes the polling thread check for rebalances, errors and completed commits.
    fn wake(&self);
}

pub(crate) struct Member {
    pub(crate) cluster: Cluster,
    pub(crate) coordinator: Coordinator,
    pub(crate) options: GroupOptions,
    pub(crate) rack: String,
    pub(crate) assignors: Vec<Arc<dyn Assignor>>,
    pub(crate) membership: Arc<Membership>,
    pub(crate) commits: Arc<CommitQueue>,
    pub(crate) waker: Arc<dyn PollWaker>,
    /// Partitions and number of the last generation. Eager members own no partitions when they join, so their assignors
    /// report these partitions instead, like Java's assignors with `onAssignment`. They are also kept when the member
    /// is fenced, because the coordinator may have lost the group. If the group still exists, newer generations take
    /// precedence.
    pub(crate) previous: Mutex<Option<(Vec<TopicPartition>, i32)>>,
    /// True once a request to join was sent. The coordinator may have handled the request even if no response arrived
    /// (KIP-848).
    pub(crate) join_sent: AtomicBool,
    /// True once a join failure has been logged as a warning.
    pub(crate) join_error_logged: AtomicBool,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("group", &self.coordinator.group()).finish_non_exhaustive()
    }
}

impl Member {
    /// Dispatches a rebalance event to the polling thread and waits until it is acknowledged.
    pub(super) async fn dispatch(&self, make: impl Fn(&Owned) -> Option<Rebalance>) {
        self.membership.dispatch(make, &|| self.waker.wake()).await;
    }

    /// Waits until earlier commits have completed, before partitions are reassigned.
    pub(super) async fn flush_commits(&self) {
        self.commits.flush(rebalance_limit(&self.options)).await;
    }

    /// Logs a failed attempt to join: the first as a warning, later ones as debug messages. Polls return nothing until
    /// the group is joined.
    pub(super) fn log_join_error(&self, api: &str, error: &Error) {
        let (client_id, group_id) = (self.coordinator.client_id(), self.coordinator.group());
        if self.join_error_logged.swap(true, Ordering::AcqRel) {
            tracing::debug!(client_id, group_id, "cannot join the group: {api} failed: {error}");
        } else {
            tracing::warn!(
                client_id,
                group_id,
                "cannot join the group: {api} failed: {error}. The consumer keeps retrying and logs when it succeeds"
            );
        }
    }

    /// Logs that joining works again, if a failure was logged before.
    pub(super) fn log_recovered(&self) {
        if self.join_error_logged.swap(false, Ordering::AcqRel) {
            let (client_id, group_id) = (self.coordinator.client_id(), self.coordinator.group());
            tracing::info!(client_id, group_id, "joined the group after failed attempts");
        }
    }

    pub(super) fn log_left(&self, reason: &str) {
        let (client_id, group_id) = (self.coordinator.client_id(), self.coordinator.group());
        tracing::info!(client_id, group_id, "left the group: {reason}");
    }

    pub(super) fn log_not_left(&self, error: &Error) {
        let (client_id, group_id) = (self.coordinator.client_id(), self.coordinator.group());
        tracing::debug!(client_id, group_id, "cannot leave the group, so its session times out: {error}");
    }

    /// Retries a metadata request until it succeeds. Errors that are not retriable end the membership.
    pub(super) async fn retry_metadata<T, F: Future<Output = Result<T>>>(
        &self,
        request: impl Fn() -> F,
    ) -> std::result::Result<T, MembershipEnd> {
        let mut retry = Retry::endless(self.cluster.options());
        loop {
            match request().await {
                Ok(metadata) => return Ok(metadata),
                Err(error) => {
                    if error.retriable() {
                        self.log_join_error("Metadata", &error);
                    }
                    retry.again(error, || "Metadata".into()).await.map_err(MembershipEnd::Fatal)?;
                }
            }
        }
    }

    /// Returns the names of the subscribed topics. Logs or reports unavailable topics once per subscription; the other
    /// topics are consumed.
    pub(super) async fn subscribed_topics(
        &self,
        subscription: &Subscription,
        version: u64,
    ) -> Result<BTreeSet<String>> {
        let limit = self.cluster.options().default_api_timeout;
        let metadata = match subscription {
            Subscription::Topics(names) => {
                self.cluster.learn_all(false, limit).await?;
                self.cluster.learn(names, limit).await?
            }
            Subscription::Pattern(_) => self.cluster.learn_all(true, limit).await?,
        };
        if let Subscription::Topics(names) = subscription {
            self.report_unavailable_topics(names, version, &metadata);
        }
        Ok(subscription.topic_names(&metadata, self.options.exclude_internal_topics))
    }

    /// Logs missing topics as a warning, and reports topics that brokers reject as errors of `poll`.
    fn report_unavailable_topics(&self, names: &BTreeSet<String>, version: u64, metadata: &Metadata) {
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        let missing = names.iter().filter(|name| metadata.topic(name).is_none());
        let missing = missing.map(|name| (name.clone(), metadata.topic_error(name).unwrap_or(unknown)));
        let permanent = missing.filter(|(_, code)| *code == unknown || !code.retriable()).collect();
        let mut by_code: BTreeMap<ErrorCode, Vec<String>> = BTreeMap::new();
        for (name, code) in self.membership.take_unreported(version, permanent) {
            by_code.entry(code).or_default().push(name);
        }
        for (code, topics) in by_code {
            if code == unknown {
                tracing::warn!(
                    client_id = self.coordinator.client_id(),
                    group_id = self.coordinator.group(),
                    "subscribed topics do not exist, and are read once they are created: {}",
                    join_limited(&topics)
                );
                continue;
            }
            let topics = join_limited(topics.iter().map(|topic| format!("{topic:?}")));
            self.membership.report(Error::server(code, format!("the subscription to {topics}; other topics are read")));
            self.waker.wake();
        }
    }
}

/// Returns the maximum time for which a rebalance waits for commits.
pub(super) fn rebalance_limit(options: &GroupOptions) -> Duration {
    match options.protocol {
        GroupProtocol::Classic => options.max_poll_interval.min(options.session_timeout),
        GroupProtocol::Consumer => options.max_poll_interval,
    }
}

/// Converts a duration to milliseconds for a request field.
pub(super) fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
