//! Offsets of groups as an operator sets and reads them, in a version of choice: 0 is of the storage in ZooKeeper, 1 and
//! up are of the storage in Kafka.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::offset_fetch::OffsetFetchResponsePartitions;
use samsarrow_wire::messages::{
    ApiKey, OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, OffsetFetchResponse, Request, Uuid,
};
use tokio::time::Instant;

use super::Admin;
use super::batch::{Route, Work, of_groups};
use super::engine::Asked;
use crate::api_versions::needed;
use crate::cluster::{ApiVersionOverride, Cluster};
use crate::error::{Error, Result};
use crate::offsets::messages::{self, FETCH_GROUPS, FETCH_STABLE, by_group, commit_topics, committed};
use crate::types::{OffsetAndMetadata, TopicPartition};

/// The last versions that name topics by name. An operator's tool means names, and needs no metadata for them.
const LAST_BY_NAME: i16 = 9;
/// The version with a timestamp of its own for each commit.
const COMMIT_TIMESTAMP: i16 = 1;
/// The versions that say how long an offset is kept (KIP-211 took that away).
const RETENTION: std::ops::RangeInclusive<i16> = 2..=4;
/// From this version on a request can ask for all that a group has.
const FETCH_ALL: i16 = 2;

/// What became of each partition, in the order of the request.
pub type PerPartition = Vec<(TopicPartition, Result<()>)>;
/// What a group has committed, `None` where nothing.
pub type Fetched = Vec<(TopicPartition, Option<OffsetAndMetadata>)>;
/// What became of each group, in the order of the request.
pub type PerGroup<T> = Vec<(String, Result<T>)>;

/// How to commit.
#[derive(Debug, Clone, Default)]
pub struct CommitSettings {
    /// The version of the request; without it what the options say, or the newest that names topics by name.
    pub version: Option<i16>,
    /// How long the offsets are kept; versions 2 to 4.
    pub retention: Option<Duration>,
    /// When they count as committed, in milliseconds since 1970; version 1.
    pub timestamp: Option<i64>,
}

/// How to fetch.
#[derive(Debug, Clone, Default)]
pub struct FetchSettings {
    /// The version of the request; without it what the options say, or the newest that names topics by name.
    pub version: Option<i16>,
    /// Wait for open transactions that hold offsets; from version 7 on.
    pub require_stable: bool,
}

/// Names and ids of topics, for versions that know only ids.
type Ids = HashMap<String, Uuid>;

impl Admin {
    /// Commits offsets for a group, from outside of it. Each partition has its own outcome, in the order of `offsets`.
    ///
    /// # Errors
    /// What the coordinator says of the group as a whole; a version that the broker does not speak, or that cannot hold
    /// what `settings` ask for; a timeout with its cause.
    pub async fn commit_offsets(
        &self,
        group: &str,
        offsets: &[(TopicPartition, OffsetAndMetadata)],
        settings: &CommitSettings,
        timeout: Duration,
    ) -> Result<PerPartition> {
        if let Some((tp, bad)) = offsets.iter().find(|(_, at)| at.offset < 0) {
            let text = format!("cannot commit offset {} of {tp}: offsets start at 0", bad.offset);
            return Err(Error::configuration(text));
        }
        if offsets.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = Instant::now() + timeout;
        let cluster = self.at_version(ApiKey::OffsetCommit, settings.version);
        let ids = self.ids::<OffsetCommitRequest>(&cluster, settings.version, timeout).await?;
        let known = |tp: &TopicPartition| ids.as_ref().is_none_or(|ids| ids.contains_key(&*tp.topic));
        let sent: Vec<_> = offsets.iter().filter(|(tp, _)| known(tp)).cloned().collect();
        let mut outcomes: HashMap<TopicPartition, Result<()>> = HashMap::new();
        for (tp, _) in offsets.iter().filter(|(tp, _)| !known(tp)) {
            let context = format!("OffsetCommit of {tp} for group {group}");
            outcomes.insert(tp.clone(), Err(Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context)));
        }
        if !sent.is_empty() {
            let names = ids.as_ref().map(names_of).unwrap_or_default();
            let build = |asked: &Asked<'_, String>| commit_request(group, asked.version, &sent, settings, ids.as_ref());
            let read = |asked: &Asked<'_, String>, response| {
                Ok(vec![(group.to_owned(), read_committed(group, asked.version, &sent, &names, response))])
            };
            let left = deadline.saturating_duration_since(Instant::now());
            let work = self.work(ApiKey::OffsetCommit, settings.version, left);
            let done = self.settle_at(&cluster, &work, &[group.to_owned()], build, read).await?;
            for (_, committed) in done {
                outcomes.extend(committed?);
            }
        }
        let taken = offsets.iter().filter_map(|(tp, _)| outcomes.remove_entry(tp));
        Ok(taken.collect())
    }

    /// What groups have committed: of the partitions given, in their order, or of all that the group has. Groups share
    /// requests where the broker takes that.
    ///
    /// # Errors
    /// What is not about one group: a version that a broker does not speak or that cannot hold what is asked for.
    pub async fn fetch_offsets(
        &self,
        groups: &[(String, Option<Vec<TopicPartition>>)],
        settings: &FetchSettings,
        timeout: Duration,
    ) -> Result<PerGroup<Fetched>> {
        let cluster = self.at_version(ApiKey::OffsetFetch, settings.version);
        let ids = self.ids::<OffsetFetchRequest>(&cluster, settings.version, timeout).await?;
        let names = ids.as_ref().map(names_of).unwrap_or_default();
        let wanted: HashMap<&str, Option<&[TopicPartition]>> =
            groups.iter().map(|(group, tps)| (group.as_str(), tps.as_deref())).collect();
        let partitions = |group: &str| wanted.get(group).copied().flatten();
        let build = |asked: &Asked<'_, String>| {
            let groups = asked.items.iter().map(|group| (group.as_str(), partitions(group)));
            fetch_request(asked.version, groups, settings.require_stable, ids.as_ref())
        };
        let read = |asked: &Asked<'_, String>, response| read_fetched(asked.version, response, asked.items, &names);
        let list: Vec<String> = groups.iter().map(|(group, _)| group.clone()).collect();
        let work = Work {
            most: |version| if version < FETCH_GROUPS { 1 } else { usize::MAX },
            ..self.work(ApiKey::OffsetFetch, settings.version, timeout)
        };
        let found = self.settle_at(&cluster, &work, &list, build, read).await?;
        let in_order = |(group, found): (String, Result<HashMap<TopicPartition, OffsetAndMetadata>>)| {
            let tps = partitions(&group);
            let found = found.map(|mut found| match tps {
                Some(tps) => tps.iter().map(|tp| (tp.clone(), found.remove(tp))).collect(),
                None => {
                    let all: BTreeMap<_, _> = found.into_iter().collect();
                    all.into_iter().map(|(tp, at)| (tp, Some(at))).collect()
                }
            });
            (group, found)
        };
        Ok(found.into_iter().map(in_order).collect())
    }

    fn at_version(&self, key: ApiKey, version: Option<i16>) -> Cluster {
        self.cluster
            .with_version(key, version.map_or(ApiVersionOverride::AtMost(LAST_BY_NAME), ApiVersionOverride::Exactly))
    }

    fn chosen(&self, key: ApiKey, version: Option<i16>) -> Option<i16> {
        version.or_else(|| self.cluster.options().api_versions.get(key.name()).copied())
    }

    /// Offsets in ZooKeeper have no coordinator.
    fn work(&self, key: ApiKey, version: Option<i16>, timeout: Duration) -> Work<String> {
        let work = of_groups(timeout);
        let in_zookeeper = self.chosen(key, version) == Some(0);
        Work { route: if in_zookeeper { Route::Any } else { work.route }, ..work }
    }

    /// The ids of all topics, if the version that was chosen needs them. A broker that does not speak it may know of no
    /// ids, so that is found out first.
    async fn ids<R: Request>(&self, cluster: &Cluster, version: Option<i16>, timeout: Duration) -> Result<Option<Ids>> {
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

fn names_of(ids: &Ids) -> HashMap<Uuid, String> {
    ids.iter().map(|(name, id)| (*id, name.clone())).collect()
}

/// The topic of an answer: its name, or the one that belongs to its id.
fn name_of(names: &HashMap<Uuid, String>, name: String, id: &Uuid) -> Result<String> {
    if !name.is_empty() {
        return Ok(name);
    }
    let known = names.get(id).cloned();
    known.ok_or_else(|| {
        Error::protocol("the coordinator", format!("the answer names topic id {id:?}, which is unknown"))
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

/// Errors that are about the group, though the answer puts them on each partition.
fn of_the_group(code: ErrorCode) -> bool {
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
            // These pass, and then all is asked for again.
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
    let mut silent: HashSet<&TopicPartition> = sent.iter().map(|(tp, _)| tp).collect();
    let mut outcomes = Committed::new();
    for topic in response.topics {
        let name = name_of(names, topic.name, &topic.topic_id)?;
        for partition in topic.partitions {
            let tp = TopicPartition::new(&*name, partition.partition_index);
            silent.remove(&tp);
            let context = format!("OffsetCommit of {tp} for group {group}");
            match ErrorCode::from_i16(partition.error_code).ok() {
                Err(code) if of_the_group(code) => return Err(Error::server(code, context + hint(code, version))),
                outcome => {
                    outcomes.insert(tp, outcome.map_err(|code| Error::server(code, context)));
                }
            }
        }
    }
    // Silence is no consent.
    for tp in silent {
        let reason = format!("the answer to OffsetCommit for group {group} leaves out {tp}");
        outcomes.insert(tp.clone(), Err(Error::protocol("the coordinator", reason)));
    }
    Ok(outcomes)
}

/// What is meant by an error that says something else.
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
        let since = needed(ApiKey::OffsetFetch, FETCH_ALL).unwrap_or_default();
        return Err(Error::configuration(format!(
            "OffsetFetch v{version} cannot ask for all that group {group} has, which {since}: name the partitions"
        )));
    }
    // A topic without an id does not exist, so nothing is committed for it.
    let id_of = |topic: &str| Ok(ids.map_or(Some(Uuid::ZERO), |ids| ids.get(topic).copied()));
    Ok(OffsetFetchRequest { require_stable, ..messages::fetch_request(version, groups, id_of)? })
}

type Found = HashMap<TopicPartition, OffsetAndMetadata>;

fn read_fetched(
    version: i16,
    response: OffsetFetchResponse,
    asked: &[String],
    names: &HashMap<Uuid, String>,
) -> Result<PerGroup<Found>> {
    let one = asked.first().map(String::as_str).unwrap_or_default();
    let mut all = Vec::new();
    for answer in by_group(version, one, response) {
        let mut partitions = Vec::new();
        for topic in answer.topics {
            let name = name_of(names, topic.name, &topic.topic_id)?;
            let of_topic = topic.partitions.into_iter();
            partitions.extend(of_topic.map(|p| (TopicPartition::new(&*name, p.partition_index), p)));
        }
        let said = found(&answer.group_id, version, answer.error_code, partitions);
        all.push((answer.group_id, said));
    }
    Ok(all)
}

fn found(
    group: &str,
    version: i16,
    code: i16,
    partitions: Vec<(TopicPartition, OffsetFetchResponsePartitions)>,
) -> Result<Found> {
    let mut found = Found::new();
    // Of a group that nobody committed for Apache Kafka says that nothing is committed; other brokers, so.
    if code == ErrorCode::GROUP_ID_NOT_FOUND.code() {
        return Ok(found);
    }
    let failed = |code| Error::server(code, format!("OffsetFetch for group {group}"));
    ErrorCode::from_i16(code).ok().map_err(failed)?;
    for (tp, partition) in partitions {
        // How version 0 says that ZooKeeper holds nothing for a partition.
        if partition.error_code == ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code() {
            continue;
        }
        let context = |code| format!("OffsetFetch of {tp} for group {group}{}", hint(code, version));
        ErrorCode::from_i16(partition.error_code).ok().map_err(|code| Error::server(code, context(code)))?;
        found.extend(committed(partition).map(|at| (tp, at)));
    }
    Ok(found)
}
