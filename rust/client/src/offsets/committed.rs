//! Commit and fetch of group offsets through the coordinator. Version 0 stores offsets in ZooKeeper, version 1 and
//! later in Kafka; version 10 and later use topic ids (KIP-848).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Mutex;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, OffsetCommitRequest, OffsetFetchResponse, Uuid};
use samsarrow_wire::sync::{into_inner, lock};
use tokio::time::Instant;

use super::messages::{FETCH_STABLE, by_group, commit_topics, committed, fetch_request};
use crate::cluster::coordinator::{Coordinator, Verdict};
use crate::cluster::metadata::Metadata;
use crate::cluster::{ApiVersionOverride, Cluster};
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::types::{MemberIdentity, OffsetAndMetadata, TopicPartition, join_limited};

/// First version of OffsetCommit with `group_instance_id`.
const STATIC_MEMBERS: i16 = 7;
/// First versions of OffsetCommit and OffsetFetch with topic ids.
const COMMIT_BY_ID: i16 = 10;
const FETCH_BY_ID: i16 = 10;

/// Time for which an unknown topic is retried, because a new topic takes a moment to reach all brokers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// Result per partition of a commit.
pub type Outcomes = Vec<(TopicPartition, Result<()>)>;

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
    let is_recreated = |tp: &TopicPartition, latest: &Metadata| {
        let id = |metadata: &Metadata| metadata.topic(&tp.topic).map_or(Uuid::ZERO, |topic| topic.topic_id);
        let known = topic_ids.get(tp).copied().filter(|id| !id.is_zero());
        let (before, now) = (known.unwrap_or_else(|| id(&metadata)), id(latest));
        !before.is_zero() && !now.is_zero() && before != now
    };
    let names = TopicNames::default();
    let change = |cluster: &Cluster| {
        let latest = cluster.metadata();
        for (tp, _) in offsets.iter().filter(|(tp, _)| is_recreated(tp, &latest)) {
            let context = format!("OffsetCommit of {tp} for group {group}: the topic was deleted and created again");
            lock().entry(tp.clone()).or_insert_with(|| Err(Error::server(ErrorCode::UNKNOWN_TOPIC_ID, context)));
        }
        let known = all_have_ids(&latest, pending(&lock()).into_iter().map(|(tp, _)| tp));
        without_topic_ids_unless(known, cluster, ApiKey::OffsetCommit, COMMIT_BY_ID)
    };
    let build = |version| commit_request(&cluster.metadata(), &names, group, member, version, pending(&lock()));
    let judge = |_, response: samsarrow_wire::messages::OffsetCommitResponse| {
        let mut done = lock();
        let mut retry = None;
        for topic in response.topics {
            let name = names.resolve(topic.name, &topic.topic_id)?;
            for partition in topic.partitions {
                let tp = TopicPartition::new(&*name, partition.partition_index);
                let Err(code) = ErrorCode::from_i16(partition.error_code).ok() else {
                    done.insert(tp, Ok(()));
                    continue;
                };
                let context = format!("OffsetCommit of {tp} for group {group}");
                let unknown = matches!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID);
                match Verdict::of(code, &context) {
                    // Brokers have reported the topic as unknown before this commit, or for longer than `patience`.
                    Ok(_) if unknown && (started_at.elapsed() >= patience || unknown_topics.contains(&*tp.topic)) => {
                        done.insert(tp, Err(Error::server(code, context)));
                    }
                    Ok(verdict) if matches!(retry, None | Some(Verdict::Retry(_))) => retry = Some(verdict),
                    Ok(_) => {}
                    Err(error) if is_group_error(code) => return Err(error),
                    Err(error) => drop(done.insert(tp, Err(error))),
                }
            }
        }
        if let Some(verdict) = retry {
            return Ok(verdict);
        }
        // A partition that is missing from the response may not have been committed.
        let missing: Vec<_> = pending(&done).into_iter().map(|(tp, _)| tp).collect();
        if !missing.is_empty() {
            let reason = format!("the response to OffsetCommit for group {group} leaves out {}", join_limited(missing));
            return Err(Error::protocol("the coordinator", reason));
        }
        Ok(Verdict::Done(()))
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

/// Returns true if an error concerns the whole group or member, although responses contain it per partition.
fn is_group_error(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::REBALANCE_IN_PROGRESS
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::FENCED_INSTANCE_ID
            | ErrorCode::STALE_MEMBER_EPOCH
            | ErrorCode::INVALID_GROUP_ID
            | ErrorCode::GROUP_ID_NOT_FOUND
            | ErrorCode::GROUP_AUTHORIZATION_FAILED
    )
}

fn commit_request<'a>(
    metadata: &Metadata,
    names: &TopicNames,
    group: &str,
    member: &MemberIdentity,
    version: i16,
    offsets: impl IntoIterator<Item = &'a (TopicPartition, OffsetAndMetadata)>,
) -> Result<OffsetCommitRequest> {
    let id_of = |topic: &str| if version >= COMMIT_BY_ID { names.id_of(metadata, topic) } else { Ok(Uuid::ZERO) };
    let topics = commit_topics(offsets, None, id_of)?;
    Ok(OffsetCommitRequest {
        group_id: group.to_owned(),
        generation_id_or_member_epoch: member.generation,
        member_id: member.member_id.clone(),
        // Static members exist since version 7 (KIP-345).
        group_instance_id: member.instance_id.clone().filter(|_| version >= STATIC_MEMBERS),
        topics,
        ..Default::default()
    })
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
    let (mut offsets, mut pending) = (HashMap::new(), partitions.to_vec());
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
        retry.wait(error, || format!("OffsetFetch for group {}", coordinator.group())).await?;
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
    let names = TopicNames::default();
    let change = |cluster: &Cluster| {
        let known = all_have_ids(&cluster.metadata(), partitions);
        without_topic_ids_unless(known, cluster, ApiKey::OffsetFetch, FETCH_BY_ID)
    };
    let build = |version| {
        let metadata = cluster.metadata();
        let id_of = |topic: &str| match version >= FETCH_BY_ID {
            true => names.id_of(&metadata, topic).map(Some),
            false => Ok(Some(Uuid::ZERO)),
        };
        let mut request = fetch_request(version, [(coordinator.group(), Some(partitions))], id_of)?;
        // Brokers before Kafka 2.5 do not support `require_stable`.
        request.require_stable = stable && version >= FETCH_STABLE;
        Ok(request)
    };
    let judge = |version, response| read_fetched(&names, coordinator.group(), version, response);
    let committed = coordinator.call_with(timeout.saturating_sub(started_at.elapsed()), change, build, judge).await?;
    Ok(by_partition(coordinator.group(), partitions, committed))
}

/// Returns the results in the order of `partitions`, with an error for each partition that is missing from the
/// response.
fn by_partition(group: &str, partitions: &[TopicPartition], committed: Committed) -> FetchResults {
    let Some(mut committed) = committed else {
        return partitions.iter().map(|tp| (tp.clone(), Ok(None))).collect();
    };
    let missing = |tp: &TopicPartition| {
        let reason = format!("the answer to OffsetFetch for group {group} leaves out {tp}");
        Err(Error::protocol("the coordinator", reason))
    };
    partitions.iter().map(|tp| (tp.clone(), committed.remove(tp).unwrap_or_else(|| missing(tp)))).collect()
}

/// Committed offset of each partition, or its error. The offset is `None` if the group has committed none.
type FetchResults = Vec<(TopicPartition, Result<Option<OffsetAndMetadata>>)>;

/// Committed offset of each partition; `None` if the group does not exist.
type Committed = Option<HashMap<TopicPartition, Result<Option<OffsetAndMetadata>>>>;

fn read_fetched(
    names: &TopicNames,
    group: &str,
    version: i16,
    response: OffsetFetchResponse,
) -> Result<Verdict<Committed>> {
    let mut offsets = HashMap::new();
    let (mut verdict, mut exists) = (None, true);
    let mut failed = |code: i16, item: &str| -> Result<bool> {
        let Err(code) = ErrorCode::from_i16(code).ok() else { return Ok(false) };
        verdict = Some(Verdict::of(code, &format!("OffsetFetch{item} for group {group}"))?);
        Ok(true)
    };
    for response in by_group(version, group, response) {
        // Apache Kafka reports an unknown group as a group without offsets, but other brokers return this error.
        if response.error_code == ErrorCode::GROUP_ID_NOT_FOUND.code() {
            exists = false;
            continue;
        }
        failed(response.error_code, "")?;
        for topic in response.topics {
            let name = names.resolve(topic.name, &topic.topic_id)?;
            for partition in topic.partitions {
                let tp = TopicPartition::new(&*name, partition.partition_index);
                // Version 0 reports a missing offset in ZooKeeper as an unknown partition.
                let none = [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::GROUP_ID_NOT_FOUND];
                if none.iter().any(|code| code.code() == partition.error_code) {
                    offsets.insert(tp, Ok(None));
                    continue;
                }
                // This error fails only its partition, so that other partitions do not wait for an open transaction.
                if partition.error_code == ErrorCode::UNSTABLE_OFFSET_COMMIT.code() {
                    let context = format!("OffsetFetch of {tp} for group {group}");
                    offsets.insert(tp, Err(Error::server(ErrorCode::UNSTABLE_OFFSET_COMMIT, context)));
                } else if !failed(partition.error_code, &format!(" of {tp}"))? {
                    offsets.insert(tp, Ok(committed(partition)));
                }
            }
        }
    }
    Ok(verdict.unwrap_or(Verdict::Done(exists.then_some(offsets))))
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
fn without_topic_ids_unless(known: bool, cluster: &Cluster, api: ApiKey, by_id: i16) -> Cluster {
    if known { cluster.clone() } else { cluster.with_version(api, ApiVersionOverride::AtMost(by_id - 1)) }
}

/// Names of the requested topic ids. They are kept here, because the topics may be missing from the metadata when the
/// response arrives.
#[derive(Debug, Default)]
struct TopicNames(Mutex<HashMap<Uuid, String>>);

impl TopicNames {
    fn id_of(&self, metadata: &Metadata, topic: &str) -> Result<Uuid> {
        match metadata.topic(topic).map(|topic| topic.topic_id) {
            Some(id) if !id.is_zero() => {
                lock(&self.0).insert(id, topic.to_owned());
                Ok(id)
            }
            _ => Err(Error::server(ErrorCode::UNKNOWN_TOPIC_ID, format!("topic {topic}"))),
        }
    }

    fn resolve(&self, name: String, id: &Uuid) -> Result<String> {
        if !name.is_empty() {
            return Ok(name);
        }
        let known = lock(&self.0).get(id).cloned();
        known.ok_or_else(|| {
            Error::protocol(
                "the coordinator",
                format!("the response contains topic id {id:?}, which was not requested"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use samsarrow_wire::messages::offset_fetch::{
        OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
    };

    use super::*;

    #[test]
    fn a_partition_that_an_answer_leaves_out_is_an_error() {
        let tps = [0, 1, 2].map(|partition| TopicPartition::new("t", partition));
        let fetched = |error_code| {
            let partition = |(partition_index, committed_offset)| OffsetFetchResponsePartitions {
                partition_index,
                committed_offset,
                ..Default::default()
            };
            let partitions = vec![partition((0, 7)), partition((1, -1))];
            let topics = vec![OffsetFetchResponseTopics { name: "t".into(), partitions, ..Default::default() }];
            let group = OffsetFetchResponseGroup { group_id: "g".into(), topics, error_code, ..Default::default() };
            let response = OffsetFetchResponse { groups: vec![group], ..Default::default() };
            match read_fetched(&TopicNames::default(), "g", 9, response).unwrap() {
                Verdict::Done(found) => by_partition("g", &tps, found),
                _ => panic!("not done"),
            }
        };
        let results = fetched(0);
        assert_eq!(results[0].1.as_ref().unwrap().as_ref().map(|at| at.offset), Some(7));
        assert_eq!(results[1].1, Ok(None));
        let text = results[2].1.as_ref().unwrap_err().to_string();
        assert!(text.contains("for group g leaves out t-2"), "{text}");
        // A group that does not exist has committed nothing.
        assert!(fetched(ErrorCode::GROUP_ID_NOT_FOUND.code()).iter().all(|(_, result)| *result == Ok(None)));
    }
}
