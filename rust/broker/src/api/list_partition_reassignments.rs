//! ListPartitionReassignments, v0. Reassignments complete immediately, so the list is always empty.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ListPartitionReassignmentsRequest;
use samsarrow_wire::messages::list_partition_reassignments::ListPartitionReassignmentsResponse;

use super::{Call, Outcome, Serve};

impl Serve for ListPartitionReassignmentsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&ListPartitionReassignmentsResponse::default())
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> ListPartitionReassignmentsResponse {
        ListPartitionReassignmentsResponse { error_code: code.code(), ..Default::default() }
    }
}
