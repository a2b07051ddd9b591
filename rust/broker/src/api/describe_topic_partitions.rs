//! DescribeTopicPartitions, v0.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeTopicPartitionsRequest;
use samsarrow_wire::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition as Partition,
    DescribeTopicPartitionsResponseTopic as Topic,
};

use super::{Call, Handler, Outcome, TOPIC_OPERATIONS};

fn failed(name: &str, code: ErrorCode) -> Topic {
    Topic { error_code: code.code(), name: Some(name.to_owned()), ..Topic::default() }
}

impl Handler for DescribeTopicPartitionsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let state = call.state;
        let mut names: Vec<String> = self.topics.iter().map(|topic| topic.name.clone()).collect();
        if names.is_empty() {
            names = state.topics().iter().map(|topic| topic.name.to_string()).collect();
        }
        names.sort();
        names.dedup();
        let (from, first) =
            self.cursor.as_ref().map_or(("", 0), |cursor| (cursor.topic_name.as_str(), cursor.partition_index));
        let mut remaining = usize::try_from(self.response_partition_limit).unwrap_or_default();
        let mut response = DescribeTopicPartitionsResponse::default();
        for name in names.iter().filter(|name| name.as_str() >= from) {
            let Some(topic) = state.topic(name) else {
                response.topics.push(failed(name, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
                continue;
            };
            let skip = if name == from { first } else { 0 };
            let mut description = Topic {
                name: Some(name.clone()),
                topic_id: topic.id,
                topic_authorized_operations: TOPIC_OPERATIONS,
                ..Topic::default()
            };
            for (index, partition) in topic.partitions().filter(|(index, _)| *index >= skip) {
                if remaining == 0 {
                    let cursor = Cursor { topic_name: name.clone(), partition_index: index, ..Cursor::default() };
                    response.next_cursor = Some(cursor);
                    break;
                }
                remaining -= 1;
                let partition_state = partition.state();
                let (live, dead): (Vec<i32>, Vec<i32>) =
                    partition_state.replicas.iter().partition(|node| state.is_up(**node));
                description.partitions.push(Partition {
                    partition_index: index,
                    leader_id: partition_state.leader,
                    leader_epoch: partition_state.leader_epoch,
                    replica_nodes: partition_state.replicas.clone(),
                    isr_nodes: live,
                    offline_replicas: dead,
                    eligible_leader_replicas: Some(Vec::new()),
                    last_known_elr: Some(Vec::new()),
                    ..Partition::default()
                });
            }
            if !description.partitions.is_empty() {
                response.topics.push(description);
            }
            if response.next_cursor.is_some() {
                break;
            }
        }
        call.reply::<Self>(&response)
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeTopicPartitionsResponse {
        let topics = self.topics.iter().map(|topic| failed(&topic.name, code)).collect();
        DescribeTopicPartitionsResponse { topics, ..DescribeTopicPartitionsResponse::default() }
    }
}
