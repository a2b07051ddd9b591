//! DescribeShareGroupOffsets, v0–v1. Share groups are not supported; like Kafka, returns no offsets for an unknown
//! group.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeShareGroupOffsetsRequest;
use samsarrow_wire::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsResponse, DescribeShareGroupOffsetsResponseGroup,
};

use super::{Call, Handler, Outcome};

impl Handler for DescribeShareGroupOffsetsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&self.error_response(call.version, ErrorCode::NONE))
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeShareGroupOffsetsResponse {
        let groups = self.groups.iter().map(|requested| DescribeShareGroupOffsetsResponseGroup {
            group_id: requested.group_id.clone(),
            error_code: code.code(),
            ..DescribeShareGroupOffsetsResponseGroup::default()
        });
        DescribeShareGroupOffsetsResponse { groups: groups.collect(), ..Default::default() }
    }
}
