//! Offsets of a group, committed and fetched through its coordinator in whatever version is in use: 0 stores them in
//! ZooKeeper, 1 and up in Kafka, 10 names topics by id (KIP-848).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{ApiKey, OffsetCommitRequest, OffsetFetchResponse, Uuid};
use tokio::time::Instant;

use super::messages::{FETCH_STABLE, by_group, commit_topics, committed, fetch_request};
use crate::cluster::coordinator::{Coordinator, Verdict};
use crate::cluster::metadata::Metadata;
use crate::cluster::{ApiVersionOverride, Cluster};
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::types::{Identity, OffsetAndMetadata, TopicPartition, some_of};

/// From this version on, a commit names a static member.
const STATIC_MEMBERS: i16 = 7;
/// From these versions on, topics are named by id.
const COMMIT_BY_ID: i16 = 10;
const FETCH_BY_ID: i16 = 10;

/// How long a topic may be unknown that was just made: the news takes a moment to reach every broker.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// What became of each partition of a commit.
pub type Outcomes = Vec<(TopicPartition, Result<()>)>;

/// Commits offsets in the name of `who`; the answer has the order of `offsets`. What failed for now is tried again
/// until `timeout`, what went through is not. Topics and partitions that nobody knows are errors of their own: the
/// others never wait for them.
///
/// # Errors
/// What the coordinator says of the group or the member, so that nothing was committed in this attempt; a timeout with
/// its cause where nothing was committed at all.
pub async fn commit(
    cluster: &Cluster,
    coordinator: &Coordinator,
    who: &Identity,
    offsets: &[(TopicPartition, OffsetAndMetadata)],
    timeout: Duration,
) -> Result<Outcomes> {
    commit_with(cluster, coordinator, who, offsets, &TopicIds::new(), PATIENCE, timeout).await
}

/// Ids of the topics that offsets belong to, by partition.
pub(crate) type TopicIds = BTreeMap<TopicPartition, Uuid>;

/// As [`commit`]. Offsets of a topic that has another id than in `topic_ids` by now are not committed: without an entry
/// there, they belong to the topic that is known at the call. What the coordinator does not know is asked about again for as long as `patience`, and not looked up before
/// without any.
pub(crate) async fn commit_with(
    cluster: &Cluster,
    coordinator: &Coordinator,
    who: &Identity,
    offsets: &[(TopicPartition, OffsetAndMetadata)],
    topic_ids: &TopicIds,
    patience: Duration,
    timeout: Duration,
) -> Result<Outcomes> {
    if offsets.is_empty() {
        return Ok(Vec::new());
    }
    let (began, group) = (Instant::now(), coordinator.group());
    let denied = match patience.is_zero() {
        true => BTreeSet::new(),
        false => look_up(cluster, offsets.iter().map(|(tp, _)| tp), timeout).await?,
    };
    let metadata = cluster.metadata();
    let hopeless = |tp: &TopicPartition| super::absent(&metadata, tp).or_else(|| refused(&metadata, &tp.topic));
    let done = offsets.iter().filter_map(|(tp, _)| Some((tp.clone(), Err(hopeless(tp)?)))).collect();
    let done: Mutex<BTreeMap<TopicPartition, Result<()>>> = Mutex::new(done);
    let lock = || done.lock().unwrap_or_else(PoisonError::into_inner);
    let open = |done: &BTreeMap<TopicPartition, Result<()>>| -> Vec<_> {
        offsets.iter().filter(|(tp, _)| !done.contains_key(tp)).collect()
    };
    let is_recreated = |tp: &TopicPartition, latest: &Metadata| {
        let id = |of: &Metadata| of.topic(&tp.topic).map_or(Uuid::ZERO, |topic| topic.topic_id);
        let known = topic_ids.get(tp).copied().filter(|id| !id.is_zero());
        let (before, now) = (known.unwrap_or_else(|| id(&metadata)), id(latest));
        !before.is_zero() && !now.is_zero() && before != now
    };
    let names = Names::default();
    let change = |cluster: &Cluster| {
        let latest = cluster.metadata();
        for (tp, _) in offsets.iter().filter(|(tp, _)| is_recreated(tp, &latest)) {
            let context = format!("OffsetCommit of {tp} for group {group}: the topic was deleted and created again");
            lock().entry(tp.clone()).or_insert_with(|| Err(Error::server(ErrorCode::UNKNOWN_TOPIC_ID, context)));
        }
        let known = all_have_ids(&latest, open(&lock()).into_iter().map(|(tp, _)| tp));
        by_name_unless(known, cluster, ApiKey::OffsetCommit, COMMIT_BY_ID)
    };
    let build = |version| commit_request(&cluster.metadata(), &names, group, who, version, open(&lock()));
    let judge = |_, response: samsarrow_wire::messages::OffsetCommitResponse| {
        let mut done = lock();
        let mut again = None;
        for topic in response.topics {
            let name = names.of(topic.name, &topic.topic_id)?;
            for partition in topic.partitions {
                let tp = TopicPartition::new(&*name, partition.partition_index);
                let Err(code) = ErrorCode::from_i16(partition.error_code).ok() else {
                    done.insert(tp, Ok(()));
                    continue;
                };
                let context = format!("OffsetCommit of {tp} for group {group}");
                let unknown = matches!(code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION | ErrorCode::UNKNOWN_TOPIC_ID);
                match Verdict::of(code, &context) {
                    // The brokers, asked before, said the same.
                    Ok(_) if unknown && (began.elapsed() >= patience || denied.contains(&*tp.topic)) => {
                        done.insert(tp, Err(Error::server(code, context)));
                    }
                    Ok(verdict) if matches!(again, None | Some(Verdict::Retry(_))) => again = Some(verdict),
                    Ok(_) => {}
                    Err(error) if of_the_whole(code) => return Err(error),
                    Err(error) => drop(done.insert(tp, Err(error))),
                }
            }
        }
        if let Some(again) = again {
            return Ok(again);
        }
        // Silence is no consent: a partition that is left out may not be committed.
        let silent: Vec<_> = open(&done).into_iter().map(|(tp, _)| tp).collect();
        if !silent.is_empty() {
            let reason = format!("the answer to OffsetCommit for group {group} leaves out {}", some_of(silent));
            return Err(Error::protocol("the coordinator", reason));
        }
        Ok(Verdict::Done(()))
    };
    if open(&lock()).is_empty() {
        return Ok(in_order(offsets, done, &Error::closed("the consumer")));
    }
    match coordinator.call_as(timeout.saturating_sub(began.elapsed()), change, build, judge).await {
        Ok(()) => Ok(in_order(offsets, done, &Error::closed("the consumer"))),
        // What went through before is no less committed.
        Err(error @ Error::Timeout { .. }) if lock().values().any(Result::is_ok) => Ok(in_order(offsets, done, &error)),
        Err(error) => Err(error),
    }
}

/// The outcomes in the order of `offsets`; `missing` is what became of those that have none.
fn in_order(
    offsets: &[(TopicPartition, OffsetAndMetadata)],
    done: Mutex<BTreeMap<TopicPartition, Result<()>>>,
    missing: &Error,
) -> Outcomes {
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let outcome = |tp| done.get(tp).cloned().unwrap_or_else(|| Err(missing.clone()));
    offsets.iter().map(|(tp, _)| (tp.clone(), outcome(tp))).collect()
}

/// Errors that speak of the member or the group, though each partition carries them.
fn of_the_whole(code: ErrorCode) -> bool {
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
    names: &Names,
    group: &str,
    who: &Identity,
    version: i16,
    offsets: impl IntoIterator<Item = &'a (TopicPartition, OffsetAndMetadata)>,
) -> Result<OffsetCommitRequest> {
    let id_of = |topic: &str| if version >= COMMIT_BY_ID { names.id_of(metadata, topic) } else { Ok(Uuid::ZERO) };
    let topics = commit_topics(offsets, None, id_of)?;
    Ok(OffsetCommitRequest {
        group_id: group.to_owned(),
        generation_id_or_member_epoch: who.generation,
        member_id: who.member_id.clone(),
        // Before version 7 there are no static members, and nothing to send (KIP-345).
        group_instance_id: who.instance_id.clone().filter(|_| version >= STATIC_MEMBERS),
        topics,
        ..Default::default()
    })
}

/// Fetches committed offsets; `None` where the group has committed none. The answer has the order of `partitions`. With
/// `stable`, open transactions that commit offsets are waited for (KIP-447).
///
/// # Errors
/// What the coordinator says of the group or of a partition, naming it; a timeout with its cause.
pub async fn fetch_committed(
    cluster: &Cluster,
    coordinator: &Coordinator,
    partitions: &[TopicPartition],
    stable: bool,
    timeout: Duration,
) -> Result<Vec<(TopicPartition, Option<OffsetAndMetadata>)>> {
    let mut retry = Retry::new(cluster.options(), timeout);
    let (mut found, mut open) = (HashMap::new(), partitions.to_vec());
    loop {
        let mut unstable = Vec::new();
        for (tp, outcome) in fetch_committed_each(cluster, coordinator, &open, stable, retry.left()).await? {
            match outcome {
                Ok(at) => drop(found.insert(tp, at)),
                Err(error) => unstable.push((tp, error)),
            }
        }
        let Some((_, error)) = unstable.first().cloned() else { break };
        open = unstable.into_iter().map(|(tp, _)| tp).collect();
        retry.wait(error, || format!("OffsetFetch for group {}", coordinator.group())).await?;
    }
    // Every partition that is not open any more was found, or is known to have no offset.
    Ok(partitions.iter().map(|tp| (tp.clone(), found.get(tp).cloned().flatten())).collect())
}

/// As [`fetch_committed`], without waiting for open transactions: a partition in one is `UNSTABLE_OFFSET_COMMIT`, and
/// the others have their offsets.
pub(crate) async fn fetch_committed_each(
    cluster: &Cluster,
    coordinator: &Coordinator,
    partitions: &[TopicPartition],
    stable: bool,
    timeout: Duration,
) -> Result<Answers> {
    if partitions.is_empty() {
        return Ok(Vec::new());
    }
    let began = Instant::now();
    look_up(cluster, partitions, timeout).await?;
    let metadata = cluster.metadata();
    if let Some(error) = partitions.iter().find_map(|tp| refused(&metadata, &tp.topic)) {
        return Err(error);
    }
    let names = Names::default();
    let change = |cluster: &Cluster| {
        let known = all_have_ids(&cluster.metadata(), partitions);
        by_name_unless(known, cluster, ApiKey::OffsetFetch, FETCH_BY_ID)
    };
    let build = |version| {
        let metadata = cluster.metadata();
        let id_of = |topic: &str| match version >= FETCH_BY_ID {
            true => names.id_of(&metadata, topic).map(Some),
            false => Ok(Some(Uuid::ZERO)),
        };
        let mut request = fetch_request(version, [(coordinator.group(), Some(partitions))], id_of)?;
        // Brokers before 2.5 know nothing of it.
        request.require_stable = stable && version >= FETCH_STABLE;
        Ok(request)
    };
    let judge = |version, response| read_fetched(&names, coordinator.group(), version, response);
    let found = coordinator.call_as(timeout.saturating_sub(began.elapsed()), change, build, judge).await?;
    Ok(by_partition(coordinator.group(), partitions, found))
}

/// The answers in the order of `partitions`. One that is left out is no sign that nothing is committed there.
fn by_partition(group: &str, partitions: &[TopicPartition], found: Committed) -> Answers {
    let Some(mut found) = found else {
        return partitions.iter().map(|tp| (tp.clone(), Ok(None))).collect();
    };
    let missing = |tp: &TopicPartition| {
        let reason = format!("the answer to OffsetFetch for group {group} leaves out {tp}");
        Err(Error::protocol("the coordinator", reason))
    };
    partitions.iter().map(|tp| (tp.clone(), found.remove(tp).unwrap_or_else(|| missing(tp)))).collect()
}

/// What is committed for each partition.
type Answers = Vec<(TopicPartition, Result<Option<OffsetAndMetadata>>)>;

/// The answer for each partition; `None` of a group that does not exist.
type Committed = Option<HashMap<TopicPartition, Result<Option<OffsetAndMetadata>>>>;

fn read_fetched(names: &Names, group: &str, version: i16, response: OffsetFetchResponse) -> Result<Verdict<Committed>> {
    let mut found = HashMap::new();
    let (mut verdict, mut exists) = (None, true);
    let mut failed = |code: i16, what: &str| -> Result<bool> {
        let Err(code) = ErrorCode::from_i16(code).ok() else { return Ok(false) };
        verdict = Some(Verdict::of(code, &format!("OffsetFetch{what} for group {group}"))?);
        Ok(true)
    };
    for answer in by_group(version, group, response) {
        // Of a group that nobody committed for Apache Kafka says that nothing is committed; other brokers, so.
        if answer.error_code == ErrorCode::GROUP_ID_NOT_FOUND.code() {
            exists = false;
            continue;
        }
        failed(answer.error_code, "")?;
        for topic in answer.topics {
            let name = names.of(topic.name, &topic.topic_id)?;
            for partition in topic.partitions {
                let tp = TopicPartition::new(&*name, partition.partition_index);
                // How version 0 says that ZooKeeper holds nothing for a partition, and others that no such group exists.
                let none = [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, ErrorCode::GROUP_ID_NOT_FOUND];
                if none.iter().any(|code| code.code() == partition.error_code) {
                    found.insert(tp, Ok(None));
                    continue;
                }
                // A transaction is open for as long as its producer wants: the other partitions do not wait for it.
                if partition.error_code == ErrorCode::UNSTABLE_OFFSET_COMMIT.code() {
                    let context = format!("OffsetFetch of {tp} for group {group}");
                    found.insert(tp, Err(Error::server(ErrorCode::UNSTABLE_OFFSET_COMMIT, context)));
                } else if !failed(partition.error_code, &format!(" of {tp}"))? {
                    found.insert(tp, Ok(committed(partition)));
                }
            }
        }
    }
    Ok(verdict.unwrap_or(Verdict::Done(exists.then_some(found))))
}

/// Asks for metadata once where a topic or partition is not known: it may be old. What the coordinator is to be asked
/// about known topics does not depend on it, so that it may fail. Gives the topics that do not exist.
async fn look_up(
    cluster: &Cluster,
    partitions: impl IntoIterator<Item = &TopicPartition>,
    timeout: Duration,
) -> Result<BTreeSet<String>> {
    let metadata = cluster.metadata();
    let mut unknown = BTreeSet::new();
    let mut absent = false;
    for tp in partitions {
        match metadata.topic(&tp.topic) {
            None => drop(unknown.insert(&*tp.topic)),
            Some(topic) => absent |= topic.partition(tp.partition).is_none(),
        }
    }
    let limit = cluster.options().request_timeout.min(timeout / 2);
    let unknown: Vec<&str> = unknown.into_iter().collect();
    if !unknown.is_empty() {
        let denied = |outcome: &Result<()>| {
            let code = outcome.as_ref().err().and_then(Error::code);
            code == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code())
        };
        let outcomes = cluster.topics_each(&unknown, limit).await;
        return Ok(outcomes.into_iter().filter(|(_, outcome)| denied(outcome)).map(|(name, _)| name).collect());
    }
    if absent
        && let Err(error) = cluster.refresh(limit).await
        && !error.retriable()
    {
        return Err(error);
    }
    Ok(BTreeSet::new())
}

/// What a broker says of a topic for good.
fn refused(metadata: &Metadata, topic: &str) -> Option<Error> {
    let code = metadata.topic_error(topic).filter(|code| !code.retriable() && metadata.topic(topic).is_none())?;
    Some(Error::server(code, format!("topic {topic}")))
}

fn all_have_ids<'a>(metadata: &Metadata, partitions: impl IntoIterator<Item = &'a TopicPartition>) -> bool {
    let mut topics = partitions.into_iter().map(|tp| &tp.topic);
    topics.all(|topic| metadata.topic(topic).is_some_and(|topic| !topic.topic_id.is_zero()))
}

/// One topic whose id nobody knows must not keep the others waiting: then all go by their names, as they did before.
fn by_name_unless(known: bool, cluster: &Cluster, api: ApiKey, by_id: i16) -> Cluster {
    if known { cluster.clone() } else { cluster.with_version(api, ApiVersionOverride::AtMost(by_id - 1)) }
}

/// The names of the ids that were asked about: metadata may have forgotten them when the answer comes.
#[derive(Debug, Default)]
struct Names(Mutex<HashMap<Uuid, String>>);

impl Names {
    fn id_of(&self, metadata: &Metadata, topic: &str) -> Result<Uuid> {
        match metadata.topic(topic).map(|topic| topic.topic_id) {
            Some(id) if !id.is_zero() => {
                self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id, topic.to_owned());
                Ok(id)
            }
            _ => Err(Error::server(ErrorCode::UNKNOWN_TOPIC_ID, format!("topic {topic}"))),
        }
    }

    fn of(&self, name: String, id: &Uuid) -> Result<String> {
        if !name.is_empty() {
            return Ok(name);
        }
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        known.ok_or_else(|| {
            Error::protocol("the coordinator", format!("an answer about topic id {id:?}, never asked for"))
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
        let answered = |error_code| {
            let of = |(partition_index, committed_offset)| OffsetFetchResponsePartitions {
                partition_index,
                committed_offset,
                ..Default::default()
            };
            let partitions = vec![of((0, 7)), of((1, -1))];
            let topics = vec![OffsetFetchResponseTopics { name: "t".into(), partitions, ..Default::default() }];
            let group = OffsetFetchResponseGroup { group_id: "g".into(), topics, error_code, ..Default::default() };
            let response = OffsetFetchResponse { groups: vec![group], ..Default::default() };
            match read_fetched(&Names::default(), "g", 9, response).unwrap() {
                Verdict::Done(found) => by_partition("g", &tps, found),
                _ => panic!("not done"),
            }
        };
        let found = answered(0);
        assert_eq!(found[0].1.as_ref().unwrap().as_ref().map(|at| at.offset), Some(7));
        assert_eq!(found[1].1, Ok(None));
        let text = found[2].1.as_ref().unwrap_err().to_string();
        assert!(text.contains("for group g leaves out t-2"), "{text}");
        // A group that does not exist has committed nothing.
        assert!(answered(ErrorCode::GROUP_ID_NOT_FOUND.code()).iter().all(|(_, found)| *found == Ok(None)));
    }
}
