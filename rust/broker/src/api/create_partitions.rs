//! CreatePartitions, v0–v3.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::CreatePartitionsRequest;
use samsarrow_wire::messages::create_partitions::{
    CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};

use super::{Call, Handler, Outcome};
use crate::state::topic_creation::Rejection;

fn create(call: &Call<'_>, requested: &CreatePartitionsTopic, validate_only: bool) -> Result<(), Rejection> {
    let assignment = requested.assignments.as_ref();
    let replicas = assignment.map(|all| all.iter().map(|replica| replica.broker_ids.clone()).collect());
    call.state.create_partitions(&requested.name, requested.count, replicas, validate_only)
}

fn topic_result(
    requested: &CreatePartitionsTopic,
    outcome: Result<(), (ErrorCode, Option<String>)>,
) -> CreatePartitionsTopicResult {
    let (code, error_message) = outcome.err().unwrap_or((ErrorCode::NONE, None));
    CreatePartitionsTopicResult {
        name: requested.name.clone(),
        error_code: code.code(),
        error_message,
        ..CreatePartitionsTopicResult::default()
    }
}

impl Handler for CreatePartitionsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let create_one = |requested: &CreatePartitionsTopic| {
            let outcome = create(call, requested, self.validate_only);
            topic_result(requested, outcome.map_err(|(code, message)| (code, Some(message))))
        };
        let results = self.topics.iter().map(create_one).collect();
        call.reply::<Self>(&CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> CreatePartitionsResponse {
        let results = self.topics.iter().map(|requested| topic_result(requested, Err((code, None)))).collect();
        CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() }
    }
}
