//! ListOffsets: first, last and timestamp-based offsets from partition leaders.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsTopic};
use samsarrow_wire::messages::{ApiKey, ListOffsetsRequest, ListOffsetsResponse};
use tokio::task::JoinSet;

use super::by_topic;
use crate::api_versions::required_release;
use crate::cluster::Cluster;
use crate::cluster::metadata::Metadata;
use crate::collections::HashMap;
use crate::config::IsolationLevel;
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::types::{OffsetAndTimestamp, TopicPartition, join_limited};

/// Offset to look up in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListTarget {
    /// Log start offset.
    Earliest,
    /// End offset: the high watermark, or the last stable offset with `read_committed`.
    Latest,
    /// Offset of the first record whose timestamp is at or after this time in milliseconds since 1970.
    Timestamp(i64),
    /// Offset of the record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// First offset on the leader's local disk (KIP-405).
    EarliestLocal,
    /// Last offset in tiered storage (KIP-1005).
    LatestTiered,
    /// First offset that is not in tiered storage yet (KIP-1023).
    EarliestPendingUpload,
}

impl ListTarget {
    fn protocol_value(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            Self::EarliestLocal => -4,
            Self::LatestTiered => -5,
            Self::EarliestPendingUpload => -6,
            Self::Timestamp(ms) => ms,
        }
    }

    /// Returns the first version of ListOffsets that supports this target, and a description of the target.
    fn first_version(self) -> (i16, &'static str) {
        match self {
            Self::Earliest | Self::Latest => (0, "the first and the last offset"),
            Self::Timestamp(_) => (BY_TIME, "the offset at a time"),
            Self::MaxTimestamp => (7, "the offset of the largest timestamp"),
            Self::EarliestLocal => (8, "the first offset on the leader's own disk"),
            Self::LatestTiered => (9, "the last offset in tiered storage"),
            Self::EarliestPendingUpload => (11, "the first offset that is not in tiered storage yet"),
        }
    }
}

/// First version of ListOffsets that finds offsets by record timestamp (KIP-79).
const BY_TIME: i16 = 1;

type FoundOffset = (TopicPartition, Option<OffsetAndTimestamp>);
/// Result of a partition. The offset is `None` if no record matches.
pub type Listed = (TopicPartition, Result<Option<OffsetAndTimestamp>>);
/// Lookup in a partition: the partition, the offset to look up, and the known leader epoch.
type Lookup = (TopicPartition, (ListTarget, i32));

/// Handling of topics that brokers report as unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnknownTopic {
    /// Retries until the timeout, because the topic may be created in the meantime.
    Retry,
    /// Fails as soon as brokers have reported the topic as unknown twice.
    Fail,
}

/// Looks up offsets at the partition leaders. Returns the offsets in the order of `targets`, with `None` for partitions
/// without a matching record.
///
/// Retries until `timeout`, for example after a leader change.
///
/// # Errors
/// Fails if the lookup of any partition fails with an error that is not retriable, or does not succeed within
/// `timeout`. The other partitions are completed first.
pub async fn list_offsets(
    cluster: &Cluster,
    targets: &[(TopicPartition, ListTarget)],
    isolation: IsolationLevel,
    timeout: Duration,
) -> Result<Vec<FoundOffset>> {
    let each = list_each(cluster, targets, isolation, UnknownTopic::Retry, timeout).await;
    each.into_iter().map(|(tp, outcome)| Ok((tp, outcome?))).collect()
}

/// Like [`list_offsets`], but returns a result per partition. An unknown topic does not delay other topics.
pub async fn list_offsets_each(
    cluster: &Cluster,
    targets: &[(TopicPartition, ListTarget)],
    isolation: IsolationLevel,
    timeout: Duration,
) -> Vec<Listed> {
    list_each(cluster, targets, isolation, UnknownTopic::Fail, timeout).await
}

async fn list_each(
    cluster: &Cluster,
    targets: &[(TopicPartition, ListTarget)],
    isolation: IsolationLevel,
    unknown_topic: UnknownTopic,
    timeout: Duration,
) -> Vec<Listed> {
    let mut results: HashMap<TopicPartition, Result<Option<OffsetAndTimestamp>>> = HashMap::default();
    list_offsets_with(cluster, targets, isolation, unknown_topic, timeout, |listed| results.extend(listed)).await;
    let timed_out = |tp: &TopicPartition| Err(Error::timeout(format!("ListOffsets of {tp}"), timeout));
    targets.iter().map(|(tp, _)| (tp.clone(), results.get(tp).cloned().unwrap_or_else(|| timed_out(tp)))).collect()
}

/// Like [`list_offsets_each`], but passes results to `notify` as they arrive, so that a slow leader does not delay the
/// results of other leaders. Each partition is passed once.
pub(crate) async fn list_offsets_with(
    cluster: &Cluster,
    targets: &[(TopicPartition, ListTarget)],
    isolation: IsolationLevel,
    unknown_topic: UnknownTopic,
    timeout: Duration,
    mut notify: impl FnMut(Vec<Listed>),
) {
    let mut retry = Retry::new(cluster.options(), timeout);
    let mut pending: BTreeMap<TopicPartition, ListTarget> = targets.iter().cloned().collect();
    let mut metadata_refreshed = false;
    loop {
        let mut round = LookupRound { pending: &mut pending, unknown_topic, failure: None, notify: &mut notify };
        round.check_partitions(cluster, &mut metadata_refreshed, retry.left()).await;
        round.send_to_leaders(cluster, isolation, retry.left()).await;
        let failure = round.failure;
        if pending.is_empty() {
            return;
        }
        cluster.request_refresh();
        let failure = failure.unwrap_or_else(|| Error::timeout("ListOffsets", timeout));
        let context = || format!("ListOffsets of {}", join_limited(pending.keys()));
        if let Err(error) = retry.wait(failure, context).await {
            // The error of an unknown topic explains more than a timeout.
            let metadata = cluster.metadata();
            let reason = |tp: &TopicPartition| match metadata.topic_error(&tp.topic) {
                Some(code) if metadata.topic(&tp.topic).is_none() => Error::server(code, format!("topic {}", tp.topic)),
                _ => error.clone(),
            };
            return notify(pending.into_keys().map(|tp| (tp.clone(), Err(reason(&tp)))).collect());
        }
    }
}

/// Returns true if a later round may succeed. Like the Java client, retries unknown server errors too.
fn is_retriable(error: &Error) -> bool {
    error.retriable() || error.code() == Some(ErrorCode::UNKNOWN_SERVER_ERROR.code())
}

/// Returns an explanation for errors whose description is not sufficient.
fn hint(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT => {
            " (to find offsets by time, set the topic's message.format.version to 0.10.0 or later)"
        }
        _ => "",
    }
}

/// One round of requests to all leaders.
struct LookupRound<'a, F> {
    pending: &'a mut BTreeMap<TopicPartition, ListTarget>,
    unknown_topic: UnknownTopic,
    /// Last retriable error.
    failure: Option<Error>,
    notify: &'a mut F,
}

impl<F: FnMut(Vec<Listed>)> LookupRound<'_, F> {
    /// Fails partitions that do not exist.
    ///
    /// Metadata without a partition of a known topic may be stale, so it is refreshed once.
    async fn check_partitions(&mut self, cluster: &Cluster, is_refreshed: &mut bool, remaining: Duration) {
        let mut names: Vec<&str> = self.pending.keys().map(|tp| &*tp.topic).collect();
        names.dedup();
        let limit = remaining.min(cluster.options().request_timeout);
        let topics = cluster.topics_each(&names, limit).await;
        let is_missing = |metadata: &Metadata, tp: &TopicPartition| {
            metadata.topic(&tp.topic).is_some() && metadata.partition(&tp.topic, tp.partition).is_none()
        };
        if !*is_refreshed && self.pending.keys().any(|tp| is_missing(&cluster.metadata(), tp)) {
            *is_refreshed = cluster.refresh(limit).await.is_ok();
        }
        let metadata = cluster.metadata();
        let mut failed = Vec::new();
        for tp in self.pending.keys() {
            match (metadata.topic(&tp.topic), topics.get(&*tp.topic)) {
                (Some(topic), _) if *is_refreshed && is_missing(&metadata, tp) => {
                    let count = topic.partitions.len();
                    let context = format!("{tp} (topic {} has {count} partitions, from 0 on)", tp.topic);
                    failed.push((tp.clone(), Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context)));
                }
                (None, Some(Err(error))) if !error.retriable() || self.is_final(error) => {
                    failed.push((tp.clone(), error.clone()));
                }
                (None, Some(Err(error))) => self.failure = Some(error.clone()),
                _ => {}
            }
        }
        self.complete(failed.into_iter().map(|(tp, error)| (tp, Err(error))).collect());
    }

    /// Returns true if the error is an unknown topic that is not retried.
    fn is_final(&self, error: &Error) -> bool {
        self.unknown_topic == UnknownTopic::Fail && error.code() == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code())
    }

    async fn send_to_leaders(&mut self, cluster: &Cluster, isolation: IsolationLevel, remaining: Duration) {
        let metadata = cluster.metadata();
        let mut by_leader: BTreeMap<i32, Vec<Lookup>> = BTreeMap::new();
        for (tp, target) in &*self.pending {
            if metadata.topic(&tp.topic).is_none() {
                continue;
            }
            match metadata.leader(&tp.topic, tp.partition) {
                Some(leader) => by_leader.entry(leader.node).or_default().push((tp.clone(), (*target, leader.epoch))),
                None => self.failure = Some(Error::server(ErrorCode::LEADER_NOT_AVAILABLE, tp.to_string())),
            }
        }
        let limit = remaining.min(cluster.options().request_timeout);
        let mut requests = JoinSet::new();
        for (node, lookups) in by_leader {
            let cluster = cluster.clone();
            requests.spawn(async move {
                let partitions: Vec<_> = lookups.iter().map(|(tp, _)| tp.clone()).collect();
                let build = |version| {
                    check_targets(version, &lookups)?;
                    Ok(request(version, lookups, isolation, limit))
                };
                let response = match cluster.dispatch(node, limit, build).await {
                    Ok(response) => response.await,
                    Err(error) => Err(error),
                };
                (node, partitions, response)
            });
        }
        while let Some(completed) = requests.join_next().await {
            match completed {
                Ok((node, partitions, response)) => self.read(node, partitions, response),
                Err(failed) => {
                    if let Ok(panic) = failed.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
    }

    fn read(&mut self, node: i32, requested: Vec<TopicPartition>, response: Result<ListOffsetsResponse>) {
        let mut responses = HashMap::default();
        let failed = match response {
            Ok(response) => {
                for topic in response.topics {
                    let name: Arc<str> = topic.name.into();
                    let topic_partition =
                        |p: &ListOffsetsPartitionResponse| TopicPartition::new(Arc::clone(&name), p.partition_index);
                    responses.extend(topic.partitions.into_iter().map(|p| (topic_partition(&p), p)));
                }
                None
            }
            Err(error) => Some(error),
        };
        let mut listed = Vec::with_capacity(requested.len());
        for tp in requested {
            let outcome = match (&failed, responses.get(&tp)) {
                (Some(error), _) => Err(error.clone()),
                (None, Some(partition)) => match ErrorCode::from_i16(partition.error_code).ok() {
                    Ok(()) => Ok(offset(partition)),
                    Err(code) => Err(Error::server(code, format!("ListOffsets of {tp}{}", hint(code)))),
                },
                (None, None) => {
                    let reason = format!("the response to ListOffsets leaves out {tp}");
                    Err(Error::protocol(format!("broker {node}"), reason))
                }
            };
            match outcome {
                Err(error) if is_retriable(&error) => self.failure = Some(error),
                outcome => listed.push((tp, outcome)),
            }
        }
        self.complete(listed);
    }

    fn complete(&mut self, listed: Vec<Listed>) {
        if !listed.is_empty() {
            for (tp, _) in &listed {
                self.pending.remove(tp);
            }
            (self.notify)(listed);
        }
    }
}

/// Checks that the version supports the targets. Older versions would interpret them differently; version 0 would take
/// timestamps as times of log segments.
fn check_targets(version: i16, partitions: &[Lookup]) -> Result<()> {
    match partitions.iter().find(|lookup| version < lookup.1.0.first_version().0) {
        Some((tp, (target, _))) => {
            let (first_version, description) = target.first_version();
            let requirement = required_release(ApiKey::ListOffsets, first_version).unwrap_or_default();
            Err(Error::UnsupportedVersion(format!(
                "{description} of {tp} {requirement}, and this broker is older (ListOffsets v{version})"
            )))
        }
        None => Ok(()),
    }
}

fn request(version: i16, partitions: Vec<Lookup>, isolation: IsolationLevel, limit: Duration) -> ListOffsetsRequest {
    let partition = |(partition_index, (target, epoch)): (i32, (ListTarget, i32))| ListOffsetsPartition {
        partition_index,
        current_leader_epoch: epoch,
        timestamp: target.protocol_value(),
        ..Default::default()
    };
    let topics = by_topic(partitions).into_iter().map(|(name, partitions)| ListOffsetsTopic {
        name: name.to_string(),
        partitions: partitions.into_iter().map(partition).collect(),
        ..Default::default()
    });
    ListOffsetsRequest {
        replica_id: -1,
        // Isolation levels exist from version 2.
        isolation_level: i8::from(version >= 2 && isolation == IsolationLevel::ReadCommitted),
        topics: topics.collect(),
        timeout_ms: i32::try_from(limit.as_millis()).unwrap_or(i32::MAX),
        ..Default::default()
    }
}

/// Returns the offset in a response, or `None` if it is −1. Version 0 returns a list of offsets.
fn offset(partition: &ListOffsetsPartitionResponse) -> Option<OffsetAndTimestamp> {
    let offset = partition.old_style_offsets.first().copied().unwrap_or(partition.offset);
    let leader_epoch = Some(partition.leader_epoch).filter(|epoch| *epoch >= 0);
    (offset >= 0).then_some(OffsetAndTimestamp { offset, timestamp: partition.timestamp, leader_epoch })
}
