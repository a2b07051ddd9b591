//! SyncGroup and Heartbeat: distribute the assignment and renew sessions.

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::{HeartbeatRequest, SyncGroupRequest, SyncGroupResponse};
use tokio::time::Instant;

use super::member::ResponseSender;
use super::{Classic, Phase};

impl Classic {
    fn check_sync(&self, request: &SyncGroupRequest) -> Result<(), ErrorCode> {
        self.check_member(&request.member_id, request.group_instance_id.as_deref())?;
        self.check_generation(request.generation_id)?;
        let differs = |asked: &Option<String>, own: &Option<String>| asked.is_some() && own.is_some() && asked != own;
        if differs(&request.protocol_type, &self.protocol_type) || differs(&request.protocol_name, &self.protocol) {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        match self.phase {
            Phase::Empty => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            Phase::PreparingRebalance => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            Phase::CompletingRebalance | Phase::Stable => Ok(()),
        }
    }

    /// Handles SyncGroup. The response is sent immediately or when the leader has sent the assignment.
    pub(crate) fn sync(&mut self, now: Instant, request: &SyncGroupRequest, sender: ResponseSender<SyncGroupResponse>) {
        if let Err(code) = self.check_sync(request) {
            let _ = sender.send(SyncGroupResponse { error_code: code.code(), ..SyncGroupResponse::default() });
            return;
        }
        self.unsynced.remove(&request.member_id);
        if self.unsynced.is_empty() {
            self.sync_end = None;
        }
        let assigned = (self.phase == Phase::Stable).then(|| self.assigned(&request.member_id));
        if let Some(member) = self.member_mut(&request.member_id) {
            member.syncing = Some(sender);
            if let Some(assigned) = assigned {
                member.complete_sync(assigned);
            }
        }
        if self.phase == Phase::CompletingRebalance && self.is_leader(&request.member_id) {
            self.assign(now, request);
        }
    }

    fn assigned(&self, id: &str) -> SyncGroupResponse {
        SyncGroupResponse {
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            assignment: self.member(id).map(|member| member.assignment.clone()).unwrap_or_default(),
            ..SyncGroupResponse::default()
        }
    }

    /// Distributes the leader's assignment. Members that it does not contain get an empty assignment.
    fn assign(&mut self, now: Instant, request: &SyncGroupRequest) {
        for member in &mut self.members {
            let assignment = request.assignments.iter().rfind(|assigned| assigned.member_id == member.id);
            member.assignment = assignment.map(|assignment| assignment.assignment.clone()).unwrap_or_default();
        }
        self.enter(Phase::Stable, now);
        self.save();
        let responses: Vec<_> = self.members.iter().map(|member| self.assigned(&member.id)).collect();
        for (member, response) in self.members.iter_mut().zip(responses) {
            if member.complete_sync(response) {
                member.renew(now);
            }
        }
    }

    /// Removes the assignment of all members. Pending SyncGroup requests fail with REBALANCE_IN_PROGRESS, so that the
    /// members rejoin.
    pub(super) fn withdraw_assignment(&mut self, now: Instant) {
        let code = ErrorCode::REBALANCE_IN_PROGRESS.code();
        for member in &mut self.members {
            member.assignment = Bytes::new();
            if member.complete_sync(SyncGroupResponse { error_code: code, ..SyncGroupResponse::default() }) {
                member.renew(now);
            }
        }
    }

    /// Renews the session of a member. Returns an error if the member has to rejoin.
    pub(crate) fn heartbeat(&mut self, now: Instant, request: &HeartbeatRequest) -> Result<(), ErrorCode> {
        self.check_member(&request.member_id, request.group_instance_id.as_deref())?;
        self.check_generation(request.generation_id)?;
        if let Some(member) = self.member_mut(&request.member_id) {
            member.renew(now);
        }
        match self.phase {
            Phase::Empty => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            Phase::PreparingRebalance => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            Phase::CompletingRebalance | Phase::Stable => Ok(()),
        }
    }
}
