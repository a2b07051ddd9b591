//! OffsetDelete, v0: deletes offsets of topics that no member subscribes to.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::OffsetDeleteRequest;
use samsarrow_wire::messages::offset_delete::{
    OffsetDeleteRequestTopic, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};

fn delete(call: &Call<'_>, group: &str, requested: &OffsetDeleteRequestTopic) -> OffsetDeleteResponseTopic {
    let topic = call.state.topic(&requested.name);
    let mut partitions = Vec::with_capacity(requested.partitions.len());
    for partition in &requested.partitions {
        let partition_index = partition.partition_index;
        let deleted = match &topic {
            Some(topic) if topic.partition(partition_index).is_some() => {
                lock(&call.state.groups).delete_offset(group, &topic.name, partition_index)
            }
            _ => Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        };
        partitions.push(OffsetDeleteResponsePartition {
            partition_index,
            error_code: deleted.err().unwrap_or(ErrorCode::NONE).code(),
            ..OffsetDeleteResponsePartition::default()
        });
    }
    OffsetDeleteResponseTopic { name: requested.name.clone(), partitions, ..OffsetDeleteResponseTopic::default() }
}

impl Handler for OffsetDeleteRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let mut checked = call.check_group(&self.group_id);
        if checked.is_ok() {
            checked = lock(&call.state.groups).check_offset_delete(&self.group_id);
        }
        if let Err(code) = checked {
            return call.reply::<Self>(&self.error_response(call.version, code));
        }
        let topics = self.topics.iter().map(|topic| delete(call, &self.group_id, topic)).collect();
        call.reply::<Self>(&OffsetDeleteResponse { topics, ..OffsetDeleteResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> OffsetDeleteResponse {
        OffsetDeleteResponse { error_code: code.code(), ..OffsetDeleteResponse::default() }
    }
}
