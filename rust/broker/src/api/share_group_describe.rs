//! ShareGroupDescribe, v1. Share groups are not supported.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ShareGroupDescribeRequest;
use samsarrow_wire::messages::share_group_describe::{DescribedGroup, ShareGroupDescribeResponse};

use super::{Call, Handler, Outcome};

impl Handler for ShareGroupDescribeRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&self.error_response(call.version, ErrorCode::GROUP_ID_NOT_FOUND))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ShareGroupDescribeResponse {
        let group = |group_id: &String| DescribedGroup {
            error_code: code.code(),
            group_id: group_id.clone(),
            ..DescribedGroup::default()
        };
        ShareGroupDescribeResponse { groups: self.group_ids.iter().map(group).collect(), ..Default::default() }
    }
}
