//! JoinGroup: assigns member ids, admits members, and starts rebalances.

use bytes::Bytes;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::JoinGroupRequest;
use samsarrow_wire::messages::join_group::{JoinGroupResponse, JoinGroupResponseMember};
use tokio::time::Instant;

use super::member::{JoinParams, Member, ResponseSender, join_error};
use super::{Classic, NEW_MEMBER_JOIN_TIMEOUT, Phase};
use crate::options::GroupOptions;
use crate::state::groups::random_uuid;

/// First version in which a new member first receives an id, and joins with a second request (KIP-394).
const FIRST_WITH_KNOWN_ID: i16 = 4;
/// First version whose response has the field `skip_assignment` for the leader (KIP-814).
const FIRST_TO_SKIP_ASSIGNMENT: i16 = 9;

/// A JoinGroup request, with information about its client.
#[derive(Debug)]
pub(crate) struct Joiner<'a> {
    pub(crate) request: &'a JoinGroupRequest,
    pub(crate) version: i16,
    pub(crate) client_id: &'a str,
    pub(crate) client_host: &'a str,
}

type JoinSender = ResponseSender<JoinGroupResponse>;

fn reject(sender: JoinSender, member_id: &str, code: ErrorCode) {
    let _ = sender.send(join_error(member_id, code));
}

impl Classic {
    /// Handles JoinGroup. The response is sent immediately or when all members have joined.
    pub(crate) fn join(&mut self, now: Instant, joiner: &Joiner<'_>, options: &GroupOptions, sender: JoinSender) {
        let request = joiner.request;
        if !self.supports(&request.protocol_type, &request.protocols) {
            return reject(sender, &request.member_id, ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        let instance_id = request.group_instance_id.as_deref();
        if !request.member_id.is_empty() {
            if instance_id.is_none() && self.pending_members.contains_key(&request.member_id) {
                return self.admit(now, joiner, request.member_id.clone(), options, sender);
            }
            return self.rejoin(now, joiner, options, sender);
        }
        let id = format!("{}-{}", instance_id.unwrap_or(joiner.client_id), random_uuid());
        match instance_id.and_then(|instance_id| self.static_member(instance_id)) {
            Some(member) => {
                let old = member.id.clone();
                self.replace(now, joiner, &old, id, options, sender);
            }
            None if instance_id.is_none() && joiner.version >= FIRST_WITH_KNOWN_ID => {
                self.pending_members.insert(id.clone(), now + JoinParams::new(request, joiner.version).session_timeout);
                reject(sender, &id, ErrorCode::MEMBER_ID_REQUIRED);
            }
            None => self.admit(now, joiner, id, options, sender),
        }
    }

    /// Adds a new member to the group.
    fn admit(&mut self, now: Instant, joiner: &Joiner<'_>, id: String, options: &GroupOptions, sender: JoinSender) {
        self.pending_members.remove(&id);
        if self.members.is_empty() {
            self.protocol_type = Some(joiner.request.protocol_type.clone());
        }
        if self.leader.is_none() {
            self.leader = Some(id.clone());
        }
        self.member_joined |= self.is_initial_rebalance();
        self.members.push(Member {
            id,
            instance_id: joiner.request.group_instance_id.clone(),
            client_id: joiner.client_id.to_owned(),
            client_host: joiner.client_host.to_owned(),
            params: JoinParams::new(joiner.request, joiner.version),
            assignment: Bytes::new(),
            is_new: true,
            joining: Some(sender),
            syncing: None,
            // A new member cannot send heartbeats before it has a generation, so only this timeout detects that it is
            // gone.
            expires: Some(now + NEW_MEMBER_JOIN_TIMEOUT),
        });
        self.rebalance_or_complete(now, options);
    }

    /// Handles the request of a member that already has an id.
    fn rejoin(&mut self, now: Instant, joiner: &Joiner<'_>, options: &GroupOptions, sender: JoinSender) {
        let request = joiner.request;
        let id = &request.member_id;
        if let Err(code) = self.check_member(id, request.group_instance_id.as_deref()) {
            return reject(sender, id, code);
        }
        let same = self.member(id).is_some_and(|member| member.params.protocols == request.protocols);
        let is_unchanged = match self.phase {
            Phase::Empty => return reject(sender, id, ErrorCode::UNKNOWN_MEMBER_ID),
            Phase::PreparingRebalance => false,
            // The client repeats the request, since it may have missed the response.
            Phase::CompletingRebalance => same,
            // A leader that rejoins starts a rebalance to assign again, for example because topics have changed.
            Phase::Stable => same && !self.is_leader(id),
        };
        if is_unchanged {
            let members = if self.is_leader(id) { self.described() } else { Vec::new() };
            let _ = sender.send(JoinGroupResponse { members, ..self.joined(id) });
            return;
        }
        if let Some(member) = self.member_mut(id) {
            member.params = JoinParams::new(request, joiner.version);
            member.joining = Some(sender);
        }
        self.rebalance_or_complete(now, options);
    }

    /// Replaces the old member id of a static member that joins again (KIP-345).
    fn replace(
        &mut self,
        now: Instant,
        joiner: &Joiner<'_>,
        old: &str,
        id: String,
        options: &GroupOptions,
        sender: JoinSender,
    ) {
        let was_leader = self.is_leader(old);
        let Some(member) = self.member_mut(old) else { return };
        member.fail(ErrorCode::FENCED_INSTANCE_ID);
        member.id.clone_from(&id);
        member.params = JoinParams::new(joiner.request, joiner.version);
        member.joining = Some(sender);
        member.is_new = false;
        member.renew(now);
        if was_leader {
            self.leader = Some(id.clone());
        }
        if self.unsynced.remove(old) {
            self.unsynced.insert(id.clone());
        }
        match self.phase {
            Phase::Stable if self.vote() == self.protocol => {
                let response = self.rejoin_static(joiner.version, &id, was_leader.then_some(old));
                if let Some(member) = self.member_mut(&id) {
                    member.complete_join(response);
                }
                self.save();
            }
            Phase::Stable => self.rebalance_or_complete(now, options),
            // The leader may be computing an assignment for the old member id, so the rebalance starts again.
            Phase::CompletingRebalance => self.prepare(now, options),
            Phase::Empty | Phase::PreparingRebalance => self.complete_if_all_joined(now),
        }
    }

    /// Returns the response to a static member that joins again and keeps its assignment. A leader that joins again
    /// must not assign. From v9 on `skip_assignment` prevents this; before v9 the response names the old id of the
    /// leader, so that the client considers itself a follower.
    fn rejoin_static(&self, version: i16, id: &str, led_as: Option<&str>) -> JoinGroupResponse {
        let mut response = self.joined(id);
        let Some(led_as) = led_as else { return response };
        if version >= FIRST_TO_SKIP_ASSIGNMENT {
            response.members = self.described();
            response.skip_assignment = true;
        } else {
            led_as.clone_into(&mut response.leader);
        }
        response
    }

    /// Returns a JoinGroup response for this generation, without the member list that the leader needs.
    pub(super) fn joined(&self, id: &str) -> JoinGroupResponse {
        JoinGroupResponse {
            generation_id: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member_id: id.to_owned(),
            ..JoinGroupResponse::default()
        }
    }

    /// Returns the member list for the leader: ids and metadata.
    pub(super) fn described(&self) -> Vec<JoinGroupResponseMember> {
        let protocol = self.protocol.as_deref().unwrap_or_default();
        let description = |member: &Member| JoinGroupResponseMember {
            member_id: member.id.clone(),
            group_instance_id: member.instance_id.clone(),
            metadata: member.metadata(protocol),
            ..JoinGroupResponseMember::default()
        };
        self.members.iter().map(description).collect()
    }
}
