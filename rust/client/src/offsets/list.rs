//! Offsets that the leaders of partitions know: the first, the last, the first at or after a time.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsTopic};
use samsarrow_wire::messages::{ApiKey, ListOffsetsRequest, ListOffsetsResponse};
use tokio::task::JoinSet;

use super::by_topic;
use crate::api_versions::needed;
use crate::cluster::Cluster;
use crate::cluster::metadata::Metadata;
use crate::config::IsolationLevel;
use crate::error::{Error, Result};
use crate::retry::Retry;
use crate::types::{OffsetAndTimestamp, TopicPartition, some_of};

/// Which offset of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListTarget {
    /// The first that is still there.
    Earliest,
    /// The end: the high watermark, or the last stable offset for `read_committed`.
    Latest,
    /// The first record at or after this many milliseconds since 1970.
    Timestamp(i64),
    /// The record with the largest timestamp (KIP-734).
    MaxTimestamp,
    /// The first that is on the leader's own disk (KIP-405).
    EarliestLocal,
    /// The last that is in tiered storage (KIP-1005).
    LatestTiered,
    /// The first that is not in tiered storage yet (KIP-1023).
    EarliestPendingUpload,
}

impl ListTarget {
    fn on_the_wire(self) -> i64 {
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

    /// The version of ListOffsets that has it first, and what it finds.
    fn since(self) -> (i16, &'static str) {
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

/// From this version on, a time is that of a record (KIP-79).
const BY_TIME: i16 = 1;

type Found = (TopicPartition, Option<OffsetAndTimestamp>);
/// What became of one partition: `None` where no record is at or after the time asked for.
pub type Listed = (TopicPartition, Result<Option<OffsetAndTimestamp>>);
/// What to ask a leader: the partition, the offset wanted, the leader epoch that we know.
type Question = (TopicPartition, (ListTarget, i32));

/// What to do about a topic that brokers say is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Absent {
    /// It may come to be: it is asked for until time is up.
    Awaited,
    /// That is the answer, as soon as brokers have said so twice.
    Told,
}

/// Asks the leaders of all `wanted` partitions, again where a leader moved, until `timeout`. The answer has the order of
/// `wanted`; `None` where no record is at or after the time asked for.
///
/// # Errors
/// Of the first partition that failed, once all others were asked for: what a broker says that retrying cannot heal; a
/// timeout with its cause.
pub async fn list_offsets(
    cluster: &Cluster,
    wanted: &[(TopicPartition, ListTarget)],
    isolation: IsolationLevel,
    timeout: Duration,
) -> Result<Vec<Found>> {
    let each = list_each(cluster, wanted, isolation, Absent::Awaited, timeout).await;
    each.into_iter().map(|(tp, outcome)| Ok((tp, outcome?))).collect()
}

/// The same with a result for each partition. One that does not exist keeps nobody waiting.
pub async fn list_offsets_each(
    cluster: &Cluster,
    wanted: &[(TopicPartition, ListTarget)],
    isolation: IsolationLevel,
    timeout: Duration,
) -> Vec<Listed> {
    list_each(cluster, wanted, isolation, Absent::Told, timeout).await
}

async fn list_each(
    cluster: &Cluster,
    wanted: &[(TopicPartition, ListTarget)],
    isolation: IsolationLevel,
    absent: Absent,
    timeout: Duration,
) -> Vec<Listed> {
    let mut found: HashMap<TopicPartition, Result<Option<OffsetAndTimestamp>>> = HashMap::new();
    list_as_found(cluster, wanted, isolation, absent, timeout, |listed| found.extend(listed)).await;
    let lost = |tp: &TopicPartition| Err(Error::timeout(format!("ListOffsets of {tp}"), timeout));
    wanted.iter().map(|(tp, _)| (tp.clone(), found.get(tp).cloned().unwrap_or_else(|| lost(tp)))).collect()
}

/// The same, given to `tell` as it is found: a leader that is slow or missing keeps nobody else waiting. Each partition
/// is given once.
pub(crate) async fn list_as_found(
    cluster: &Cluster,
    wanted: &[(TopicPartition, ListTarget)],
    isolation: IsolationLevel,
    absent: Absent,
    timeout: Duration,
    mut tell: impl FnMut(Vec<Listed>),
) {
    let mut retry = Retry::new(cluster.options(), timeout);
    let mut open: BTreeMap<TopicPartition, ListTarget> = wanted.iter().cloned().collect();
    let mut metadata_is_new = false;
    loop {
        let mut round = Round { open: &mut open, absent, failure: None, tell: &mut tell };
        round.look_up(cluster, &mut metadata_is_new, retry.left()).await;
        round.ask_leaders(cluster, isolation, retry.left()).await;
        let failure = round.failure;
        if open.is_empty() {
            return;
        }
        cluster.request_refresh();
        let failure = failure.unwrap_or_else(|| Error::timeout("ListOffsets", timeout));
        let what = || format!("ListOffsets of {}", some_of(open.keys()));
        if let Err(error) = retry.wait(failure, what).await {
            // That a topic is not there says more than that time is up.
            let metadata = cluster.metadata();
            let why = |tp: &TopicPartition| match metadata.topic_error(&tp.topic) {
                Some(code) if metadata.topic(&tp.topic).is_none() => Error::server(code, format!("topic {}", tp.topic)),
                _ => error.clone(),
            };
            return tell(open.into_keys().map(|tp| (tp.clone(), Err(why(&tp)))).collect());
        }
    }
}

/// Whether a later round may heal it. Java's client also asks again after an error that a broker cannot name.
fn passes(error: &Error) -> bool {
    error.retriable() || error.code() == Some(ErrorCode::UNKNOWN_SERVER_ERROR.code())
}

/// What is meant by an error that does not say what to do.
fn hint(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT => {
            " (to find offsets by time, set the topic's message.format.version to 0.10.0 or later)"
        }
        _ => "",
    }
}

/// One round of questions to all leaders.
struct Round<'a, F> {
    open: &'a mut BTreeMap<TopicPartition, ListTarget>,
    absent: Absent,
    /// The last error that a later round may heal.
    failure: Option<Error>,
    tell: &'a mut F,
}

impl<F: FnMut(Vec<Listed>)> Round<'_, F> {
    /// Partitions that do not exist fail here. Metadata that lacks one of a known topic may be old, so it is asked for
    /// once more.
    async fn look_up(&mut self, cluster: &Cluster, is_new: &mut bool, left: Duration) {
        let mut names: Vec<&str> = self.open.keys().map(|tp| &*tp.topic).collect();
        names.dedup();
        let limit = left.min(cluster.options().request_timeout);
        let topics = cluster.topics_each(&names, limit).await;
        let absent = |metadata: &Metadata, tp: &TopicPartition| {
            metadata.topic(&tp.topic).is_some() && metadata.partition(&tp.topic, tp.partition).is_none()
        };
        if !*is_new && self.open.keys().any(|tp| absent(&cluster.metadata(), tp)) {
            *is_new = cluster.refresh(limit).await.is_ok();
        }
        let metadata = cluster.metadata();
        let mut failed = Vec::new();
        for tp in self.open.keys() {
            match (metadata.topic(&tp.topic), topics.get(&*tp.topic)) {
                (Some(topic), _) if *is_new && absent(&metadata, tp) => {
                    let count = topic.partitions.len();
                    let context = format!("{tp} (topic {} has {count} partitions, from 0 on)", tp.topic);
                    failed.push((tp.clone(), Error::server(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, context)));
                }
                (None, Some(Err(error))) if !error.retriable() || self.is_answer(error) => {
                    failed.push((tp.clone(), error.clone()));
                }
                (None, Some(Err(error))) => self.failure = Some(error.clone()),
                _ => {}
            }
        }
        self.settle(failed.into_iter().map(|(tp, error)| (tp, Err(error))).collect());
    }

    /// Whether a topic need not be asked for again that metadata does not have.
    fn is_answer(&self, error: &Error) -> bool {
        self.absent == Absent::Told && error.code() == Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code())
    }

    async fn ask_leaders(&mut self, cluster: &Cluster, isolation: IsolationLevel, left: Duration) {
        let metadata = cluster.metadata();
        let mut by_leader: BTreeMap<i32, Vec<Question>> = BTreeMap::new();
        for (tp, target) in &*self.open {
            if metadata.topic(&tp.topic).is_none() {
                continue;
            }
            match metadata.leader(&tp.topic, tp.partition) {
                Some(leader) => by_leader.entry(leader.node).or_default().push((tp.clone(), (*target, leader.epoch))),
                None => self.failure = Some(Error::server(ErrorCode::LEADER_NOT_AVAILABLE, tp.to_string())),
            }
        }
        let limit = left.min(cluster.options().request_timeout);
        let mut asked = JoinSet::new();
        for (node, questions) in by_leader {
            let cluster = cluster.clone();
            asked.spawn(async move {
                let partitions: Vec<_> = questions.iter().map(|(tp, _)| tp.clone()).collect();
                let build = |version| {
                    check_targets(version, &questions)?;
                    Ok(request(version, questions, isolation, limit))
                };
                let answer = match cluster.dispatch(node, limit, build).await {
                    Ok(answer) => answer.await,
                    Err(error) => Err(error),
                };
                (node, partitions, answer)
            });
        }
        while let Some(answered) = asked.join_next().await {
            match answered {
                Ok((node, partitions, answer)) => self.read(node, partitions, answer),
                Err(failed) => {
                    if let Ok(panic) = failed.try_into_panic() {
                        std::panic::resume_unwind(panic);
                    }
                }
            }
        }
    }

    fn read(&mut self, node: i32, asked: Vec<TopicPartition>, answer: Result<ListOffsetsResponse>) {
        let mut told = HashMap::new();
        let failed = match answer {
            Ok(response) => {
                for topic in response.topics {
                    let name: Arc<str> = topic.name.into();
                    let of =
                        |p: &ListOffsetsPartitionResponse| TopicPartition::new(Arc::clone(&name), p.partition_index);
                    told.extend(topic.partitions.into_iter().map(|p| (of(&p), p)));
                }
                None
            }
            Err(error) => Some(error),
        };
        let mut listed = Vec::with_capacity(asked.len());
        for tp in asked {
            let outcome = match (&failed, told.get(&tp)) {
                (Some(error), _) => Err(error.clone()),
                (None, Some(partition)) => match ErrorCode::from_i16(partition.error_code).ok() {
                    Ok(()) => Ok(offset(partition)),
                    Err(code) => Err(Error::server(code, format!("ListOffsets of {tp}{}", hint(code)))),
                },
                (None, None) => {
                    let reason = format!("its answer to ListOffsets leaves out {tp}");
                    Err(Error::protocol(format!("broker {node}"), reason))
                }
            };
            match outcome {
                Err(error) if passes(&error) => self.failure = Some(error),
                outcome => listed.push((tp, outcome)),
            }
        }
        self.settle(listed);
    }

    fn settle(&mut self, listed: Vec<Listed>) {
        if !listed.is_empty() {
            for (tp, _) in &listed {
                self.open.remove(tp);
            }
            (self.tell)(listed);
        }
    }
}

/// What an older version would take for something else, version 0 a time for the last segment that was written before it.
fn check_targets(version: i16, partitions: &[Question]) -> Result<()> {
    match partitions.iter().find(|question| version < question.1.0.since().0) {
        Some((tp, (target, _))) => {
            let (since, what) = target.since();
            let needed = needed(ApiKey::ListOffsets, since).unwrap_or_default();
            Err(Error::UnsupportedVersion(format!(
                "{what} of {tp} {needed}, and this broker is older (ListOffsets v{version})"
            )))
        }
        None => Ok(()),
    }
}

fn request(version: i16, partitions: Vec<Question>, isolation: IsolationLevel, limit: Duration) -> ListOffsetsRequest {
    let partition = |(partition_index, (target, epoch)): (i32, (ListTarget, i32))| ListOffsetsPartition {
        partition_index,
        current_leader_epoch: epoch,
        timestamp: target.on_the_wire(),
        ..Default::default()
    };
    let topics = by_topic(partitions).into_iter().map(|(name, partitions)| ListOffsetsTopic {
        name: name.to_string(),
        partitions: partitions.into_iter().map(partition).collect(),
        ..Default::default()
    });
    ListOffsetsRequest {
        replica_id: -1,
        // Before version 2 there was only one level.
        isolation_level: i8::from(version >= 2 && isolation == IsolationLevel::ReadCommitted),
        topics: topics.collect(),
        timeout_ms: i32::try_from(limit.as_millis()).unwrap_or(i32::MAX),
        ..Default::default()
    }
}

/// Version 0 gives a list of offsets, later ones a single one; −1 is none.
fn offset(partition: &ListOffsetsPartitionResponse) -> Option<OffsetAndTimestamp> {
    let offset = partition.old_style_offsets.first().copied().unwrap_or(partition.offset);
    let leader_epoch = Some(partition.leader_epoch).filter(|epoch| *epoch >= 0);
    (offset >= 0).then_some(OffsetAndTimestamp { offset, timestamp: partition.timestamp, leader_epoch })
}
