//! IncrementalAlterConfigs, v0–v1.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::IncrementalAlterConfigsRequest;
use samsarrow_wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, IncrementalAlterConfigsResponse,
};

use super::{Call, Outcome, Serve};

fn answered(
    asked: &AlterConfigsResource,
    said: Result<(), (ErrorCode, Option<String>)>,
) -> AlterConfigsResourceResponse {
    let (code, error_message) = said.err().unwrap_or((ErrorCode::NONE, None));
    AlterConfigsResourceResponse {
        error_code: code.code(),
        error_message,
        resource_type: asked.resource_type,
        resource_name: asked.resource_name.clone(),
        ..AlterConfigsResourceResponse::default()
    }
}

impl Serve for IncrementalAlterConfigsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        let one = |asked: &AlterConfigsResource| {
            let resource = (asked.resource_type, asked.resource_name.clone());
            let allowed = call.state.check_resource(call.node, &resource).map_err(|code| (code, String::new()));
            let changes = asked.configs.iter().map(|c| (c.name.clone(), c.config_operation, c.value.clone()));
            let said = allowed.and_then(|()| call.state.alter_configs(&resource, changes, self.validate_only));
            answered(asked, said.map_err(|(code, text)| (code, Some(text).filter(|text| !text.is_empty()))))
        };
        let responses = self.resources.iter().map(one).collect();
        call.reply::<Self>(&IncrementalAlterConfigsResponse { responses, ..Default::default() })
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> IncrementalAlterConfigsResponse {
        let responses = self.resources.iter().map(|asked| answered(asked, Err((code, None)))).collect();
        IncrementalAlterConfigsResponse { responses, ..Default::default() }
    }
}
