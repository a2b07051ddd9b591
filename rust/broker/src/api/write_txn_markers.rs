//! WriteTxnMarkers, v0–v2. Kafka brokers send it to end transactions, and administrators to abort hanging transactions.

use samsarrow_wire::batch::EndMarker;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::WriteTxnMarkersRequest;
use samsarrow_wire::messages::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};
use crate::state::transactions::driver::OFFSETS_TOPIC;

/// First transaction version in which each marker has a new producer epoch (KIP-1228).
const FIRST_WITH_BUMPS: i8 = 2;

fn write(call: &Call<'_>, requested: &WritableTxnMarker, topic: &str, partition: i32) -> Result<(), ErrorCode> {
    if topic == OFFSETS_TOPIC {
        lock(&call.state.groups).end_transaction(requested.producer_id, requested.transaction_result);
        return Ok(());
    }
    let target = call.state.topic(topic).and_then(|topic| topic.partition(partition).cloned());
    let target = target.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let marker = EndMarker {
        producer_id: requested.producer_id,
        producer_epoch: requested.producer_epoch,
        committed: requested.transaction_result,
        coordinator_epoch: requested.coordinator_epoch,
    };
    let mut state = target.state();
    state.check_leader(call.node, -1)?;
    state.end_transaction(&marker, requested.transaction_version >= FIRST_WITH_BUMPS)?;
    drop(state);
    target.wake();
    Ok(())
}

fn marker_result(requested: &WritableTxnMarker, code: impl Fn(&str, i32) -> ErrorCode) -> WritableTxnMarkerResult {
    let mut topics = Vec::with_capacity(requested.topics.len());
    for topic in &requested.topics {
        let partition = |partition: &i32| WritableTxnMarkerPartitionResult {
            partition_index: *partition,
            error_code: code(&topic.name, *partition).code(),
            ..WritableTxnMarkerPartitionResult::default()
        };
        topics.push(WritableTxnMarkerTopicResult {
            name: topic.name.clone(),
            partitions: topic.partition_indexes.iter().map(partition).collect(),
            ..WritableTxnMarkerTopicResult::default()
        });
    }
    WritableTxnMarkerResult { producer_id: requested.producer_id, topics, ..WritableTxnMarkerResult::default() }
}

impl Handler for WriteTxnMarkersRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let write_all = |requested: &WritableTxnMarker| {
            marker_result(requested, |topic, partition| {
                write(call, requested, topic, partition).err().unwrap_or(ErrorCode::NONE)
            })
        };
        let markers = self.markers.iter().map(write_all).collect();
        call.reply::<Self>(&WriteTxnMarkersResponse { markers, ..WriteTxnMarkersResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> WriteTxnMarkersResponse {
        let markers = self.markers.iter().map(|requested| marker_result(requested, |_, _| code)).collect();
        WriteTxnMarkersResponse { markers, ..WriteTxnMarkersResponse::default() }
    }
}
