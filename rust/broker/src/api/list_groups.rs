//! ListGroups, v0–v5: the groups that this node coordinates.

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ListGroupsRequest;
use samsarrow_wire::messages::list_groups::{ListGroupsResponse, ListedGroup};
use samsarrow_wire::sync::lock;

use super::{Call, Handler, Outcome};

/// Returns true if `name` matches the filter, ignoring case.
fn passes(filter: &[String], name: &str) -> bool {
    filter.is_empty() || filter.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
}

impl Handler for ListGroupsRequest {
    async fn handle(self, call: &Call<'_>) -> Outcome {
        let groups = lock(&call.state.groups);
        let all = groups.iter().map(|(id, members)| ListedGroup {
            group_id: id.to_owned(),
            protocol_type: members.protocol_type().unwrap_or_default().to_owned(),
            group_state: members.state().to_owned(),
            group_type: members.kind().to_owned(),
            ..ListedGroup::default()
        });
        let listed = all.filter(|group| {
            passes(&self.states_filter, &group.group_state)
                && passes(&self.types_filter, &group.group_type)
                && call.state.is_coordinator(call.node, &group.group_id)
        });
        let groups = listed.collect();
        call.reply::<Self>(&ListGroupsResponse { groups, ..ListGroupsResponse::default() })
    }

    fn error_response(&self, _version: i16, code: ErrorCode) -> ListGroupsResponse {
        ListGroupsResponse { error_code: code.code(), ..ListGroupsResponse::default() }
    }
}
