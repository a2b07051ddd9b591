//! AlterReplicaLogDirs, v0–v2. The broker has a single log directory.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::AlterReplicaLogDirsRequest;
use samsarrow_wire::messages::alter_replica_log_dirs::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsResponse,
};

use super::describe_log_dirs::PATH;
use super::{Call, Handler, Outcome};

fn response(
    request: &AlterReplicaLogDirsRequest,
    code: impl Fn(&str, &str, i32) -> ErrorCode,
) -> AlterReplicaLogDirsResponse {
    let topics = request.dirs.iter().flat_map(|dir| dir.topics.iter().map(|topic| (dir.path.as_str(), topic)));
    let results = topics.map(|(path, topic)| {
        let partition = |index: &i32| AlterReplicaLogDirPartitionResult {
            partition_index: *index,
            error_code: code(path, &topic.name, *index).code(),
            ..AlterReplicaLogDirPartitionResult::default()
        };
        AlterReplicaLogDirTopicResult {
            topic_name: topic.name.clone(),
            partitions: topic.partitions.iter().map(partition).collect(),
            ..AlterReplicaLogDirTopicResult::default()
        }
    });
    AlterReplicaLogDirsResponse { results: results.collect(), ..AlterReplicaLogDirsResponse::default() }
}

impl Handler for AlterReplicaLogDirsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&response(&self, |path, topic, index| {
            if path != PATH {
                return ErrorCode::LOG_DIR_NOT_FOUND;
            }
            let topic = call.state.topic(topic);
            match topic.as_ref().and_then(|topic| topic.partition(index)) {
                None => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
                Some(partition) if partition.state().replicas.contains(&call.node) => ErrorCode::NONE,
                Some(_) => ErrorCode::REPLICA_NOT_AVAILABLE,
            }
        }))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> AlterReplicaLogDirsResponse {
        response(self, |_, _, _| code)
    }
}
