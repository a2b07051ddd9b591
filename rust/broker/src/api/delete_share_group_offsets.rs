//! DeleteShareGroupOffsets, v0. Share groups are not supported.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DeleteShareGroupOffsetsRequest;
use samsarrow_wire::messages::delete_share_group_offsets::DeleteShareGroupOffsetsResponse;

use super::{Call, Outcome, Serve};

impl Serve for DeleteShareGroupOffsetsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&self.refuse(call.version, ErrorCode::GROUP_ID_NOT_FOUND))
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> DeleteShareGroupOffsetsResponse {
        DeleteShareGroupOffsetsResponse { error_code: code.code(), ..DeleteShareGroupOffsetsResponse::default() }
    }
}
