//! The Fetch request of one round at one broker, and what its answer says.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use samsarrow_wire::batch::AbortedTransaction;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::fetch::{FetchPartition, FetchTopic, PartitionData};
use samsarrow_wire::messages::{FetchRequest, FetchResponse, Uuid};

use super::state::Shared;
use crate::config::{ConsumerOptions, IsolationLevel};
use crate::error::{Error, Result};
use crate::metadata::{Leader, Metadata};
use crate::types::TopicPartition;

/// From this version on, topics are named by id (KIP-516).
const BY_ID: i16 = 13;

/// One partition of a round.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) tp: TopicPartition,
    pub(super) version: u64,
    pub(super) offset: i64,
    /// Asked for first in its round: a broker sends at least one whole batch of it (KIP-74).
    pub(super) first: bool,
    epoch: i32,
}

#[cfg(test)]
impl Asked {
    pub(super) fn new(tp: TopicPartition, version: u64, offset: i64, first: bool) -> Self {
        Self { tp, version, offset, first, epoch: -1 }
    }
}

/// What to ask of one broker now.
#[derive(Debug)]
pub(super) struct Round {
    pub(super) asked: Vec<Asked>,
    /// The most that the answer should hold; reserved until it is here.
    pub(super) max_bytes: i32,
}

/// Why there is nothing to ask.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Idle {
    /// Until something changes.
    Wait,
    /// Until this moment, or something changes.
    Until(Instant),
}

/// The partitions that `node` leads and that want bytes, as far as memory allows. `turn` moves the first partition on
/// with each round, so that none starves when answers are cut at `fetch.max.bytes`. A round reserves no more than its
/// broker's share of the memory: brokers with nothing to send would otherwise keep it from the others while they wait.
pub(super) fn plan(
    shared: &Shared,
    metadata: &Metadata,
    node: i32,
    options: &ConsumerOptions,
    turn: usize,
) -> std::result::Result<Round, Idle> {
    let now = Instant::now();
    let mut state = shared.lock();
    let mut leaders = HashSet::new();
    let mut retry_at: Option<Instant> = None;
    let mut asked = Vec::new();
    for (tp, cursor) in &state.cursors {
        let Some(leader) = metadata.leader(&tp.topic, tp.partition) else { continue };
        leaders.insert(leader.node);
        if leader.node != node {
            continue;
        }
        match cursor.wants(now) {
            Some(offset) => {
                asked.push(Asked {
                    tp: tp.clone(),
                    version: cursor.version,
                    offset,
                    first: false,
                    epoch: leader.epoch,
                });
            }
            None => {
                let later = cursor.retry_at.filter(|at| *at > now && cursor.fetch_offset.is_some());
                retry_at = retry_at.into_iter().chain(later).min();
            }
        }
    }
    if asked.is_empty() {
        return Err(retry_at.map_or(Idle::Wait, Idle::Until));
    }
    let partition_bytes = options.max_partition_fetch_bytes as usize;
    let share = (options.queued_max_bytes / leaders.len().max(1)).max(1);
    let waiting = state.queued + state.reserved;
    let left = options.queued_max_bytes.saturating_sub(waiting);
    if waiting > 0 && left < partition_bytes.min(share) {
        return Err(Idle::Wait);
    }
    let first = turn % asked.len();
    asked.rotate_left(first);
    if let Some(asked) = asked.first_mut() {
        asked.first = true;
    }
    let all = partition_bytes.saturating_mul(asked.len());
    let max_bytes = all.min(options.fetch_max_bytes as usize).min(share).min(left.max(1));
    state.reserved += max_bytes;
    Ok(Round { asked, max_bytes: i32::try_from(max_bytes).unwrap_or(i32::MAX) })
}

/// The request of a round, in the form of `version`.
pub(super) fn build(
    round: &Round,
    version: i16,
    metadata: &Metadata,
    options: &ConsumerOptions,
) -> Result<FetchRequest> {
    // The order of partitions is kept: it is the order in which a broker fills its answer.
    let mut topics: Vec<FetchTopic> = Vec::new();
    for asked in &round.asked {
        let name = &*asked.tp.topic;
        if topics.last().is_none_or(|topic| topic.topic != name) {
            let topic_id = metadata.topic(name).map_or(Uuid::ZERO, |topic| topic.topic_id);
            if version >= BY_ID && topic_id.is_zero() {
                return Err(Error::server(ErrorCode::UNKNOWN_TOPIC_ID, format!("Fetch of topic {name}")));
            }
            topics.push(FetchTopic { topic: name.to_owned(), topic_id, ..Default::default() });
        }
        if let Some(topic) = topics.last_mut() {
            topic.partitions.push(FetchPartition {
                partition: asked.tp.partition,
                current_leader_epoch: asked.epoch,
                fetch_offset: asked.offset,
                partition_max_bytes: options.max_partition_fetch_bytes,
                ..Default::default()
            });
        }
    }
    Ok(FetchRequest {
        max_wait_ms: i32::try_from(options.fetch_max_wait.as_millis()).unwrap_or(i32::MAX),
        min_bytes: options.fetch_min_bytes,
        max_bytes: round.max_bytes,
        isolation_level: i8::from(options.isolation_level == IsolationLevel::ReadCommitted),
        // No session: each request is complete in itself (KIP-227).
        session_id: 0,
        session_epoch: -1,
        topics,
        rack_id: options.client_rack.clone(),
        ..Default::default()
    })
}

/// Bytes of one partition, and how to read them.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) asked: Asked,
    pub(super) records: bytes::Bytes,
    pub(super) aborted: Option<Vec<AbortedTransaction>>,
}

/// One partition's share of an answer.
#[derive(Debug)]
pub(super) enum Outcome {
    Records(Part),
    /// Nothing new.
    Empty(Asked),
    /// The offset is gone, or not there yet; the log is from the first to the second.
    OutOfRange(Asked, i64, i64),
    Failed(Asked, Error, Option<Leader>),
}

/// Sorts an answer by partition; partitions that were not asked for are left out.
pub(super) fn read(
    round: Round,
    response: FetchResponse,
    metadata: &Metadata,
    options: &ConsumerOptions,
) -> Vec<Outcome> {
    let mut asked: HashMap<(Arc<str>, i32), Asked> =
        round.asked.into_iter().map(|a| ((Arc::clone(&a.tp.topic), a.tp.partition), a)).collect();
    let names: BTreeMap<String, Arc<str>> = asked.keys().map(|(t, _)| (t.to_string(), Arc::clone(t))).collect();
    let mut outcomes = Vec::new();
    for topic in response.responses {
        let known = if topic.topic.is_empty() { metadata.topic_name(&topic.topic_id) } else { Some(&*topic.topic) };
        let Some(name) = known.and_then(|name| names.get(name)) else { continue };
        for partition in topic.partitions {
            if let Some(asked) = asked.remove(&(Arc::clone(name), partition.partition_index)) {
                outcomes.push(outcome(asked, partition, options));
            }
        }
    }
    outcomes
}

fn outcome(asked: Asked, partition: PartitionData, options: &ConsumerOptions) -> Outcome {
    match ErrorCode::from_i16(partition.error_code).ok() {
        Ok(()) => {}
        Err(ErrorCode::OFFSET_OUT_OF_RANGE) => {
            return Outcome::OutOfRange(asked, partition.log_start_offset, partition.high_watermark);
        }
        Err(code) => {
            let hint =
                Leader { node: partition.current_leader.leader_id, epoch: partition.current_leader.leader_epoch };
            let error = Error::server(code, format!("Fetch of {} at offset {}", asked.tp, asked.offset));
            return Outcome::Failed(asked, error, Some(hint).filter(|leader| leader.node >= 0));
        }
    }
    let Some(records) = partition.records.filter(|records| !records.is_empty()) else { return Outcome::Empty(asked) };
    let aborted = (options.isolation_level == IsolationLevel::ReadCommitted).then(|| {
        let list = partition.aborted_transactions.unwrap_or_default();
        list.into_iter()
            .map(|t| AbortedTransaction { producer_id: t.producer_id, first_offset: t.first_offset })
            .collect()
    });
    Outcome::Records(Part { asked, records, aborted })
}

/// How long an answer may take: the broker's own wait comes on top.
pub(super) fn limit(options: &ConsumerOptions, request_timeout: Duration) -> Duration {
    request_timeout.max(options.fetch_max_wait + Duration::from_secs(1))
}
