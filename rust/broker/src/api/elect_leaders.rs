//! ElectLeaders, v0–v2. A preferred election selects the first replica if it is up, an unclean election the first
//! replica that is up.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ElectLeadersRequest;
use samsarrow_wire::messages::elect_leaders::{
    ElectLeadersResponse, PartitionResult, ReplicaElectionResult, TopicPartitions,
};

use super::{Call, Handler, Outcome};

const PREFERRED: i8 = 0;

fn elect(call: &Call<'_>, unclean: bool, topic: &str, index: i32) -> Result<(), ErrorCode> {
    let target = call.state.topic(topic).and_then(|topic| topic.partition(index).cloned());
    let target = target.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let (leader, replicas) = {
        let state = target.state();
        (state.leader, state.replicas.clone())
    };
    let candidate = match unclean {
        // An unclean election is only allowed while the leader is down.
        true if call.state.is_up(leader) => return Err(ErrorCode::ELECTION_NOT_NEEDED),
        true => replicas.iter().copied().find(|node| call.state.is_up(*node)),
        false => replicas.first().copied().filter(|node| call.state.is_up(*node)),
    };
    let none =
        if unclean { ErrorCode::ELIGIBLE_LEADERS_NOT_AVAILABLE } else { ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE };
    let candidate = candidate.ok_or(none)?;
    if candidate == leader {
        return Err(ErrorCode::ELECTION_NOT_NEEDED);
    }
    target.elect(|_| candidate);
    Ok(())
}

fn results(
    requested: &[TopicPartitions],
    elect_one: impl Fn(&str, i32) -> Result<(), ErrorCode>,
) -> Vec<ReplicaElectionResult> {
    let topic = |topic: &TopicPartitions| ReplicaElectionResult {
        topic: topic.topic.clone(),
        partition_result: topic
            .partitions
            .iter()
            .map(|index| PartitionResult {
                partition_id: *index,
                error_code: elect_one(&topic.topic, *index).err().unwrap_or(ErrorCode::NONE).code(),
                ..PartitionResult::default()
            })
            .collect(),
        ..ReplicaElectionResult::default()
    };
    requested.iter().map(topic).collect()
}

impl Handler for ElectLeadersRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if call.node != call.state.controller() {
            return call.reply::<Self>(&self.error_response(call.version, ErrorCode::NOT_CONTROLLER));
        }
        let all = || {
            let topics = call.state.topics();
            let all = topics.iter().map(|topic| TopicPartitions {
                topic: topic.name.to_string(),
                partitions: topic.partitions().map(|(index, _)| index).collect(),
                ..TopicPartitions::default()
            });
            all.collect()
        };
        let requested: Vec<TopicPartitions> = self.topic_partitions.unwrap_or_else(all);
        let unclean = self.election_type != PREFERRED;
        let replica_election_results = results(&requested, |topic, index| elect(call, unclean, topic, index));
        call.reply::<Self>(&ElectLeadersResponse { replica_election_results, ..Default::default() })
    }

    fn error_response(&self, version: i16, code: ErrorCode) -> ElectLeadersResponse {
        let requested = self.topic_partitions.as_deref().unwrap_or_default();
        ElectLeadersResponse {
            error_code: if version >= 1 { code.code() } else { 0 },
            replica_election_results: results(requested, |_, _| Err(code)),
            ..Default::default()
        }
    }
}
