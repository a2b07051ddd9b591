//! StreamsGroupDescribe, v0–v1. Streams groups are not supported.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::StreamsGroupDescribeRequest;
use samsarrow_wire::messages::streams_group_describe::{DescribedGroup, StreamsGroupDescribeResponse};

use super::{Call, Handler, Outcome};

impl Handler for StreamsGroupDescribeRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&self.error_response(call.version, ErrorCode::GROUP_ID_NOT_FOUND))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> StreamsGroupDescribeResponse {
        let group = |group_id: &String| DescribedGroup {
            error_code: code.code(),
            group_id: group_id.clone(),
            ..DescribedGroup::default()
        };
        StreamsGroupDescribeResponse { groups: self.group_ids.iter().map(group).collect(), ..Default::default() }
    }
}
