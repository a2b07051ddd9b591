//! WriteTxnMarkers, v0–v2: sent by brokers, and by administrators to end a hanging transaction.

use samsarrow_wire::batch::EndMarker;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::WriteTxnMarkersRequest;
use samsarrow_wire::messages::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
};

use super::{Call, Outcome, Serve};
use crate::state::transactions::driver::OFFSETS_TOPIC;
use crate::sync::lock;

/// First transaction version in which each marker has a new epoch (KIP-1228).
const FIRST_WITH_BUMPS: i8 = 2;

fn write(call: &Call<'_>, asked: &WritableTxnMarker, topic: &str, partition: i32) -> Result<(), ErrorCode> {
    if topic == OFFSETS_TOPIC {
        lock(&call.state.groups).end_transaction(asked.producer_id, asked.transaction_result);
        return Ok(());
    }
    let found = call.state.topic(topic).and_then(|topic| topic.partition(partition).cloned());
    let found = found.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let marker = EndMarker {
        producer_id: asked.producer_id,
        producer_epoch: asked.producer_epoch,
        committed: asked.transaction_result,
        coordinator_epoch: asked.coordinator_epoch,
    };
    let mut state = found.state();
    state.check_leader(call.node, -1)?;
    state.end_transaction(&marker, asked.transaction_version >= FIRST_WITH_BUMPS)?;
    drop(state);
    found.wake();
    Ok(())
}

fn one(asked: &WritableTxnMarker, code: impl Fn(&str, i32) -> ErrorCode) -> WritableTxnMarkerResult {
    let mut topics = Vec::with_capacity(asked.topics.len());
    for topic in &asked.topics {
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
    WritableTxnMarkerResult { producer_id: asked.producer_id, topics, ..WritableTxnMarkerResult::default() }
}

impl Serve for WriteTxnMarkersRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let written = |asked: &WritableTxnMarker| {
            one(asked, |topic, partition| write(call, asked, topic, partition).err().unwrap_or(ErrorCode::NONE))
        };
        let markers = self.markers.iter().map(written).collect();
        call.reply::<Self>(&WriteTxnMarkersResponse { markers, ..WriteTxnMarkersResponse::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> WriteTxnMarkersResponse {
        let markers = self.markers.iter().map(|asked| one(asked, |_, _| code)).collect();
        WriteTxnMarkersResponse { markers, ..WriteTxnMarkersResponse::default() }
    }
}
