//! DescribeQuorum, v0–v2: the controller is the only voter.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeQuorumRequest;
use samsarrow_wire::messages::describe_quorum::{DescribeQuorumResponse, PartitionData, ReplicaState, TopicData};

use super::{Call, Outcome, Serve};

const METADATA: &str = "__cluster_metadata";

impl Serve for DescribeQuorumRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let controller = call.state.controller();
        let voter = ReplicaState { replica_id: controller, ..Default::default() };
        let topic = |asked: &samsarrow_wire::messages::describe_quorum::TopicRequest| {
            let partition = |index: i32| {
                if asked.topic_name != METADATA || index != 0 {
                    let error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.code();
                    return PartitionData { partition_index: index, error_code, ..Default::default() };
                }
                let current_voters = vec![voter.clone()];
                PartitionData { leader_id: controller, leader_epoch: 1, current_voters, ..Default::default() }
            };
            let partitions = asked.partitions.iter().map(|asked| partition(asked.partition_index)).collect();
            TopicData { topic_name: asked.topic_name.clone(), partitions, ..Default::default() }
        };
        let topics = self.topics.iter().map(topic).collect();
        call.reply::<Self>(&DescribeQuorumResponse { topics, ..Default::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> DescribeQuorumResponse {
        DescribeQuorumResponse { error_code: code.code(), ..Default::default() }
    }
}
