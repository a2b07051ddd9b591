//! ShareGroupHeartbeat: members join, report their topics, and receive their assignment in the response.

use std::collections::BTreeMap;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::share_group_heartbeat::{Assignment, ShareGroupHeartbeatResponse, TopicPartitions};
use samsarrow_wire::messages::{ShareGroupHeartbeatRequest, Uuid};
use tokio::time::Instant;

use super::members::{ShareMember, ShareMembers};
use super::settings::ShareSettings;
use crate::state::groups::consumer::{Catalog, Partitions, Rejection};

const JOIN: i32 = 0;
const LEAVE: i32 = -1;
/// Maximum length of a member id in characters.
pub(crate) const MAX_MEMBER_ID: usize = 36;
/// Maximum number of members, the default of Kafka's `group.share.max.size`.
const MAX_MEMBERS: usize = 200;

/// A heartbeat request, with information about its client.
#[derive(Debug)]
pub(crate) struct ShareHeartbeat<'a> {
    pub(crate) request: &'a ShareGroupHeartbeatRequest,
    pub(crate) client_id: &'a str,
    pub(crate) client_host: &'a str,
    pub(crate) settings: &'a ShareSettings,
}

fn reject<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Rejection> {
    Err((code, message.into()))
}

impl ShareHeartbeat<'_> {
    /// Returns true if the member joins the group. Its heartbeat creates the group if the group does not exist.
    pub(crate) fn joins(&self) -> bool {
        self.request.member_epoch == JOIN
    }

    /// Validates the fields of the request that do not depend on the state of the group.
    pub(crate) fn check(&self) -> Result<(), Rejection> {
        let request = self.request;
        let problem = if request.member_id.trim().is_empty() {
            "MemberId can't be empty."
        } else if request.member_id.chars().count() > MAX_MEMBER_ID {
            "MemberId is too long."
        } else if request.group_id.trim().is_empty() {
            "GroupId can't be empty."
        } else if request.rack_id.as_deref() == Some("") {
            "RackId can't be empty."
        } else if request.member_epoch < LEAVE {
            "MemberEpoch is invalid."
        } else if self.joins() && request.subscribed_topic_names.as_ref().is_none_or(Vec::is_empty) {
            "SubscribedTopicNames must be set in first request."
        } else {
            return Ok(());
        };
        reject(ErrorCode::INVALID_REQUEST, problem)
    }
}

impl ShareMembers {
    /// Handles a heartbeat whose fields are valid.
    pub(crate) fn heartbeat(
        &mut self,
        now: Instant,
        heartbeat: &ShareHeartbeat<'_>,
        catalog: &Catalog,
    ) -> Result<ShareGroupHeartbeatResponse, Rejection> {
        let request = heartbeat.request;
        let id = &request.member_id;
        if request.member_epoch == LEAVE {
            self.find(id).ok_or_else(|| unknown(id))?;
            self.remove(id, now);
            return Ok(response(request, LEAVE, 0, None));
        }
        let before = self.admit(heartbeat, now)?;
        let mut member = before.clone();
        heartbeat.client_id.clone_into(&mut member.client_id);
        heartbeat.client_host.clone_into(&mut member.client_host);
        if request.rack_id.is_some() {
            member.rack_id.clone_from(&request.rack_id);
        }
        if let Some(names) = &request.subscribed_topic_names {
            member.topics = names.iter().cloned().collect();
        }
        member.expires = now + heartbeat.settings.session_timeout;
        let is_new = !self.members.iter().any(|known| known.id == *id);
        let changed = is_new || member.topics != before.topics;
        match self.find(id) {
            Some(known) => *known = member,
            None => self.members.push(member),
        }
        self.refresh(catalog, changed);
        let epoch = self.epoch();
        let Some(member) = self.find(id) else { return Err(unknown(id)) };
        if member.epoch != epoch {
            member.previous_epoch = member.epoch;
            member.epoch = epoch;
        }
        // The epoch is bumped with each assignment, so a member at the current epoch has its assignment, unless the
        // response was lost: after an error, members send all fields.
        let is_full = request.subscribed_topic_names.is_some();
        let has_assignment = !heartbeat.joins() && !is_full && before.epoch == epoch;
        let assignment = (!has_assignment).then(|| described(&member.assigned));
        let interval = i32::try_from(heartbeat.settings.heartbeat_interval.as_millis()).unwrap_or(i32::MAX).max(1);
        Ok(response(request, epoch, interval, assignment))
    }

    /// Returns the member in its state before this heartbeat, or a new member if it joins.
    fn admit(&mut self, heartbeat: &ShareHeartbeat<'_>, now: Instant) -> Result<ShareMember, Rejection> {
        let (id, epoch) = (&heartbeat.request.member_id, heartbeat.request.member_epoch);
        let count = self.members.len();
        match self.find(id) {
            Some(member) if epoch == JOIN || epoch == member.epoch || epoch == member.previous_epoch => {
                Ok(member.clone())
            }
            Some(member) => {
                let text =
                    format!("Member {id} is at epoch {}, but its heartbeat is from epoch {epoch}.", member.epoch);
                reject(ErrorCode::FENCED_MEMBER_EPOCH, text)
            }
            None if epoch != JOIN => Err(unknown(id)),
            None if count >= MAX_MEMBERS => {
                let text = format!("The share group has reached its maximum capacity of {MAX_MEMBERS} members.");
                reject(ErrorCode::GROUP_MAX_SIZE_REACHED, text)
            }
            None => Ok(ShareMember {
                id: id.clone(),
                epoch: JOIN,
                previous_epoch: JOIN,
                rack_id: None,
                client_id: String::new(),
                client_host: String::new(),
                topics: std::collections::BTreeSet::new(),
                assigned: Partitions::new(),
                expires: now,
            }),
        }
    }
}

fn unknown(id: &str) -> Rejection {
    (ErrorCode::UNKNOWN_MEMBER_ID, format!("Member {id} is not a member of the group."))
}

fn response(
    request: &ShareGroupHeartbeatRequest,
    epoch: i32,
    interval: i32,
    assignment: Option<Assignment>,
) -> ShareGroupHeartbeatResponse {
    ShareGroupHeartbeatResponse {
        member_id: Some(request.member_id.clone()),
        member_epoch: epoch,
        heartbeat_interval_ms: interval,
        assignment,
        ..ShareGroupHeartbeatResponse::default()
    }
}

fn described(partitions: &Partitions) -> Assignment {
    let mut topics: BTreeMap<[u8; 16], Vec<i32>> = BTreeMap::new();
    for (id, partition) in partitions {
        topics.entry(*id).or_default().push(*partition);
    }
    let topic = |(id, partitions)| TopicPartitions { topic_id: Uuid(id), partitions, ..TopicPartitions::default() };
    Assignment { topic_partitions: topics.into_iter().map(topic).collect(), ..Assignment::default() }
}
