//! DescribeQuorum, v0–v2: the controller is the only voter.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeQuorumRequest;
use samsarrow_wire::messages::describe_quorum::{DescribeQuorumResponse, PartitionData, ReplicaState, TopicData};

use super::{Call, Handler, Outcome};
use crate::clock;

const METADATA: &str = "__cluster_metadata";

impl Handler for DescribeQuorumRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let controller = call.state.controller();
        // As in Kafka, the times of the leader itself are its current time (KIP-836).
        let now = clock::now_ms();
        let voter = ReplicaState {
            replica_id: controller,
            last_fetch_timestamp: now,
            last_caught_up_timestamp: now,
            ..Default::default()
        };
        let topic = |requested: &samsarrow_wire::messages::describe_quorum::TopicRequest| {
            let partition = |index: i32| {
                if requested.topic_name != METADATA || index != 0 {
                    let error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code();
                    return PartitionData { partition_index: index, error_code, ..Default::default() };
                }
                let current_voters = vec![voter.clone()];
                PartitionData { leader_id: controller, leader_epoch: 1, current_voters, ..Default::default() }
            };
            let partitions =
                requested.partitions.iter().map(|requested| partition(requested.partition_index)).collect();
            TopicData { topic_name: requested.topic_name.clone(), partitions, ..Default::default() }
        };
        let topics = self.topics.iter().map(topic).collect();
        call.reply::<Self>(&DescribeQuorumResponse { topics, ..Default::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeQuorumResponse {
        DescribeQuorumResponse { error_code: code.code(), ..Default::default() }
    }
}
