//! DeleteGroups, v0–v3.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DeleteGroupsRequest;
use samsarrow_wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsResponse};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};

fn response(ids: &[String], outcome: impl Fn(&str) -> Result<(), ErrorCode>) -> DeleteGroupsResponse {
    let group_result = |id: &String| DeletableGroupResult {
        group_id: id.clone(),
        error_code: outcome(id).err().unwrap_or(ErrorCode::NONE).code(),
        ..DeletableGroupResult::default()
    };
    DeleteGroupsResponse { results: ids.iter().map(group_result).collect(), ..DeleteGroupsResponse::default() }
}

impl Handler for DeleteGroupsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&response(&self.groups_names, |id| {
            if !call.state.is_coordinator(call.node, id) {
                return Err(ErrorCode::NOT_COORDINATOR);
            }
            lock(&call.state.groups).delete(id)?;
            lock(&call.state.shares).forget_group(id);
            Ok(())
        }))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DeleteGroupsResponse {
        response(&self.groups_names, |_| Err(code))
    }
}
