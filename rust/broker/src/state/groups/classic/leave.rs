//! LeaveGroup: removes members by member id or instance id (KIP-345).

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::leave_group::MemberIdentity;
use tokio::time::Instant;

use super::{Classic, Phase};
use crate::options::GroupOptions;

impl Classic {
    /// Removes members from the group. Returns one result per member.
    pub(crate) fn leave(
        &mut self,
        now: Instant,
        leaving: &[MemberIdentity],
        options: &GroupOptions,
    ) -> Vec<Result<(), ErrorCode>> {
        let left: Vec<_> = leaving.iter().map(|member| self.remove_leaving(member)).collect();
        if left.iter().any(Result::is_ok) {
            match self.phase {
                Phase::Stable | Phase::CompletingRebalance => self.prepare(now, options),
                Phase::PreparingRebalance => self.complete_if_all_joined(now),
                Phase::Empty => (),
            }
        }
        left
    }

    fn remove_leaving(&mut self, leaving: &MemberIdentity) -> Result<(), ErrorCode> {
        let instance_id = leaving.group_instance_id.as_deref();
        let id = if leaving.member_id.is_empty() {
            let member = instance_id.and_then(|instance_id| self.static_member(instance_id));
            member.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?.id.clone()
        } else {
            if self.pending_members.remove(&leaving.member_id).is_some() {
                return Ok(());
            }
            self.check_member(&leaving.member_id, instance_id)?;
            leaving.member_id.clone()
        };
        if let Some(mut member) = self.remove(&id) {
            member.fail(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        Ok(())
    }
}
