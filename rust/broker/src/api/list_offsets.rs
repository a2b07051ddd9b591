//! ListOffsets, v0–v11. Looks up the earliest offset, the latest offset, or an offset by timestamp or by maximum
//! timestamp.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ListOffsetsRequest;
use samsarrow_wire::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsResponse, ListOffsetsTopicResponse,
};

use super::{Call, Handler, Outcome};
use crate::log::search;
use crate::state::topic::{Partition, Topic};

const READ_COMMITTED: i8 = 1;
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
/// Timestamps that request offsets of tiered storage. Tiered storage is not supported, so the returned offset is -1.
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// An offset with the timestamp and leader epoch of its record. Unknown fields are -1.
struct FoundOffset {
    offset: i64,
    timestamp: i64,
    epoch: i32,
}

const UNKNOWN: FoundOffset = FoundOffset { offset: -1, timestamp: -1, epoch: -1 };

fn find(
    call: &Call<'_>,
    committed_only: bool,
    partition: &Partition,
    requested: &ListOffsetsPartition,
) -> Result<FoundOffset, ErrorCode> {
    let state = partition.state();
    state.check_leader(call.node, requested.current_leader_epoch)?;
    let earliest = state.log.start_offset();
    let end = if committed_only { state.last_stable_offset() } else { state.log.next_offset() };
    let batch = match requested.timestamp {
        LATEST => {
            return Ok(FoundOffset { offset: end, timestamp: -1, epoch: state.leader_epoch });
        }
        EARLIEST | EARLIEST_LOCAL => {
            // The epoch of the first record, or the current leader epoch if the log is empty.
            let epoch = state.log.epoch_of(earliest).unwrap_or(state.leader_epoch);
            return Ok(FoundOffset { offset: earliest, timestamp: -1, epoch });
        }
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => return Ok(UNKNOWN),
        MAX_TIMESTAMP => state.log.batch_at_max_time(),
        timestamp if timestamp >= 0 => state.log.batch_at_time(timestamp),
        _ => return Err(ErrorCode::UNSUPPORTED_VERSION),
    };
    // The search may decompress the batch, so it runs after the lock is released.
    drop(state);
    let Some(batch) = batch else { return Ok(UNKNOWN) };
    let result = match requested.timestamp {
        MAX_TIMESTAMP => search::latest(batch, earliest),
        timestamp => search::at_or_after(batch, timestamp, earliest),
    };
    // Records at or after `end` are not returned. With `read_committed`, `end` is the last stable offset.
    Ok(result.filter(|result| (earliest..end).contains(&result.offset)).map_or(UNKNOWN, |result| FoundOffset {
        offset: result.offset,
        timestamp: result.timestamp,
        epoch: result.epoch,
    }))
}

fn failed(requested: &ListOffsetsPartition, code: ErrorCode) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse {
        partition_index: requested.partition_index,
        error_code: code.code(),
        ..ListOffsetsPartitionResponse::default()
    }
}

fn partition_response(
    call: &Call<'_>,
    committed_only: bool,
    topic: Option<&Arc<Topic>>,
    requested: &ListOffsetsPartition,
) -> ListOffsetsPartitionResponse {
    let Some(partition) = topic.and_then(|topic| topic.partition(requested.partition_index)) else {
        return failed(requested, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    let result = match find(call, committed_only, partition, requested) {
        Ok(result) => result,
        Err(code) => return failed(requested, code),
    };
    let response = ListOffsetsPartitionResponse { partition_index: requested.partition_index, ..Default::default() };
    if call.version > 0 {
        return ListOffsetsPartitionResponse {
            timestamp: result.timestamp,
            offset: result.offset,
            leader_epoch: if call.version >= 4 { result.epoch } else { -1 },
            ..response
        };
    }
    // Version 0 returns segment offsets in descending order. The log counts as one segment, so these are its end and
    // its start offset.
    let mut offsets = Vec::new();
    if result.offset >= 0 {
        offsets.push(result.offset);
        let start = partition.state().log.start_offset();
        if requested.timestamp == LATEST && result.offset > start {
            offsets.push(start);
        }
    }
    offsets.truncate(usize::try_from(requested.max_num_offsets).unwrap_or_default());
    ListOffsetsPartitionResponse { old_style_offsets: offsets, ..response }
}

impl Handler for ListOffsetsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let mut topics = Vec::with_capacity(self.topics.len());
        for requested in &self.topics {
            let topic = call.state.topic(&requested.name);
            let partition_response =
                |requested| partition_response(call, self.isolation_level == READ_COMMITTED, topic.as_ref(), requested);
            topics.push(ListOffsetsTopicResponse {
                name: requested.name.clone(),
                partitions: requested.partitions.iter().map(partition_response).collect(),
                ..ListOffsetsTopicResponse::default()
            });
        }
        call.reply::<Self>(&ListOffsetsResponse { topics, ..ListOffsetsResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ListOffsetsResponse {
        let topics = self.topics.iter().map(|requested| ListOffsetsTopicResponse {
            name: requested.name.clone(),
            partitions: requested.partitions.iter().map(|requested| failed(requested, code)).collect(),
            ..ListOffsetsTopicResponse::default()
        });
        ListOffsetsResponse { topics: topics.collect(), ..ListOffsetsResponse::default() }
    }
}
