//! DescribeProducers, v0.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeProducersRequest;
use samsarrow_wire::messages::describe_producers::{
    DescribeProducersResponse, PartitionResponse, ProducerState, TopicRequest, TopicResponse,
};

use super::{Call, Outcome, Serve};
use crate::log::producers::Described;

const NO_OFFSET: i64 = -1;

fn failed(partition: i32, code: ErrorCode) -> PartitionResponse {
    PartitionResponse { partition_index: partition, error_code: code.code(), ..PartitionResponse::default() }
}

fn one(call: &Call<'_>, topic: &str, partition: i32) -> PartitionResponse {
    let found = call.state.topic(topic).and_then(|topic| topic.partition(partition).cloned());
    let Some(found) = found else { return failed(partition, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION) };
    let state = found.state();
    if let Err(code) = state.check_leader(call.node, -1) {
        return failed(partition, code);
    }
    let producer = |known: Described| ProducerState {
        producer_id: known.id,
        producer_epoch: known.epoch.into(),
        last_sequence: known.last_sequence,
        last_timestamp: known.last_timestamp,
        coordinator_epoch: known.coordinator_epoch,
        current_txn_start_offset: known.transaction.unwrap_or(NO_OFFSET),
        ..ProducerState::default()
    };
    PartitionResponse {
        partition_index: partition,
        active_producers: state.producers.describe().into_iter().map(producer).collect(),
        ..PartitionResponse::default()
    }
}

fn answered(asked: &TopicRequest, partition: impl Fn(i32) -> PartitionResponse) -> TopicResponse {
    TopicResponse {
        name: asked.name.clone(),
        partitions: asked.partition_indexes.iter().map(|index| partition(*index)).collect(),
        ..TopicResponse::default()
    }
}

impl Serve for DescribeProducersRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let topics = self.topics.iter().map(|asked| answered(asked, |index| one(call, &asked.name, index))).collect();
        call.reply::<Self>(&DescribeProducersResponse { topics, ..DescribeProducersResponse::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> DescribeProducersResponse {
        let topics = self.topics.iter().map(|asked| answered(asked, |index| failed(index, code))).collect();
        DescribeProducersResponse { topics, ..DescribeProducersResponse::default() }
    }
}
