//! CreatePartitions, v0–v3.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::CreatePartitionsRequest;
use samsarrow_wire::messages::create_partitions::{
    CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};

use super::{Call, Outcome, Serve};
use crate::state::create::Refusal;

fn create(call: &Call<'_>, asked: &CreatePartitionsTopic, validate_only: bool) -> Result<(), Refusal> {
    let assignment = asked.assignments.as_ref();
    let replicas = assignment.map(|all| all.iter().map(|one| one.broker_ids.clone()).collect());
    call.state.create_partitions(&asked.name, asked.count, replicas, validate_only)
}

fn answered(
    asked: &CreatePartitionsTopic,
    said: Result<(), (ErrorCode, Option<String>)>,
) -> CreatePartitionsTopicResult {
    let (code, error_message) = said.err().unwrap_or((ErrorCode::NONE, None));
    CreatePartitionsTopicResult {
        name: asked.name.clone(),
        error_code: code.code(),
        error_message,
        ..CreatePartitionsTopicResult::default()
    }
}

impl Serve for CreatePartitionsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let one = |asked: &CreatePartitionsTopic| {
            let said = create(call, asked, self.validate_only);
            answered(asked, said.map_err(|(code, message)| (code, Some(message))))
        };
        let results = self.topics.iter().map(one).collect();
        call.reply::<Self>(&CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> CreatePartitionsResponse {
        let results = self.topics.iter().map(|asked| answered(asked, Err((code, None)))).collect();
        CreatePartitionsResponse { results, ..CreatePartitionsResponse::default() }
    }
}
