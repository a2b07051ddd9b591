//! ListPartitionReassignments, v0. Reassignments complete immediately, so the list is always empty.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ListPartitionReassignmentsRequest;
use samsarrow_wire::messages::list_partition_reassignments::ListPartitionReassignmentsResponse;

use super::{Call, Handler, Outcome};

impl Handler for ListPartitionReassignmentsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&ListPartitionReassignmentsResponse::default())
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ListPartitionReassignmentsResponse {
        ListPartitionReassignmentsResponse { error_code: code.code(), ..Default::default() }
    }
}
