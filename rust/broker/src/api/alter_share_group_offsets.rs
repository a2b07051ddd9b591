//! AlterShareGroupOffsets, v0. Share groups are not supported.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::AlterShareGroupOffsetsRequest;
use samsarrow_wire::messages::alter_share_group_offsets::AlterShareGroupOffsetsResponse;

use super::{Call, Outcome, Serve};

impl Serve for AlterShareGroupOffsetsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&self.refuse(call.version, ErrorCode::GROUP_ID_NOT_FOUND))
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> AlterShareGroupOffsetsResponse {
        AlterShareGroupOffsetsResponse { error_code: code.code(), ..AlterShareGroupOffsetsResponse::default() }
    }
}
