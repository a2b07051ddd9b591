//! DescribeProducers, v0.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeProducersRequest;
use samsarrow_wire::messages::describe_producers::{
    DescribeProducersResponse, PartitionResponse, ProducerState, TopicRequest, TopicResponse,
};

use super::{Call, Handler, Outcome};
use crate::log::producers::ProducerSummary;

const NO_OFFSET: i64 = -1;

fn failed(partition: i32, code: ErrorCode) -> PartitionResponse {
    PartitionResponse { partition_index: partition, error_code: code.code(), ..PartitionResponse::default() }
}

fn describe(call: &Call<'_>, topic: &str, partition: i32) -> PartitionResponse {
    let target = call.state.topic(topic).and_then(|topic| topic.partition(partition).cloned());
    let Some(target) = target else {
        return failed(partition, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    let state = target.state();
    if let Err(code) = state.check_leader(call.node, -1) {
        return failed(partition, code);
    }
    let producer = |summary: ProducerSummary| ProducerState {
        producer_id: summary.id,
        producer_epoch: summary.epoch.into(),
        last_sequence: summary.last_sequence,
        last_timestamp: summary.last_timestamp,
        coordinator_epoch: summary.coordinator_epoch,
        current_txn_start_offset: summary.transaction.unwrap_or(NO_OFFSET),
        ..ProducerState::default()
    };
    PartitionResponse {
        partition_index: partition,
        active_producers: state.producers.describe().into_iter().map(producer).collect(),
        ..PartitionResponse::default()
    }
}

fn topic_response(requested: &TopicRequest, partition: impl Fn(i32) -> PartitionResponse) -> TopicResponse {
    TopicResponse {
        name: requested.name.clone(),
        partitions: requested.partition_indexes.iter().map(|index| partition(*index)).collect(),
        ..TopicResponse::default()
    }
}

impl Handler for DescribeProducersRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let topics = self
            .topics
            .iter()
            .map(|requested| topic_response(requested, |index| describe(call, &requested.name, index)))
            .collect();
        call.reply::<Self>(&DescribeProducersResponse { topics, ..DescribeProducersResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeProducersResponse {
        let topics =
            self.topics.iter().map(|requested| topic_response(requested, |index| failed(index, code))).collect();
        DescribeProducersResponse { topics, ..DescribeProducersResponse::default() }
    }
}
