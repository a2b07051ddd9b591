//! DescribeGroups, v0–v6, for classic groups. Groups of other protocols are reported as dead.

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::DescribeGroupsRequest;
use samsarrow_wire::messages::describe_groups::{DescribeGroupsResponse, DescribedGroup, DescribedGroupMember};
use samsarrow_wire::sync::lock;

use super::{Call, GROUP_OPERATIONS, Handler, Outcome};
use crate::state::groups::Members;
use crate::state::groups::classic::member::Member;
use crate::state::groups::classic::{Classic, Phase};

/// First version that reports an unknown group as an error (KIP-1043).
const FIRST_WITH_NOT_FOUND: i16 = 6;

fn describe(id: &str, classic: &Classic) -> DescribedGroup {
    // During a rebalance metadata and assignments change, so they are reported only for a stable group.
    let protocol = classic.protocol().filter(|_| classic.phase() == Phase::Stable);
    let member = |member: &Member| DescribedGroupMember {
        member_id: member.id.clone(),
        group_instance_id: member.instance_id.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        member_metadata: protocol.map(|protocol| member.metadata(protocol)).unwrap_or_default(),
        member_assignment: protocol.map_or_else(Bytes::new, |_| member.assignment.clone()),
        ..DescribedGroupMember::default()
    };
    DescribedGroup {
        group_id: id.to_owned(),
        group_state: classic.phase().name().to_owned(),
        protocol_type: classic.protocol_type().unwrap_or_default().to_owned(),
        protocol_data: protocol.unwrap_or_default().to_owned(),
        members: classic.members().iter().map(member).collect(),
        ..DescribedGroup::default()
    }
}

fn failed(id: &str, code: ErrorCode) -> DescribedGroup {
    DescribedGroup { group_id: id.to_owned(), error_code: code.code(), ..DescribedGroup::default() }
}

fn missing(id: &str, version: i16) -> DescribedGroup {
    let dead = DescribedGroup { group_state: "Dead".to_owned(), ..failed(id, ErrorCode::NONE) };
    if version < FIRST_WITH_NOT_FOUND {
        return dead;
    }
    DescribedGroup {
        error_code: ErrorCode::GROUP_ID_NOT_FOUND.code(),
        error_message: Some(format!("Group {id} not found.")),
        ..dead
    }
}

impl Handler for DescribeGroupsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let describe_one = |id: &String| {
            if !call.state.is_coordinator(call.node, id) {
                return failed(id, ErrorCode::NOT_COORDINATOR);
            }
            let groups = lock(&call.state.groups);
            let classic = groups.members(id).and_then(Members::classic);
            let mut group = classic.map_or_else(|| missing(id, call.version), |group| describe(id, group));
            if self.include_authorized_operations {
                group.authorized_operations = GROUP_OPERATIONS;
            }
            group
        };
        let groups = self.groups.iter().map(describe_one).collect();
        call.reply::<Self>(&DescribeGroupsResponse { groups, ..DescribeGroupsResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> DescribeGroupsResponse {
        let groups = self.groups.iter().map(|id| failed(id, code)).collect();
        DescribeGroupsResponse { groups, ..DescribeGroupsResponse::default() }
    }
}
