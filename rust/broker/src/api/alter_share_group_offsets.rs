//! AlterShareGroupOffsets, v0. Share groups are not supported.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::AlterShareGroupOffsetsRequest;
use samsarrow_wire::messages::alter_share_group_offsets::AlterShareGroupOffsetsResponse;

use super::{Call, Handler, Outcome};

impl Handler for AlterShareGroupOffsetsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&self.error_response(call.version, ErrorCode::GROUP_ID_NOT_FOUND))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> AlterShareGroupOffsetsResponse {
        AlterShareGroupOffsetsResponse { error_code: code.code(), ..AlterShareGroupOffsetsResponse::default() }
    }
}
