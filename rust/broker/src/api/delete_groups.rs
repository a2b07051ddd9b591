//! DeleteGroups, v0–v2.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DeleteGroupsRequest;
use samsarrow_wire::messages::delete_groups::{DeletableGroupResult, DeleteGroupsResponse};

use super::{Call, Outcome, Serve};
use crate::sync::lock;

fn answer(ids: &[String], outcome: impl Fn(&str) -> Result<(), ErrorCode>) -> DeleteGroupsResponse {
    let one = |id: &String| DeletableGroupResult {
        group_id: id.clone(),
        error_code: outcome(id).err().unwrap_or(ErrorCode::NONE).code(),
        ..DeletableGroupResult::default()
    };
    DeleteGroupsResponse { results: ids.iter().map(one).collect(), ..DeleteGroupsResponse::default() }
}

impl Serve for DeleteGroupsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&answer(&self.groups_names, |id| {
            if !call.state.is_coordinator(call.node, id) {
                return Err(ErrorCode::NOT_COORDINATOR);
            }
            lock(&call.state.groups).delete(id)
        }))
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> DeleteGroupsResponse {
        answer(&self.groups_names, |_| Err(code))
    }
}
