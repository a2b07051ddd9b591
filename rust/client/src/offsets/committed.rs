//! Commit and fetch of group offsets through the coordinator.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, Uuid};
use samsarrow_wire::sync::{into_inner, lock};
use tokio::time::Instant;

use super::messages::{FetchResults, Outcomes, commit_request, fetch_request, read_commit, read_fetch};
use super::topic_ids::{TOPIC_IDS, TopicIdMap};
use crate::cluster::coordinator::{Coordinator, Verdict};
use crate::cluster::metadata::Metadata;
use crate::cluster::{ApiVersionOverride, Cluster};
use crate::collections::HashMap;
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::types::{MemberIdentity, OffsetAndMetadata, TopicPartition};

/// Time for which an unknown topic is retried, because a new topic takes a moment to reach all brokers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Commits offsets as `member`. Returns the results in the order of `offsets`.
///
/// Retries partitions with a retriable error until `timeout`, without committing the other partitions again. Unknown
/// topics and partitions fail separately and do not delay other partitions.
///
/// # Errors
/// Fails if the coordinator returns an error for the group or the member, in which case this attempt committed nothing,
/// or after `timeout` if no partition was committed by then.
pub async fn commit(
    cluster: &Cluster,
    coordinator: &Coordinator,
    member: &MemberIdentity,
    offsets: &[(TopicPartition, OffsetAndMetadata)],
    timeout: Duration,
) -> Result<Outcomes> {
    commit_with(cluster, coordinator, member, offsets, &TopicIds::new(), PATIENCE, timeout).await
}

/// Topic ids of the offsets, by partition.
pub(crate) type TopicIds = BTreeMap<TopicPartition, Uuid>;

/// Like [`commit`], but does not commit offsets of topics that were deleted and recreated.
///
/// A topic was recreated if its id differs from the id in `topic_ids` or, without an entry, from the id known at the
/// time of the call. Unknown topics are retried for `patience`; if `patience` is zero, they are not looked up before
/// the commit either.
pub(crate) async fn commit_with(
    cluster: &Cluster,
    coordinator: &Coordinator,
    member: &MemberIdentity,
    offsets: &[(TopicPartition, OffsetAndMetadata)],
    topic_ids: &TopicIds,
    patience: Duration,
    timeout: Duration,
) -> Result<Outcomes> {
    if offsets.is_empty() {
        return Ok(Vec::new());
    }
    let (started_at, group) = (Instant::now(), coordinator.group());
    let unknown_topics = match patience.is_zero() {
        true => BTreeSet::new(),
        false => refresh_unknown(cluster, offsets.iter().map(|(tp, _)| tp), timeout).await?,
    };
    let metadata = cluster.metadata();
    let final_error = |tp: &TopicPartition| super::absent(&metadata, tp).or_else(|| topic_error(&metadata, &tp.topic));
    let done = offsets.iter().filter_map(|(tp, _)| Some((tp.clone(), Err(final_error(tp)?)))).collect();
    let done: Mutex<BTreeMap<TopicPartition, Result<()>>> = Mutex::new(done);
    let lock = || lock(&done);
    let pending = |done: &BTreeMap<TopicPartition, Result<()>>| -> Vec<_> {
        offsets.iter().filter(|(tp, _)| !done.contains_key(tp)).collect()
    };
    let id_of =
        |metadata: &Metadata, topic: &str| metadata.topic(topic).map(|topic| topic.topic_id).filter(|id| !id.is_zero());
    let before = |tp: &TopicPartition| {
        topic_ids.get(tp).copied().filter(|id| !id.is_zero()).or_else(|| id_of(&metadata, &tp.topic))
    };
    // Ids at the time of the call. They are sent even if the topic is missing in later metadata: a request with its
    // name would reach a topic that was created again since.
    let ids_of_call: BTreeMap<&str, Uuid> = offsets
        .iter()
        .filter_map(|(tp, _)| Some((&*tp.topic, id_of(&metadata, &tp.topic).or_else(|| before(tp))?)))
        .collect();
    let is_recreated = |tp: &TopicPartition, latest: &Metadata| {
        let now = id_of(latest, &tp.topic).or_else(|| ids_of_call.get(&*tp.topic).copied());
        before(tp).zip(now).is_some_and(|(before, now)| before != now)
    };
    let ids = TopicIdMap::new(|topic| {
        let id = ids_of_call.get(topic).copied().or_else(|| id_of(&cluster.metadata(), topic));
        id.map(Some).ok_or_else(|| unknown_id(topic))
    });
    let change = |cluster: &Cluster| {
        let latest = cluster.metadata();
        for (tp, _) in offsets.iter().filter(|(tp, _)| is_recreated(tp, &latest)) {
            let context = format!("OffsetCommit of {tp} for group {group}: the topic was deleted and created again");
            lock().entry(tp.clone()).or_insert_with(|| Err(Error::server(ErrorCode::UNKNOWN_TOPIC_ID, context)));
        }
        let has_id = |tp: &TopicPartition| ids_of_call.contains_key(&*tp.topic) || id_of(&latest, &tp.topic).is_some();
        let known = pending(&lock()).into_iter().all(|(tp, _)| has_id(tp));
        without_topic_ids_unless(known, cluster, ApiKey::OffsetCommit)
    };
    // True if brokers have reported the topic as unknown before this commit, or for longer than `patience`.
    let is_final = |tp: &TopicPartition, error: &Error| {
        let unknown = [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::UNKNOWN_TOPIC_ID];
        let unknown = unknown.iter().any(|code| error.code() == Some(code.code()));
        unknown && (started_at.elapsed() >= patience || unknown_topics.contains(&*tp.topic))
    };
    let build = |version| commit_request(version, group, member, pending(&lock()), &ids);
    let judge = |version, response| {
        let mut done = lock();
        let requested = pending(&done).into_iter().map(|(tp, _)| tp);
        let outcomes = match read_commit(version, group, member, requested, response, &ids) {
            Ok(outcomes) => outcomes,
            Err(error) => return Verdict::of_error(error),
        };
        let mut retry = None;
        for (tp, outcome) in outcomes {
            match outcome {
                Err(error) if error.retriable() && !is_final(&tp, &error) => retry = Some(error),
                // The id is that of the call, and no topic has the name now.
                Err(error)
                    if error.code() == Some(ErrorCode::UNKNOWN_TOPIC_ID.code())
                        && cluster.metadata().topic(&tp.topic).is_none() =>
                {
                    let context = format!("OffsetCommit of {tp} for group {group}");
                    done.insert(tp, Err(Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context)));
                }
                outcome => drop(done.insert(tp, outcome)),
            }
        }
        retry.map_or(Ok(Verdict::Done(())), Verdict::of_error)
    };
    if pending(&lock()).is_empty() {
        return Ok(in_order(offsets, done, &Error::closed("the consumer")));
    }
    match coordinator.call_with(timeout.saturating_sub(started_at.elapsed()), change, build, judge).await {
        Ok(()) => Ok(in_order(offsets, done, &Error::closed("the consumer"))),
        // Partitions committed by earlier attempts remain committed, so their results are returned despite the timeout.
        Err(error @ Error::Timeout { .. }) if lock().values().any(Result::is_ok) => Ok(in_order(offsets, done, &error)),
        Err(error) => Err(error),
    }
}

/// Returns the results in the order of `offsets`; partitions without a result get the error `missing`.
fn in_order(
    offsets: &[(TopicPartition, OffsetAndMetadata)],
    done: Mutex<BTreeMap<TopicPartition, Result<()>>>,
    missing: &Error,
) -> Outcomes {
    let done = into_inner(done);
    let outcome = |tp| done.get(tp).cloned().unwrap_or_else(|| Err(missing.clone()));
    offsets.iter().map(|(tp, _)| (tp.clone(), outcome(tp))).collect()
}

/// Fetches committed offsets in the order of `partitions`, with `None` for partitions without a committed offset.
///
/// With `stable`, waits for open transactions that commit offsets (KIP-447).
///
/// # Errors
/// Fails if the coordinator returns an error for the group or a partition, or after `timeout`.
pub async fn fetch_committed(
    cluster: &Cluster,
    coordinator: &Coordinator,
    partitions: &[TopicPartition],
    stable: bool,
    timeout: Duration,
) -> Result<Vec<(TopicPartition, Option<OffsetAndMetadata>)>> {
    let mut retry = Retry::new(cluster.options(), timeout);
    let (mut offsets, mut pending) = (HashMap::default(), partitions.to_vec());
    loop {
        let mut unstable = Vec::new();
        for (tp, outcome) in fetch_committed_each(cluster, coordinator, &pending, stable, retry.left()).await? {
            match outcome {
                Ok(offset) => drop(offsets.insert(tp, offset)),
                Err(error) => unstable.push((tp, error)),
            }
        }
        let Some((_, error)) = unstable.first().cloned() else { break };
        pending = unstable.into_iter().map(|(tp, _)| tp).collect();
        retry.again(error, || format!("OffsetFetch for group {}", coordinator.group())).await?;
    }
    // Every partition has a result here. `None` means that the partition has no committed offset.
    Ok(partitions.iter().map(|tp| (tp.clone(), offsets.get(tp).cloned().flatten())).collect())
}

/// Like [`fetch_committed`], but does not wait for open transactions: partitions with an open transaction fail with
/// `UNSTABLE_OFFSET_COMMIT`.
pub(crate) async fn fetch_committed_each(
    cluster: &Cluster,
    coordinator: &Coordinator,
    partitions: &[TopicPartition],
    stable: bool,
    timeout: Duration,
) -> Result<FetchResults> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let started_at = Instant::now();
    refresh_unknown(cluster, partitions, timeout).await?;
    let metadata = cluster.metadata();
    if let Some(error) = partitions.iter().find_map(|tp| topic_error(&metadata, &tp.topic)) {
        return Err(error);
    }
    let ids = ids_in_metadata(cluster);
    let change = |cluster: &Cluster| {
        let known = all_have_ids(&cluster.metadata(), partitions);
        without_topic_ids_unless(known, cluster, ApiKey::OffsetFetch)
    };
    let groups = [(coordinator.group(), Some(partitions))];
    let build = |version| fetch_request(version, groups, stable, &ids);
    let judge = |version, response| {
        let results = read_fetch(version, groups, response, &ids).into_iter().map(|(_, results)| results);
        match results.collect::<Result<Vec<_>>>() {
            Ok(results) => Ok(Verdict::Done(results.concat())),
            Err(error) => Verdict::of_error(error),
        }
    };
    coordinator.call_with(timeout.saturating_sub(started_at.elapsed()), change, build, judge).await
}

/// Refreshes metadata once if a topic or partition is unknown. Returns the topics that do not exist.
///
/// Requests for known topics do not depend on the refresh, so retriable errors of the refresh are ignored.
async fn refresh_unknown(
    cluster: &Cluster,
    partitions: impl IntoIterator<Item = &TopicPartition>,
    timeout: Duration,
) -> Result<BTreeSet<String>> {
    let metadata = cluster.metadata();
    let mut unknown = BTreeSet::new();
    let mut partition_missing = false;
    for tp in partitions {
        match metadata.topic(&tp.topic) {
            None => drop(unknown.insert(&*tp.topic)),
            Some(topic) => partition_missing |= topic.partition(tp.partition).is_none(),
        }
    }
    let limit = cluster.options().request_timeout.min(timeout / 2);
    let unknown: Vec<&str> = unknown.into_iter().collect();
    if !unknown.is_empty() {
        let is_unknown = |outcome: &Result<()>| {
            let code = outcome.as_ref().err().and_then(Error::code);
            code == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code())
        };
        let outcomes = cluster.topics_each(&unknown, limit).await;
        return Ok(outcomes.into_iter().filter(|(_, outcome)| is_unknown(outcome)).map(|(name, _)| name).collect());
    }
    if partition_missing
        && let Err(error) = cluster.refresh(limit).await
        && !error.retriable()
    {
        return Err(error);
    }
    Ok(BTreeSet::new())
}

/// Returns the error of an unknown topic if it is not retriable.
fn topic_error(metadata: &Metadata, topic: &str) -> Option<Error> {
    let code = metadata.topic_error(topic).filter(|code| !code.retriable() && metadata.topic(topic).is_none())?;
    Some(Error::server(code, format!("topic {topic}")))
}

fn all_have_ids<'a>(metadata: &Metadata, partitions: impl IntoIterator<Item = &'a TopicPartition>) -> bool {
    let mut topics = partitions.into_iter().map(|tp| &tp.topic);
    topics.all(|topic| metadata.topic(topic).is_some_and(|topic| !topic.topic_id.is_zero()))
}

/// Limits the API to versions with topic names if any topic id is unknown, so that this topic does not make the request
/// fail for other topics.
fn without_topic_ids_unless(known: bool, cluster: &Cluster, api: ApiKey) -> Cluster {
    if known { cluster.clone() } else { cluster.with_version(api, ApiVersionOverride::AtMost(TOPIC_IDS - 1)) }
}

/// Returns a map that looks up topic ids in the latest metadata.
fn ids_in_metadata(cluster: &Cluster) -> TopicIdMap<'_> {
    TopicIdMap::new(|topic| {
        let id = cluster.metadata().topic(topic).map(|topic| topic.topic_id).filter(|id| !id.is_zero());
        id.map(Some).ok_or_else(|| unknown_id(topic))
    })
}

fn unknown_id(topic: &str) -> Error {
    Error::server(ErrorCode::UNKNOWN_TOPIC_ID, format!("topic {topic}"))
}
