//! ListOffsets, v0–v11: earliest, latest, by timestamp, and by maximum timestamp.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ListOffsetsRequest;
use samsarrow_wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};

use super::{Call, Outcome, Serve};
use crate::log::search;
use crate::state::topic::{Partition, Topic};

const READ_COMMITTED: i8 = 1;
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
/// Offsets of tiered storage, which is not supported: the result is -1.
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// An offset with its timestamp and epoch; -1 stands for unknown.
struct Found {
    offset: i64,
    timestamp: i64,
    epoch: i32,
}

const NOTHING: Found = Found { offset: -1, timestamp: -1, epoch: -1 };

fn find(
    call: &Call<'_>,
    committed_only: bool,
    partition: &Partition,
    asked: &ListOffsetsPartition,
) -> Result<Found, ErrorCode> {
    let state = partition.state();
    state.check_leader(call.node, asked.current_leader_epoch)?;
    let earliest = state.log.start_offset();
    let end = if committed_only { state.last_stable_offset() } else { state.log.next_offset() };
    let batch = match asked.timestamp {
        LATEST => {
            return Ok(Found { offset: end, timestamp: -1, epoch: state.leader_epoch });
        }
        EARLIEST | EARLIEST_LOCAL => {
            // Epoch of the first record, or the leader's if the log is empty.
            let epoch = state.log.epoch_of(earliest).unwrap_or(state.leader_epoch);
            return Ok(Found { offset: earliest, timestamp: -1, epoch });
        }
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => return Ok(NOTHING),
        MAX_TIMESTAMP => state.log.batch_at_max_time(),
        timestamp if timestamp >= 0 => state.log.batch_at_time(timestamp),
        _ => return Err(ErrorCode::UNSUPPORTED_VERSION),
    };
    // The batch may have to be decompressed, so records are searched outside of the lock.
    drop(state);
    let Some(batch) = batch else { return Ok(NOTHING) };
    let found = match asked.timestamp {
        MAX_TIMESTAMP => search::latest(batch, earliest),
        timestamp => search::at_or_after(batch, timestamp, earliest),
    };
    // Records after the last stable offset are not reported.
    Ok(found.filter(|found| (earliest..end).contains(&found.offset)).map_or(NOTHING, |found| Found {
        offset: found.offset,
        timestamp: found.timestamp,
        epoch: found.epoch,
    }))
}

fn failed(asked: &ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse {
        partition_index: asked.partition_index,
        error_code: code.code(),
        ..ListOffsetsPartitionResponse::default()
    }
}

fn one(
    call: &Call<'_>,
    committed_only: bool,
    topic: Option<&Arc<Topic>>,
    asked: &ListOffsetsPartition,
) -> ListOffsetsPartitionResponse {
    let Some(partition) = topic.and_then(|topic| topic.partition(asked.partition_index)) else {
        return failed(asked, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    let found = match find(call, committed_only, partition, asked) {
        Ok(found) => found,
        Err(code) => return failed(asked, code),
    };
    let response = ListOffsetsPartitionResponse { partition_index: asked.partition_index, ..Default::default() };
    if call.version > 0 {
        return ListOffsetsPartitionResponse {
            timestamp: found.timestamp,
            offset: found.offset,
            leader_epoch: if call.version >= 4 { found.epoch } else { -1 },
            ..response
        };
    }
    // Version 0 lists offsets of segments: the end and the start of the log, newest first.
    let mut offsets = Vec::new();
    if found.offset >= 0 {
        offsets.push(found.offset);
        let start = partition.state().log.start_offset();
        if asked.timestamp == LATEST && found.offset > start {
            offsets.push(start);
        }
    }
    offsets.truncate(usize::try_from(asked.max_num_offsets).unwrap_or_default());
    ListOffsetsPartitionResponse { old_style_offsets: offsets, ..response }
}

impl Serve for ListOffsetsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let mut topics = Vec::with_capacity(self.topics.len());
        for asked in &self.topics {
            let topic = call.state.topic(&asked.name);
            let one = |asked| one(call, self.isolation_level == READ_COMMITTED, topic.as_ref(), asked);
            topics.push(ListOffsetsTopicResponse {
                name: asked.name.clone(),
                partitions: asked.partitions.iter().map(one).collect(),
                ..ListOffsetsTopicResponse::default()
            });
        }
        call.reply::<Self>(&ListOffsetsResponse { topics, ..ListOffsetsResponse::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> ListOffsetsResponse {
        let topics = self.topics.iter().map(|asked| ListOffsetsTopicResponse {
            name: asked.name.clone(),
            partitions: asked.partitions.iter().map(|asked| failed(asked, code)).collect(),
            ..ListOffsetsTopicResponse::default()
        });
        ListOffsetsResponse { topics: topics.collect(), ..ListOffsetsResponse::default() }
    }
}
