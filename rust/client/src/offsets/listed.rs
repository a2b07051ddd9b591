//! Offsets that the leaders of partitions know: the first, the last, the first at or after a time.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ListOffsetsRequest;
use samsarrow_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsTopic};
use tokio::time::{Instant, sleep};

use super::by_topic;
use crate::cluster::Cluster;
use crate::config::IsolationLevel;
use crate::error::{Error, Result};
use crate::types::{OffsetAndTimestamp, TopicPartition, some_of};

/// Which offset of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListTarget {
    /// The first that is still there.
    Earliest,
    /// The end: the high watermark, or the last stable offset for `read_committed`.
    Latest,
    /// The first record at or after so many milliseconds since 1970.
    Timestamp(i64),
}

impl ListTarget {
    fn on_the_wire(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::Timestamp(ms) => ms,
        }
    }
}

/// From this version on, a time is that of a record (KIP-79).
const BY_TIME: i16 = 1;

type Found = (TopicPartition, Option<OffsetAndTimestamp>);
/// What to ask a leader: the partition, the offset wanted, the leader epoch that we know.
type Question = (TopicPartition, (ListTarget, i32));

/// Asks the leaders of all `wanted` partitions, again where a leader moved, until `timeout`. The answer has the order of
/// `wanted`; `None` where no record is at or after the time asked for.
///
/// # Errors
/// What a broker says that retrying cannot heal, naming the partition; a timeout with its cause.
pub async fn list_offsets(
    cluster: &Cluster,
    wanted: &[(TopicPartition, ListTarget)],
    isolation: IsolationLevel,
    timeout: Duration,
) -> Result<Vec<Found>> {
    let deadline = Instant::now() + timeout;
    let mut found: HashMap<TopicPartition, Option<OffsetAndTimestamp>> = HashMap::new();
    let mut backoff = cluster.backoff();
    let mut failure: Option<Error> = None;
    let mut topics: Vec<&str> = wanted.iter().map(|(tp, _)| &*tp.topic).collect();
    topics.sort_unstable();
    topics.dedup();
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        cluster.topics(&topics, left).await?;
        super::check_partitions(cluster, wanted.iter().map(|(tp, _)| tp), left).await?;
        let open: Vec<_> = wanted.iter().filter(|(tp, _)| !found.contains_key(tp)).cloned().collect();
        let now = ask_leaders(cluster, &open, isolation, left, &mut found).await?;
        failure = now.map(|error| error.after(failure.take()));
        if wanted.iter().all(|(tp, _)| found.contains_key(tp)) {
            return Ok(wanted.iter().filter_map(|(tp, _)| found.remove_entry(tp)).collect());
        }
        cluster.request_refresh();
        let wait = backoff.next_delay();
        if Instant::now() + wait >= deadline {
            let open = wanted.iter().map(|(tp, _)| tp).filter(|tp| !found.contains_key(tp));
            return Err(Error::timeout_because(format!("ListOffsets of {}", some_of(open)), timeout, failure));
        }
        sleep(wait).await;
    }
}

/// One round; gives the last error that a later round may heal.
async fn ask_leaders(
    cluster: &Cluster,
    wanted: &[(TopicPartition, ListTarget)],
    isolation: IsolationLevel,
    timeout: Duration,
    found: &mut HashMap<TopicPartition, Option<OffsetAndTimestamp>>,
) -> Result<Option<Error>> {
    let metadata = cluster.metadata();
    let mut failure = None;
    let mut by_leader: BTreeMap<i32, Vec<Question>> = BTreeMap::new();
    for (tp, target) in wanted {
        match metadata.leader(&tp.topic, tp.partition) {
            Some(leader) => by_leader.entry(leader.node).or_default().push((tp.clone(), (*target, leader.epoch))),
            None => failure = Some(Error::server(ErrorCode::LEADER_NOT_AVAILABLE, tp.to_string())),
        }
    }
    let limit = timeout.min(cluster.options().request_timeout);
    let mut answers = Vec::with_capacity(by_leader.len());
    for (node, partitions) in by_leader {
        let build = |version| {
            check_targets(version, &partitions)?;
            Ok(request(version, partitions, isolation, limit))
        };
        match cluster.dispatch(node, limit, build).await {
            Ok(answer) => answers.push(answer),
            Err(error) if error.retriable() => failure = Some(error),
            Err(error) => return Err(error),
        }
    }
    for answer in answers {
        let topics = match answer.await {
            Ok(response) => response.topics,
            Err(error) if error.retriable() => {
                failure = Some(error);
                continue;
            }
            Err(error) => return Err(error),
        };
        for topic in topics {
            for partition in topic.partitions {
                let tp = TopicPartition::new(&*topic.name, partition.partition_index);
                match ErrorCode::from_i16(partition.error_code).ok() {
                    Ok(()) => {
                        found.insert(tp, offset(&partition));
                    }
                    Err(code) if code.retriable() => {
                        failure = Some(Error::server(code, format!("ListOffsets of {tp}")))
                    }
                    Err(code) => return Err(Error::server(code, format!("ListOffsets of {tp}"))),
                }
            }
        }
    }
    Ok(failure)
}

/// Version 0 takes a time for something else: the last segment that was written to before it.
fn check_targets(version: i16, partitions: &[Question]) -> Result<()> {
    let by_time = |question: &&Question| matches!(question.1.0, ListTarget::Timestamp(_));
    match partitions.iter().find(by_time) {
        Some((tp, _)) if version < BY_TIME => Err(Error::UnsupportedVersion(format!(
            "the offset of {tp} at a time: brokers before Kafka 0.10.1 cannot find it (ListOffsets v{version}), only the \
             first and the last offset"
        ))),
        _ => Ok(()),
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
