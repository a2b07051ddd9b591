//! Commits and fetches of group offsets by an operator, who can choose the API version. Version 0 accesses offsets in
//! ZooKeeper, later versions access offsets in Kafka.

use std::time::Duration;

use samsarrow_wire::messages::{ApiKey, OffsetCommitRequest, OffsetFetchRequest, Request, Uuid};
use tokio::time::Instant;

use super::Admin;
use super::batch::{BatchedRequest, Route, group_request};
use super::engine::RequestBatch;
use crate::api_versions::required_release;
use crate::cluster::{ApiVersionOverride, Cluster};
use crate::collections::HashMap;
use crate::error::{Error, Result};
use crate::offsets::messages::{
    self, FETCH_GROUPS, FETCH_STABLE, FetchResults, RequestedGroup, read_commit, read_fetch,
};
use crate::offsets::topic_ids::{TOPIC_IDS, TopicIdMap};
use crate::types::{MemberIdentity, OffsetAndMetadata, TopicPartition};

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

/// Settings for fetching the committed offsets of a group.
#[derive(Debug, Clone, Default)]
pub struct FetchSettings {
    /// API version. The default is the version set in the options, otherwise the newest version with topic names.
    pub version: Option<i16>,
    /// If true, the fetch waits until open transactions that commit offsets have completed. Versions before 7 do not
    /// support this.
    pub require_stable: bool,
}

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
        let member = MemberIdentity::default();
        let build = |batch: &RequestBatch<'_, String>| {
            let request = messages::commit_request(batch.version, group, &member, offsets, &ids)?;
            add_settings(batch.version, request, settings)
        };
        let read = |batch: &RequestBatch<'_, String>, response| {
            let requested = offsets.iter().map(|(tp, _)| tp);
            let outcomes = read_commit(batch.version, group, &member, requested, response, &ids);
            Ok(vec![(group.to_owned(), outcomes)])
        };
        let remaining = deadline.saturating_duration_since(Instant::now());
        let request = self.batched_request(ApiKey::OffsetCommit, settings.version, remaining);
        let committed = self.send_batched_on(&cluster, &request, &[group.to_owned()], build, read).await?;
        let outcomes: Result<Vec<_>> = committed.into_iter().map(|(_, outcomes)| outcomes).collect();
        Ok(outcomes?.concat())
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
        let requested: HashMap<&str, Option<&[TopicPartition]>> =
            groups.iter().map(|(group, tps)| (group.as_str(), tps.as_deref())).collect();
        let of_batch = |batch: &RequestBatch<'_, String>| -> Vec<RequestedGroup<'_>> {
            let items = batch.items.iter();
            items.filter_map(|group| requested.get_key_value(&**group)).map(|(group, tps)| (*group, *tps)).collect()
        };
        let build = |batch: &RequestBatch<'_, String>| {
            let groups = of_batch(batch);
            check_fetch(batch.version, &groups, settings.require_stable)?;
            messages::fetch_request(batch.version, groups, settings.require_stable, &ids)
        };
        let read = |batch: &RequestBatch<'_, String>, response| {
            let results = read_fetch(batch.version, of_batch(batch), response, &ids).into_iter();
            let offsets = |results: FetchResults| results.into_iter().map(|(tp, result)| Ok((tp, result?))).collect();
            Ok(results.map(|(group, results)| (group, results.and_then(offsets))).collect())
        };
        let list: Vec<String> = groups.iter().map(|(group, _)| group.clone()).collect();
        let request = BatchedRequest {
            max_items: |version| if version < FETCH_GROUPS { 1 } else { usize::MAX },
            ..self.batched_request(ApiKey::OffsetFetch, settings.version, timeout)
        };
        self.send_batched_on(&cluster, &request, &list, build, read).await
    }

    /// Returns a handle that uses `version`, or by default versions with topic names: operators specify topics by name,
    /// so these versions require no metadata.
    fn with_api_version(&self, key: ApiKey, version: Option<i16>) -> Cluster {
        let by_name = ApiVersionOverride::AtMost(TOPIC_IDS - 1);
        self.cluster.with_version(key, version.map_or(by_name, ApiVersionOverride::Exactly))
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

    /// Returns the ids of all topics, if the chosen version contains topic ids.
    ///
    /// Checks first that a broker supports the version, because a broker that is too old may not report topic ids.
    async fn topic_ids<R: Request>(
        &self,
        cluster: &Cluster,
        version: Option<i16>,
        timeout: Duration,
    ) -> Result<TopicIdMap<'static>> {
        let mut ids: HashMap<String, Uuid> = HashMap::default();
        if self.chosen(R::KEY, version).is_some_and(|version| version >= TOPIC_IDS) {
            let limit = timeout.min(cluster.options().request_timeout);
            if let Some(node) = fastrand::choice(self.brokers(limit).await?) {
                match cluster.version::<R>(node, limit).await {
                    Err(error) if !error.retriable() => return Err(error),
                    _ => {}
                }
            }
            let topics = self.list_topics(None, timeout).await?.into_iter().filter(|topic| !topic.topic_id.is_zero());
            ids.extend(topics.map(|topic| (topic.name, topic.topic_id)));
        }
        Ok(TopicIdMap::of_all(ids))
    }
}

/// Adds the retention and the timestamp, each of which only some versions support.
fn add_settings(
    version: i16,
    mut request: OffsetCommitRequest,
    settings: &CommitSettings,
) -> Result<OffsetCommitRequest> {
    if let Some(retention) = settings.retention {
        if !RETENTION.contains(&version) {
            return Err(Error::configuration(format!(
                "a retention is possible in OffsetCommit v2 to v4 only, and v{version} is in use: choose version 4, or use \
                 the broker's offsets.retention.minutes"
            )));
        }
        request.retention_time_ms = i64::try_from(retention.as_millis()).unwrap_or(i64::MAX);
    }
    if let Some(timestamp) = settings.timestamp {
        if version != COMMIT_TIMESTAMP {
            return Err(Error::configuration(format!(
                "OffsetCommit v{version} has no commit timestamp, only v1 does: omit the timestamp"
            )));
        }
        let partitions = request.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        partitions.for_each(|partition| partition.commit_timestamp = timestamp);
    }
    Ok(request)
}

/// Checks that the version can express a fetch.
fn check_fetch(version: i16, groups: &[RequestedGroup<'_>], require_stable: bool) -> Result<()> {
    if require_stable && version < FETCH_STABLE {
        return Err(Error::configuration(format!(
            "require_stable needs OffsetFetch v{FETCH_STABLE} (Kafka 2.5) or later, and v{version} is in use"
        )));
    }
    if version < FETCH_ALL
        && let Some((group, _)) = groups.iter().find(|(_, partitions)| partitions.is_none())
    {
        let since = required_release(ApiKey::OffsetFetch, FETCH_ALL).unwrap_or_default();
        return Err(Error::configuration(format!(
            "OffsetFetch v{version} cannot request all offsets of group {group}, which {since}: pass the partitions"
        )));
    }
    Ok(())
}
