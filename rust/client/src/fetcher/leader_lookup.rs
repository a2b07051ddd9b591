//! Leader lookup for partitions that have no known leader: refreshes metadata with growing delays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use super::shared_state::Shared;
use crate::cluster::Cluster;
use crate::cluster::metadata::Metadata;
use crate::error::Error;
use crate::types::TopicPartition;

/// Keeps the metadata of all assigned partitions up to date. The error of a topic is raised immediately if it is not
/// retriable; a missing topic or leader is an error only after `default.api.timeout.ms`. The other partitions are still
/// consumed. Time in which no broker can be reached does not count towards the timeout.
pub(super) async fn find_leaders(shared: Arc<Shared>, cluster: Cluster) {
    let mut task_changes = shared.task_changes();
    let mut metadata_changes = cluster.watch();
    let mut leaderless_since: BTreeMap<TopicPartition, Instant> = BTreeMap::new();
    let mut warned: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut backoff = cluster.backoff();
    loop {
        task_changes.borrow_and_update();
        let metadata = metadata_changes.borrow_and_update().clone();
        let Some(leaderless) = leaderless(&shared, &metadata) else { return };
        leaderless_since.retain(|tp, _| leaderless.contains_key(tp));
        let has_leaderless = |topic: &Arc<str>| leaderless.keys().any(|tp| tp.topic == *topic);
        warned.retain(|topic| metadata.topic(topic).is_none() || has_leaderless(topic));
        if leaderless.is_empty() {
            backoff.reset();
            tokio::select! {
                _ = task_changes.changed() => {}
                _ = metadata_changes.changed() => {}
            }
            continue;
        }
        // This refreshes all assigned topics, including topics that do not exist.
        let refreshed = cluster.refresh(cluster.options().request_timeout).await;
        report_failures(&shared, &cluster, leaderless, refreshed.err(), &mut leaderless_since, &mut warned);
        // Metadata changes do not end the delay early, because the refresh itself causes them.
        tokio::time::sleep(backoff.next_delay()).await;
    }
}

/// Returns the partitions that cannot be fetched because they have no leader, with the versions of their cursors, or
/// `None` once the consumer is closed.
fn leaderless(shared: &Shared, metadata: &Metadata) -> Option<BTreeMap<TopicPartition, u64>> {
    let state = shared.lock();
    let fetched = state.cursors.iter().filter(|(_, c)| c.fetch_offset.is_some() && !c.failed);
    let without = fetched.filter(|(tp, _)| metadata.leader(&tp.topic, tp.partition).is_none());
    (!state.closed).then(|| without.map(|(tp, cursor)| (tp.clone(), cursor.version)).collect())
}

/// Logs each missing topic once, and raises the errors of partitions that have had no leader for too long.
fn report_failures(
    shared: &Shared,
    cluster: &Cluster,
    leaderless: BTreeMap<TopicPartition, u64>,
    failure: Option<Error>,
    leaderless_since: &mut BTreeMap<TopicPartition, Instant>,
    warned: &mut BTreeSet<Arc<str>>,
) {
    let metadata = cluster.metadata();
    let patience = cluster.options().default_api_timeout;
    let now = Instant::now();
    let mut failed = Vec::new();
    for (tp, version) in leaderless {
        let known = metadata.topic(&tp.topic);
        let error = match (known.map(|topic| topic.partition(tp.partition)), &failure) {
            (Some(Some(partition)), _) if partition.leader >= 0 => continue,
            (_, Some(error)) => error.clone(),
            (Some(Some(_)), None) => Error::server(ErrorCode::LEADER_NOT_AVAILABLE, tp.to_string()),
            // The topic was recreated with fewer partitions. In a group, a rebalance will revoke the missing
            // partitions.
            (Some(None), None) => {
                let context = format!("{tp} (the topic has fewer partitions)");
                Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context)
            }
            (None, None) => {
                let code = metadata.topic_error(&tp.topic).unwrap_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
                Error::server(code, format!("topic {}", tp.topic))
            }
        };
        let missing = failure.is_none() && error.code() == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code());
        if missing && warned.insert(Arc::clone(&tp.topic)) {
            let client_id = cluster.client_id();
            tracing::warn!(client_id, "topic {}: partitions are not read, as they do not exist: {error}", tp.topic);
        }
        if error.unanswered() {
            leaderless_since.insert(tp, now);
            continue;
        }
        let waited = now.duration_since(*leaderless_since.entry(tp.clone()).or_insert(now));
        if !error.retriable() || waited > patience {
            leaderless_since.remove(&tp);
            failed.push((tp, version, Err(error)));
        }
    }
    if !failed.is_empty() {
        shared.record_starts(failed);
    }
}
