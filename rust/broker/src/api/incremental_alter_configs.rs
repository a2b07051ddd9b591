//! IncrementalAlterConfigs, v0–v1.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::IncrementalAlterConfigsRequest;
use samsarrow_wire::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterConfigsResourceResponse, IncrementalAlterConfigsResponse,
};

use super::{Call, Handler, Outcome};

fn resource_response(
    requested: &AlterConfigsResource,
    outcome: Result<(), (ErrorCode, Option<String>)>,
) -> AlterConfigsResourceResponse {
    let (code, error_message) = outcome.err().unwrap_or((ErrorCode::NONE, None));
    AlterConfigsResourceResponse {
        error_code: code.code(),
        error_message,
        resource_type: requested.resource_type,
        resource_name: requested.resource_name.clone(),
        ..AlterConfigsResourceResponse::default()
    }
}

impl Handler for IncrementalAlterConfigsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let alter = |requested: &AlterConfigsResource| {
            let resource = (requested.resource_type, requested.resource_name.clone());
            let allowed = call.state.check_resource(call.node, &resource).map_err(|code| (code, String::new()));
            let changes = requested.configs.iter().map(|c| (c.name.clone(), c.config_operation, c.value.clone()));
            let outcome = allowed.and_then(|()| call.state.alter_configs(&resource, changes, self.validate_only));
            resource_response(
                requested,
                outcome.map_err(|(code, text)| (code, Some(text).filter(|text| !text.is_empty()))),
            )
        };
        let responses = self.resources.iter().map(alter).collect();
        call.reply::<Self>(&IncrementalAlterConfigsResponse { responses, ..Default::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> IncrementalAlterConfigsResponse {
        let responses =
            self.resources.iter().map(|requested| resource_response(requested, Err((code, None)))).collect();
        IncrementalAlterConfigsResponse { responses, ..Default::default() }
    }
}
