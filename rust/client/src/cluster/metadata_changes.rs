//! Effects of changed metadata: log lines, closed connections, and new starts from the bootstrap servers.

use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::sync::lock;

use super::Cluster;
use super::broker::Load;
use crate::cluster::metadata::Metadata;
use crate::config::Recovery;
use crate::error::Error;
use crate::types::join_limited;

impl Cluster {
    /// Logs a refresh, and changed topics and leaders.
    pub(super) fn log_changes(&self, before: &Metadata, after: &Metadata) {
        // Comparing the metadata of many topics takes time.
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let client_id = self.client_id();
        tracing::debug!(
            client_id,
            brokers = after.brokers.len(),
            topics = after.topics().count(),
            controller = after.controller,
            "metadata refreshed"
        );
        if before.brokers != after.brokers {
            let brokers = after.brokers.iter().map(|(node, address)| format!("{node} at {address}"));
            tracing::debug!(client_id, "the brokers are {}", join_limited(brokers));
        }
        let (mut new, mut leaders) = (Vec::new(), Vec::new());
        for topic in after.topics() {
            match before.topic(&topic.name) {
                Some(old) if std::ptr::eq(old, topic) => {}
                Some(old) if old.topic_id == topic.topic_id => {
                    for now in &topic.partitions {
                        let was = old.partition(now.partition).map_or(-1, |was| was.leader);
                        if was != now.leader {
                            let (name, partition) = (&topic.name, now.partition);
                            leaders.push(format!("{name}-{partition} from broker {was} to {}", now.leader));
                        }
                    }
                }
                _ => {
                    new.push(format!("{} (id {:?}, {} partitions)", topic.name, topic.topic_id, topic.partitions.len()))
                }
            }
        }
        let gone = before.topics().filter(|topic| after.topic(&topic.name).is_none()).map(|topic| &topic.name);
        for (what, changes) in [
            ("new topics", join_limited(new)),
            ("leaders changed", join_limited(leaders)),
            ("topics gone", join_limited(gone)),
        ] {
            if !changes.is_empty() {
                tracing::debug!(client_id, "{what}: {changes}");
            }
        }
    }

    /// Closes connections to brokers that are no longer in the metadata.
    ///
    /// A connection with pending requests stays open until they complete, because the metadata may come from a stale
    /// broker that does not report all brokers.
    pub(super) fn close_removed_brokers(&self, metadata: &Metadata) {
        let mut handles = lock(&self.inner.handles);
        let gone = handles.extract_if(|(node, _), handle| {
            *node >= 0 && !metadata.brokers.contains_key(node) && !matches!(handle.load(), Load::Busy(_))
        });
        gone.for_each(|((node, _), handle)| {
            handle.close(&Error::connection(format!("broker {node}"), "no longer in the cluster's metadata"));
        });
    }

    /// Returns the time since the first failed metadata request, or zero if the last request succeeded.
    pub(super) fn unreachable_for(&self) -> Duration {
        lock(&self.inner.unreachable_since).map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Handles a connection to a known broker that has reached another one. Open connections to other brokers have
    /// passed the check and are kept. Without any, the client starts again from the bootstrap servers, because the
    /// addresses may belong to another cluster now.
    pub(super) fn misrouted(&self, node: i32) {
        let checked = lock(&self.inner.handles).iter().any(|((node, _), handle)| *node >= 0 && handle.open().is_some());
        if !checked {
            tracing::debug!(
                client_id = self.client_id(),
                "connecting to the bootstrap servers again: the address of broker {node} leads to another broker"
            );
            // The handles are kept, because they contain the time of the next attempt.
            self.inner.metadata.send_modify(|metadata| *metadata = Arc::new(metadata.without_brokers()));
        }
        self.request_refresh();
    }

    /// Discards the known brokers, so that the client starts again from the bootstrap servers (KIP-899, KIP-1102).
    ///
    /// Topic metadata is kept until the next response.
    pub(super) fn rebootstrap(&self, reason: &str) {
        if self.options().metadata_recovery == Recovery::None || self.metadata().brokers.is_empty() {
            return;
        }
        tracing::warn!(client_id = self.client_id(), "connecting to the bootstrap servers again: {reason}");
        *lock(&self.inner.unreachable_since) = None;
        self.inner.metadata.send_modify(|metadata| *metadata = Arc::new(metadata.without_brokers()));
        let mut handles = lock(&self.inner.handles);
        let gone = Error::connection("the cluster", "starting again from the bootstrap servers");
        handles.extract_if(|(node, _), _| *node >= 0).for_each(|(_, handle)| handle.close(&gone));
    }
}
