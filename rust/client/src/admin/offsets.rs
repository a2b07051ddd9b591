//! Commits and fetches of group offsets by an operator, who can choose the API version. Version 0 accesses offsets in
//! ZooKeeper, later versions access offsets in Kafka.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::offset_fetch::OffsetFetchResponsePartitions;
use samsarrow_wire::messages::{
    ApiKey, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, Request, Uuid,
};
use tokio::time::Instant;

use super::Admin;
use super::batch::{BatchedRequest, Route, group_request};
use super::engine::RequestBatch;
use crate::api_versions::required_release;
use crate::cluster::{ApiVersionOverride, Cluster};
use crate::error::{Error, Result};
use crate::offsets::messages::{self, FETCH_GROUPS, FETCH_STABLE, by_group, commit_topics, committed};
use crate::types::{OffsetAndMetadata, TopicPartition};

/// Newest version of OffsetCommit and OffsetFetch that contains topic names instead of ids. Operators specify topics by
/// name, so up to this version no metadata is required.
const LAST_BY_NAME: i16 = 9;
/// Version of OffsetCommit that contains a timestamp per partition.
const COMMIT_TIMESTAMP: i16 = 1;
/// Versions of OffsetCommit that contain a retention time, which KIP-211 removed.
const RETENTION: std::ops::RangeInclusive<i16> = 2..=4;
/// First version of OffsetFetch that can request all partitions of a group.
const FETCH_ALL: i16 = 2;

/// Result for each partition, in the order of the request.
pub type PerPartition = Vec<(TopicPartition, Result<()>)>;
/// Committed offsets of a group; `None` for partitions without a committed offset.
pub type Fetched = Vec<(TopicPartition, Option<OffsetAndMetadata>)>;
/// Result for each group, in the order of the request.
pub type PerGroup<T> = Vec<(String, Result<T>)>;

/// Settings of a commit.
#[derive(Debug, Clone, Default)]
pub struct CommitSettings {
    /// API version. The default is the version set in the options, otherwise the newest version with topic names.
    pub version: Option<i16>,
    /// Retention time of the offsets. Only versions 2 to 4 support it.
    pub retention: Option<Duration>,
    /// Commit timestamp in milliseconds since 1970. Only version 1 supports it.
    pub timestamp: Option<i64>,
}

/// Settings of a fetch.
#[derive(Debug, Clone, Default)]
pub struct FetchSettings {
    /// API version. The default is the version set in the options, otherwise the newest version with topic names.
    pub version: Option<i16>,
    /// If true, the fetch waits until open transactions that commit offsets have completed. Versions before 7 do not
    /// support this.
    pub require_stable: bool,
}

/// Topic ids by name, for versions that contain ids instead of names.
type Ids = HashMap<String, Uuid>;

impl Admin {
    /// Commits offsets for a group of which the client is not a member. Returns a result for each partition, in the
    /// order of `offsets`.
    ///
    /// # Errors
    /// Fails with an error of the whole group, or if no attempt succeeds within `timeout`. Also fails if the broker
    /// does not support the version, or if the version does not support `settings`.
    pub async fn commit_offsets(
        &self,
        group: &str,
        offsets: &[(TopicPartition, OffsetAndMetadata)],
        settings: &CommitSettings,
        timeout: Duration,
    ) -> Result<PerPartition> {
        if let Some((tp, invalid)) = offsets.iter().find(|(_, offset)| offset.offset < 0) {
            let text = format!("cannot commit offset {} of {tp}: offsets start at 0", invalid.offset);
            return Err(Error::configuration(text));
        }
        if offsets.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = Instant::now() + timeout;
        let cluster = self.with_api_version(ApiKey::OffsetCommit, settings.version);
        let ids = self.topic_ids::<OffsetCommitRequest>(&cluster, settings.version, timeout).await?;
        let known = |tp: &TopicPartition| ids.as_ref().is_none_or(|ids| ids.contains_key(&*tp.topic));
        let sent: Vec<_> = offsets.iter().filter(|(tp, _)| known(tp)).cloned().collect();
        let mut outcomes: HashMap<TopicPartition, Result<()>> = HashMap::new();
        for (tp, _) in offsets.iter().filter(|(tp, _)| !known(tp)) {
            let context = format!("OffsetCommit of {tp} for group {group}");
            outcomes.insert(tp.clone(), Err(Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context)));
        }
        if !sent.is_empty() {
            let names = ids.as_ref().map(names_by_id).unwrap_or_default();
            let build =
                |batch: &RequestBatch<'_, String>| commit_request(group, batch.version, &sent, settings, ids.as_ref());
            let read = |batch: &RequestBatch<'_, String>, response| {
                Ok(vec![(group.to_owned(), read_committed(group, batch.version, &sent, &names, response))])
            };
            let remaining = deadline.saturating_duration_since(Instant::now());
            let request = self.batched_request(ApiKey::OffsetCommit, settings.version, remaining);
            let done = self.send_batched_on(&cluster, &request, &[group.to_owned()], build, read).await?;
            for (_, committed) in done {
                outcomes.extend(committed?);
            }
        }
        let results = offsets.iter().filter_map(|(tp, _)| outcomes.remove_entry(tp));
        Ok(results.collect())
    }

    /// Fetches the committed offsets of groups: of the given partitions, in their order, or of all partitions.
    ///
    /// A request contains several groups if the broker supports it.
    ///
    /// # Errors
    /// Fails with an error that concerns all groups, for example if the broker does not support the version, or if the
    /// version cannot express the request. Errors of individual groups are returned in the list.
    pub async fn fetch_offsets(
        &self,
        groups: &[(String, Option<Vec<TopicPartition>>)],
        settings: &FetchSettings,
        timeout: Duration,
    ) -> Result<PerGroup<Fetched>> {
        let cluster = self.with_api_version(ApiKey::OffsetFetch, settings.version);
        let ids = self.topic_ids::<OffsetFetchRequest>(&cluster, settings.version, timeout).await?;
        let names = ids.as_ref().map(names_by_id).unwrap_or_default();
        let requested: HashMap<&str, Option<&[TopicPartition]>> =
            groups.iter().map(|(group, tps)| (group.as_str(), tps.as_deref())).collect();
        let partitions = |group: &str| requested.get(group).copied().flatten();
        let build = |batch: &RequestBatch<'_, String>| {
            let groups = batch.items.iter().map(|group| (group.as_str(), partitions(group)));
            fetch_request(batch.version, groups, settings.require_stable, ids.as_ref())
        };
        let read =
            |batch: &RequestBatch<'_, String>, response| read_fetched(batch.version, response, batch.items, &names);
        let list: Vec<String> = groups.iter().map(|(group, _)| group.clone()).collect();
        let request = BatchedRequest {
            max_items: |version| if version < FETCH_GROUPS { 1 } else { usize::MAX },
            ..self.batched_request(ApiKey::OffsetFetch, settings.version, timeout)
        };
        let fetched = self.send_batched_on(&cluster, &request, &list, build, read).await?;
        let in_order = |(group, fetched): (String, Result<HashMap<TopicPartition, OffsetAndMetadata>>)| {
            let tps = partitions(&group);
            let fetched = fetched.map(|mut fetched| match tps {
                Some(tps) => tps.iter().map(|tp| (tp.clone(), fetched.remove(tp))).collect(),
                None => {
                    let all: BTreeMap<_, _> = fetched.into_iter().collect();
                    all.into_iter().map(|(tp, offset)| (tp, Some(offset))).collect()
                }
            });
            (group, fetched)
        };
        Ok(fetched.into_iter().map(in_order).collect())
    }

    fn with_api_version(&self, key: ApiKey, version: Option<i16>) -> Cluster {
        self.cluster
            .with_version(key, version.map_or(ApiVersionOverride::AtMost(LAST_BY_NAME), ApiVersionOverride::Exactly))
    }

    fn chosen(&self, key: ApiKey, version: Option<i16>) -> Option<i16> {
        version.or_else(|| self.cluster.options().api_versions.get(key.name()).copied())
    }

    /// Returns a request for the group's coordinator, or for any broker if the offsets are in ZooKeeper.
    fn batched_request(&self, key: ApiKey, version: Option<i16>, timeout: Duration) -> BatchedRequest<String> {
        let request = group_request(timeout);
        let in_zookeeper = self.chosen(key, version) == Some(0);
        BatchedRequest { route: if in_zookeeper { Route::Any } else { request.route }, ..request }
    }

    /// Returns the ids of all topics, or `None` if the chosen version contains topic names.
    ///
    /// Checks first that a broker supports the version, because a broker that is too old may not report topic ids.
    async fn topic_ids<R: Request>(
        &self,
        cluster: &Cluster,
        version: Option<i16>,
        timeout: Duration,
    ) -> Result<Option<Ids>> {
        if self.chosen(R::KEY, version).is_none_or(|version| version <= LAST_BY_NAME) {
            return Ok(None);
        }
        let limit = timeout.min(cluster.options().request_timeout);
        if let Some(node) = fastrand::choice(self.brokers(limit).await?) {
            match cluster.version::<R>(node, limit).await {
                Err(error) if !error.retriable() => return Err(error),
                _ => {}
            }
        }
        let topics = self.list_topics(None, timeout).await?.into_iter();
        Ok(Some(topics.filter(|topic| !topic.topic_id.is_zero()).map(|topic| (topic.name, topic.topic_id)).collect()))
    }
}

fn names_by_id(ids: &Ids) -> HashMap<Uuid, String> {
    ids.iter().map(|(name, id)| (*id, name.clone())).collect()
}

/// Returns the name of a topic in a response. If the response contains only the id, looks up the name by the id.
fn topic_name(names: &HashMap<Uuid, String>, name: String, id: &Uuid) -> Result<String> {
    if !name.is_empty() {
        return Ok(name);
    }
    let known = names.get(id).cloned();
    known.ok_or_else(|| {
        Error::protocol("the coordinator", format!("the response contains topic id {id:?}, which is unknown"))
    })
}

fn commit_request(
    group: &str,
    version: i16,
    offsets: &[(TopicPartition, OffsetAndMetadata)],
    settings: &CommitSettings,
    ids: Option<&Ids>,
) -> Result<OffsetCommitRequest> {
    if settings.retention.is_some() && !RETENTION.contains(&version) {
        return Err(Error::configuration(format!(
            "a retention is possible in OffsetCommit v2 to v4 only, and v{version} is in use: choose version 4, or use \
             the broker's offsets.retention.minutes"
        )));
    }
    if settings.timestamp.is_some() && version != COMMIT_TIMESTAMP {
        return Err(Error::configuration(format!(
            "a commit timestamp can be given in OffsetCommit v1 only, and v{version} is in use"
        )));
    }
    let retention_time_ms = settings.retention.map_or(-1, |time| i64::try_from(time.as_millis()).unwrap_or(i64::MAX));
    let id_of = |topic: &str| Ok(ids.and_then(|ids| ids.get(topic)).copied().unwrap_or(Uuid::ZERO));
    Ok(OffsetCommitRequest {
        group_id: group.to_owned(),
        topics: commit_topics(offsets, settings.timestamp, id_of)?,
        retention_time_ms,
        ..Default::default()
    })
}

/// Returns true for errors of the whole group, which the response repeats for each partition.
fn is_group_error(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::INVALID_GROUP_ID
            | ErrorCode::GROUP_ID_NOT_FOUND
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::STALE_MEMBER_EPOCH
            | ErrorCode::UNSUPPORTED_VERSION
            // These errors are retriable, so the whole request is sent again.
            | ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
            | ErrorCode::COORDINATOR_NOT_AVAILABLE
            | ErrorCode::NOT_COORDINATOR
            | ErrorCode::REQUEST_TIMED_OUT
    )
}

type Committed = HashMap<TopicPartition, Result<()>>;

fn read_committed(
    group: &str,
    version: i16,
    sent: &[(TopicPartition, OffsetAndMetadata)],
    names: &HashMap<Uuid, String>,
    response: OffsetCommitResponse,
) -> Result<Committed> {
    let mut missing: HashSet<&TopicPartition> = sent.iter().map(|(tp, _)| tp).collect();
    let mut outcomes = Committed::new();
    for topic in response.topics {
        let name = topic_name(names, topic.name, &topic.topic_id)?;
        for partition in topic.partitions {
            let tp = TopicPartition::new(&*name, partition.partition_index);
            missing.remove(&tp);
            let context = format!("OffsetCommit of {tp} for group {group}");
            match ErrorCode::from_i16(partition.error_code).ok() {
                Err(code) if is_group_error(code) => return Err(Error::server(code, context + hint(code, version))),
                outcome => {
                    outcomes.insert(tp, outcome.map_err(|code| Error::server(code, context)));
                }
            }
        }
    }
    // If the response does not contain a partition, the partition's result is an error.
    for tp in missing {
        let reason = format!("the response to OffsetCommit for group {group} leaves out {tp}");
        outcomes.insert(tp.clone(), Err(Error::protocol("the coordinator", reason)));
    }
    Ok(outcomes)
}

/// Returns a hint for errors whose usual meaning is misleading here.
fn hint(code: ErrorCode, version: i16) -> &'static str {
    match (code, version) {
        (ErrorCode::UNKNOWN_MEMBER_ID, _) => " (the group has members: only they may commit until they leave)",
        (ErrorCode::UNSUPPORTED_VERSION, 0) => " (v0 is for offsets in ZooKeeper, which this broker does not use)",
        _ => "",
    }
}

fn fetch_request<'a>(
    version: i16,
    groups: impl Iterator<Item = (&'a str, Option<&'a [TopicPartition]>)> + Clone,
    require_stable: bool,
    ids: Option<&Ids>,
) -> Result<OffsetFetchRequest> {
    if require_stable && version < FETCH_STABLE {
        return Err(Error::configuration(format!(
            "require_stable needs OffsetFetch v{FETCH_STABLE} (Kafka 2.5) or later, and v{version} is in use"
        )));
    }
    if version < FETCH_ALL
        && let Some((group, _)) = groups.clone().find(|(_, partitions)| partitions.is_none())
    {
        let since = required_release(ApiKey::OffsetFetch, FETCH_ALL).unwrap_or_default();
        return Err(Error::configuration(format!(
            "OffsetFetch v{version} cannot ask for all that group {group} has, which {since}: name the partitions"
        )));
    }
    // A topic without an id does not exist, so it has no committed offset.
    let id_of = |topic: &str| Ok(ids.map_or(Some(Uuid::ZERO), |ids| ids.get(topic).copied()));
    Ok(OffsetFetchRequest { require_stable, ..messages::fetch_request(version, groups, id_of)? })
}

type FetchedByPartition = HashMap<TopicPartition, OffsetAndMetadata>;

fn read_fetched(
    version: i16,
    response: OffsetFetchResponse,
    groups: &[String],
    names: &HashMap<Uuid, String>,
) -> Result<PerGroup<FetchedByPartition>> {
    let first = groups.first().map(String::as_str).unwrap_or_default();
    let mut all = Vec::new();
    for group in by_group(version, first, response) {
        let mut partitions = Vec::new();
        for topic in group.topics {
            let name = topic_name(names, topic.name, &topic.topic_id)?;
            let topic_partitions = topic.partitions.into_iter();
            partitions.extend(topic_partitions.map(|p| (TopicPartition::new(&*name, p.partition_index), p)));
        }
        let result = read_group(&group.group_id, version, group.error_code, partitions);
        all.push((group.group_id, result));
    }
    Ok(all)
}

fn read_group(
    group: &str,
    version: i16,
    code: i16,
    partitions: Vec<(TopicPartition, OffsetFetchResponsePartitions)>,
) -> Result<FetchedByPartition> {
    let mut offsets = FetchedByPartition::new();
    // Apache Kafka responds for an unknown group as if it had no offsets, but other brokers return this error.
    if code == ErrorCode::GROUP_ID_NOT_FOUND.code() {
        return Ok(offsets);
    }
    let failed = |code| Error::server(code, format!("OffsetFetch for group {group}"));
    ErrorCode::from_i16(code).ok().map_err(failed)?;
    for (tp, partition) in partitions {
        // In version 0, this error means that the partition has no offset in ZooKeeper.
        if partition.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code() {
            continue;
        }
        let context = |code| format!("OffsetFetch of {tp} for group {group}{}", hint(code, version));
        ErrorCode::from_i16(partition.error_code).ok().map_err(|code| Error::server(code, context(code)))?;
        offsets.extend(committed(partition).map(|offset| (tp, offset)));
    }
    Ok(offsets)
}
