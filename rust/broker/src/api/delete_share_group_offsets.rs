//! DeleteShareGroupOffsets, v0. Share groups are not supported.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DeleteShareGroupOffsetsRequest;
use samsarrow_wire::messages::delete_share_group_offsets::DeleteShareGroupOffsetsResponse;

use super::{Call, Handler, Outcome};

impl Handler for DeleteShareGroupOffsetsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&self.error_response(call.version, ErrorCode::GROUP_ID_NOT_FOUND))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DeleteShareGroupOffsetsResponse {
        DeleteShareGroupOffsetsResponse { error_code: code.code(), ..DeleteShareGroupOffsetsResponse::default() }
    }
}
