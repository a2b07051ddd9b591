//! LeaveGroup, v0–v5.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::LeaveGroupRequest;
use samsarrow_wire::messages::leave_group::{LeaveGroupResponse, MemberIdentity, MemberResponse};
use samsarrow_wire::sync::lock;
use tokio::time::Instant;

use super::{Call, Handler, Outcome};

/// First version with a list of members and an error per member (KIP-345).
const FIRST_WITH_MEMBERS: i16 = 3;

fn member_response(member: &MemberIdentity, outcome: Result<(), ErrorCode>) -> MemberResponse {
    MemberResponse {
        member_id: member.member_id.clone(),
        group_instance_id: member.group_instance_id.clone(),
        error_code: outcome.err().unwrap_or(ErrorCode::NONE).code(),
        ..MemberResponse::default()
    }
}

impl Handler for LeaveGroupRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        if let Err(code) = call.check_group(&self.group_id) {
            return call.reply::<Self>(&self.error_response(call.version, code));
        }
        let leaving = if call.version < FIRST_WITH_MEMBERS {
            vec![MemberIdentity { member_id: self.member_id.clone(), ..MemberIdentity::default() }]
        } else {
            self.members
        };
        let outcomes = lock(&call.state.groups).leave(Instant::now(), &self.group_id, &leaving);
        call.state.group_clock.notify_one();
        let members: Vec<_> =
            leaving.iter().zip(outcomes).map(|(member, outcome)| member_response(member, outcome)).collect();
        call.reply::<Self>(&if call.version < FIRST_WITH_MEMBERS {
            let error_code = members.first().map_or(0, |member| member.error_code);
            LeaveGroupResponse { error_code, ..LeaveGroupResponse::default() }
        } else {
            LeaveGroupResponse { members, ..LeaveGroupResponse::default() }
        })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> LeaveGroupResponse {
        LeaveGroupResponse { error_code: code.code(), ..LeaveGroupResponse::default() }
    }
}
