//! DescribeShareGroupOffsets, v0–v1. Share groups are not supported; like Kafka, returns no offsets for an unknown
//! group.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeShareGroupOffsetsRequest;
use samsarrow_wire::messages::describe_share_group_offsets::{
    DescribeShareGroupOffsetsResponse, DescribeShareGroupOffsetsResponseGroup,
};

use super::{Call, Outcome, Serve};

impl Serve for DescribeShareGroupOffsetsRequest {
    async fn serve(self, call: &Call<'_>) -> Outcome {
        call.reply::<Self>(&self.refuse(call.version, ErrorCode::NONE))
    }

    fn refuse(&self, _version: i16, code: ErrorCode) -> DescribeShareGroupOffsetsResponse {
        let groups = self.groups.iter().map(|asked| DescribeShareGroupOffsetsResponseGroup {
            group_id: asked.group_id.clone(),
            error_code: code.code(),
            ..DescribeShareGroupOffsetsResponseGroup::default()
        });
        DescribeShareGroupOffsetsResponse { groups: groups.collect(), ..Default::default() }
    }
}
