//! ConsumerGroupHeartbeat: members join, report their subscription and owned partitions, and receive their assignment
//! in the response.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::consumer_group_heartbeat::{Assignment, ConsumerGroupHeartbeatResponse, TopicPartitions};
use samsarrow_wire::messages::{ConsumerGroupHeartbeatRequest, Uuid};
use tokio::time::Instant;

use super::assign::ASSIGNORS;
use super::member::{LEAVE_STATIC_EPOCH, Member, Pattern, Progress};
use super::{Catalog, Consumers, Partitions};
use crate::collections::HashSet;
use crate::options::GroupOptions;
use crate::state::groups::random_uuid;

const JOIN: i32 = 0;
const LEAVE: i32 = -1;
/// First version in which members generate their own ids (KIP-1082).
const FIRST_WITH_OWN_IDS: i16 = 1;

/// Error code and message for a rejected heartbeat.
pub(crate) type Rejection = (ErrorCode, String);

/// A heartbeat request, with information about its client.
#[derive(Debug)]
pub(crate) struct MemberHeartbeat<'a> {
    pub(crate) request: &'a ConsumerGroupHeartbeatRequest,
    pub(crate) version: i16,
    pub(crate) client_id: &'a str,
    pub(crate) client_host: &'a str,
}

fn reject<T>(code: ErrorCode, message: impl Into<String>) -> Result<T, Rejection> {
    Err((code, message.into()))
}

impl MemberHeartbeat<'_> {
    /// Returns true if the member joins the group. Its heartbeat creates the group if the group does not exist.
    pub(crate) fn joins(&self) -> bool {
        self.request.member_epoch == JOIN
    }

    /// Validates the fields of the request that do not depend on the state of the group.
    pub(crate) fn check(&self) -> Result<(), Rejection> {
        let request = self.request;
        let is_empty = |field: &Option<String>| field.as_deref() == Some("");
        let problem = if request.group_id.is_empty() {
            "GroupId can't be empty."
        } else if request.member_id.is_empty() && (self.version >= FIRST_WITH_OWN_IDS || !self.joins()) {
            "MemberId can't be empty."
        } else if is_empty(&request.instance_id) {
            "InstanceId can't be empty."
        } else if is_empty(&request.rack_id) {
            "RackId can't be empty."
        } else if request.member_epoch < LEAVE_STATIC_EPOCH {
            "MemberEpoch is invalid."
        } else if request.member_epoch == LEAVE_STATIC_EPOCH && request.instance_id.is_none() {
            "InstanceId can't be null."
        } else if self.joins() && request.rebalance_timeout_ms == -1 {
            "RebalanceTimeoutMs must be provided in first request."
        } else if self.joins() && request.topic_partitions.as_ref().is_none_or(|owned| !owned.is_empty()) {
            "TopicPartitions must be empty when (re-)joining."
        } else if self.joins() && request.subscribed_topic_names.is_none() && request.subscribed_topic_regex.is_none() {
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
        } else {
            return match &request.server_assignor {
                Some(assignor) if !ASSIGNORS.contains(&assignor.as_str()) => {
                    let all = ASSIGNORS.join(", ");
                    let message = format!("ServerAssignor {assignor} is not supported. Supported assignors: {all}.");
                    reject(ErrorCode::UNSUPPORTED_ASSIGNOR, message)
                }
                _ => Ok(()),
            };
        };
        reject(ErrorCode::INVALID_REQUEST, problem)
    }

    /// Returns the partitions that the member reports as owned, or `None` if the request does not report them.
    fn owned(&self) -> Option<Partitions> {
        let owned = self.request.topic_partitions.as_ref()?;
        let each = |topic: &TopicPartitions| {
            let id = topic.topic_id.0;
            topic.partitions.iter().map(move |partition| (id, *partition)).collect::<Vec<_>>()
        };
        Some(owned.iter().flat_map(each).collect())
    }

    /// Returns the subscribed pattern of the request. `None` leaves the current pattern unchanged, `Some(None)` removes
    /// it.
    fn pattern(&self) -> Result<Option<Option<Pattern>>, Rejection> {
        match self.request.subscribed_topic_regex.as_deref() {
            None => Ok(None),
            Some("") => Ok(Some(None)),
            Some(source) => match Pattern::new(source) {
                Ok(pattern) => Ok(Some(Some(pattern))),
                Err(error) => {
                    let message =
                        format!("SubscribedTopicRegex `{source}` is not a valid regular expression: {error}.");
                    reject(ErrorCode::INVALID_REGULAR_EXPRESSION, message)
                }
            },
        }
    }

    /// Returns true if the request contains all fields. The response to such a request always includes the assignment.
    fn is_full(&self) -> bool {
        let request = self.request;
        self.joins()
            || (request.rebalance_timeout_ms != -1
                && (request.subscribed_topic_names.is_some() || request.subscribed_topic_regex.is_some())
                && request.topic_partitions.is_some())
    }
}

impl Consumers {
    /// Handles a heartbeat whose fields are valid.
    pub(crate) fn heartbeat(
        &mut self,
        now: Instant,
        heartbeat_request: &MemberHeartbeat<'_>,
        catalog: &Catalog,
        options: &GroupOptions,
    ) -> Result<ConsumerGroupHeartbeatResponse, Rejection> {
        let request = heartbeat_request.request;
        if request.member_epoch < JOIN {
            return self.leave(now, heartbeat_request);
        }
        let pattern = heartbeat_request.pattern()?;
        let owned = heartbeat_request.owned();
        let before = self.admit(now, heartbeat_request, owned.as_ref())?;
        let id = before.id.clone();
        let mut member = before.clone();
        member.expires = now + options.consumer_session_timeout;
        let changed = update(&mut member, heartbeat_request, pattern);
        self.put(member);
        let subscribed_topics = self.find_subscribed_topics(catalog);
        if self.epoch == 0 || changed || subscribed_topics != self.subscribed_topics {
            self.subscribed_topics = subscribed_topics;
            self.epoch = self.epoch.wrapping_add(1).max(1);
        }
        if self.epoch > self.target_epoch {
            self.assign();
        }
        let after = self.step(now, &id, owned.as_ref());
        let includes_assignment = heartbeat_request.is_full() || after.assigned != before.assigned;
        Ok(ConsumerGroupHeartbeatResponse {
            member_id: Some(id),
            member_epoch: after.epoch,
            heartbeat_interval_ms: millis(options.consumer_heartbeat_interval),
            assignment: includes_assignment.then(|| described(&after.assigned)),
            ..ConsumerGroupHeartbeatResponse::default()
        })
    }

    /// Returns the member in its state before this heartbeat, or a new member if it joins.
    fn admit(
        &mut self,
        now: Instant,
        heartbeat_request: &MemberHeartbeat<'_>,
        owned: Option<&Partitions>,
    ) -> Result<Member, Rejection> {
        let request = heartbeat_request.request;
        let id = if request.member_id.is_empty() { random_uuid() } else { request.member_id.clone() };
        let fenced = |code| (code, format!("member {id} is at another epoch than {}", request.member_epoch));
        let existing = match request.instance_id.as_deref() {
            None => self.member(&id),
            Some(instance_id) => match self.static_member(instance_id) {
                Some(away) if heartbeat_request.joins() => {
                    if away.epoch != LEAVE_STATIC_EPOCH {
                        let message = format!("Instance id {instance_id} is held by member {}.", away.id);
                        return reject(ErrorCode::UNRELEASED_INSTANCE_ID, message);
                    }
                    return Ok(self.rejoin_static(instance_id, &id));
                }
                Some(other) if other.id != id => {
                    let message = format!("Instance id {instance_id} is held by member {}.", other.id);
                    return reject(ErrorCode::FENCED_INSTANCE_ID, message);
                }
                existing_member => existing_member,
            },
        };
        match existing {
            Some(member) => {
                member.check_heartbeat(request.member_epoch, owned).map_err(fenced)?;
                Ok(member.clone())
            }
            None if heartbeat_request.joins() => Ok(Member::new(&id, now)),
            None => reject(ErrorCode::UNKNOWN_MEMBER_ID, format!("Member {id} is not a member of the group.")),
        }
    }

    /// Replaces the id of a static member that joins again, and returns the member with its previous assignment.
    fn rejoin_static(&mut self, instance_id: &str, id: &str) -> Member {
        let mut back = Member::new(id, Instant::now());
        if let Some(at) = self.members.iter().position(|member| member.instance_id.as_deref() == Some(instance_id)) {
            let away = self.members.remove(at);
            if let Some(target) = self.target.remove(&away.id) {
                self.target.insert(id.to_owned(), target);
            }
            back = Member { id: id.to_owned(), epoch: JOIN, previous_epoch: JOIN, ..away };
            self.members.insert(at, back.clone());
        }
        back
    }

    fn put(&mut self, member: Member) {
        match self.members.iter_mut().find(|known| known.id == member.id) {
            Some(known) => *known = member,
            None => self.members.push(member),
        }
    }

    /// Reconciles a member with its target assignment and returns the updated member.
    fn step(&mut self, now: Instant, id: &str, owned: Option<&Partitions>) -> Member {
        let held: HashSet<_> =
            self.members.iter().flat_map(|member| member.assigned.iter().chain(&member.revoking)).copied().collect();
        let target = self.target(id);
        let target_epoch = self.target_epoch;
        let Some(member) = self.members.iter_mut().find(|member| member.id == id) else {
            return Member::new(id, now);
        };
        let before = (member.progress, member.epoch, member.revoking.clone());
        member.reconcile((target_epoch, &target), owned, &held);
        if member.progress != Progress::Revoking {
            member.revoke_by = None;
        } else if before != (member.progress, member.epoch, member.revoking.clone()) {
            member.revoke_by = Some(now + member.rebalance_timeout);
        }
        member.clone()
    }

    fn leave(
        &mut self,
        now: Instant,
        heartbeat_request: &MemberHeartbeat<'_>,
    ) -> Result<ConsumerGroupHeartbeatResponse, Rejection> {
        let request = heartbeat_request.request;
        let unknown = || (ErrorCode::UNKNOWN_MEMBER_ID, format!("Member {} is unknown.", request.member_id));
        let member = match request.instance_id.as_deref() {
            None => self.member(&request.member_id).ok_or_else(unknown)?,
            Some(instance_id) => {
                let member = self.static_member(instance_id).ok_or_else(unknown)?;
                if member.id != request.member_id {
                    let message = format!("Instance id {instance_id} is held by member {}.", member.id);
                    return reject(ErrorCode::FENCED_INSTANCE_ID, message);
                }
                member
            }
        };
        let id = member.id.clone();
        if request.member_epoch == LEAVE {
            self.fence(&id, now);
        } else if let Some(member) = self.members.iter_mut().find(|member| member.id == id) {
            // A static member that leaves keeps its partitions until its session expires.
            member.epoch = LEAVE_STATIC_EPOCH;
            member.progress = Progress::Stable;
            member.revoking.clear();
            member.revoke_by = None;
        }
        Ok(ConsumerGroupHeartbeatResponse {
            member_id: Some(id),
            member_epoch: request.member_epoch,
            ..ConsumerGroupHeartbeatResponse::default()
        })
    }
}

/// Converts the heartbeat interval to milliseconds. The result is at least 1, since members would send heartbeats
/// without pause at 0.
fn millis(interval: Duration) -> i32 {
    i32::try_from(interval.as_millis()).unwrap_or(i32::MAX).max(1)
}

/// Updates a member from its heartbeat. Returns true if its subscription has changed.
fn update(member: &mut Member, heartbeat_request: &MemberHeartbeat<'_>, pattern: Option<Option<Pattern>>) -> bool {
    let request = heartbeat_request.request;
    let old = (member.topics.clone(), member.pattern().map(str::to_owned));
    heartbeat_request.client_id.clone_into(&mut member.client_id);
    heartbeat_request.client_host.clone_into(&mut member.client_host);
    if let Ok(ms) = u64::try_from(request.rebalance_timeout_ms) {
        member.rebalance_timeout = Duration::from_millis(ms);
    }
    for (own, value) in [
        (&mut member.instance_id, &request.instance_id),
        (&mut member.rack_id, &request.rack_id),
        (&mut member.assignor, &request.server_assignor),
    ] {
        if value.is_some() {
            own.clone_from(value);
        }
    }
    if let Some(names) = &request.subscribed_topic_names {
        member.topics = names.iter().cloned().collect();
    }
    if let Some(pattern) = pattern {
        member.pattern = pattern;
    }
    old != (member.topics.clone(), member.pattern().map(str::to_owned))
}

fn described(partitions: &Partitions) -> Assignment {
    let mut topics: BTreeMap<[u8; 16], Vec<i32>> = BTreeMap::new();
    for (id, partition) in partitions {
        topics.entry(*id).or_default().push(*partition);
    }
    let topic = |(id, partitions)| TopicPartitions { topic_id: Uuid(id), partitions, ..TopicPartitions::default() };
    Assignment { topic_partitions: topics.into_iter().map(topic).collect(), ..Assignment::default() }
}
