//! Consumer groups: members and committed offsets.

pub(crate) mod classic;
pub(crate) mod consumer;
mod members;
pub(crate) mod offsets;
pub(crate) mod share;
mod transactional;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::leave_group::MemberIdentity;
use samsarrow_wire::messages::{
    ConsumerGroupHeartbeatResponse, HeartbeatRequest, JoinGroupResponse, OffsetCommitRequest,
    ShareGroupHeartbeatResponse, SyncGroupRequest, SyncGroupResponse,
};
use tokio::time::Instant;

use crate::options::GroupOptions;
use classic::member::{ResponseSender, join_error};
use classic::{Classic, Joiner};
use consumer::{Catalog, Consumers, MemberHeartbeat, Rejection};
pub(crate) use members::Members;
use offsets::{Committed, Offsets};
use share::{ShareHeartbeat, ShareMembers};
use transactional::Pending;

/// Upper limit of all timeouts. It prevents an overflow of `Instant`.
const MAX_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 24 * 60 * 60);
/// Maximum and minimum interval at which expired offsets are removed. Between these bounds, the interval is a tenth of
/// the retention.
const MAX_SWEEP_INTERVAL: Duration = Duration::from_secs(600);
const MIN_SWEEP_INTERVAL: Duration = Duration::from_millis(10);
/// First OffsetCommit version with a separate error for an unknown group.
const FIRST_COMMIT_WITH_GROUP_ERROR: i16 = 9;

/// A consumer group: members, committed offsets and pending transactional offsets.
#[derive(Debug)]
pub(crate) struct Group {
    members: Members,
    offsets: Offsets,
    pending: Pending,
}

impl Group {
    fn new(now: Instant) -> Self {
        let members = Members::Classic(Box::new(Classic::new(now)));
        Group { members, offsets: Offsets::default(), pending: Pending::default() }
    }

    /// Removes expired offsets. Returns true if the group is still in use.
    fn expire_offsets(&mut self, now: Instant, retention: Duration) -> bool {
        let Some(from) = self.members.retained() else { return true };
        self.offsets.expire(now, retention, from, |topic| self.members.reads(topic));
        let unused = self.members.unused_since();
        !self.offsets.is_empty() || !self.pending.is_empty() || unused.is_none_or(|since| now < since + retention)
    }
}

/// All groups of the broker.
#[derive(Debug)]
pub(crate) struct Groups {
    options: GroupOptions,
    by_id: BTreeMap<String, Group>,
    next_sweep: Instant,
}

/// Returns a random UUID (RFC 9562, version 4) as text.
fn random_uuid() -> String {
    let bits = fastrand::u128(..) & !0xf000_c000_0000_0000_0000 | 0x4000_8000_0000_0000_0000;
    let mut text = String::with_capacity(36);
    for (at, digit) in format!("{bits:032x}").char_indices() {
        if matches!(at, 8 | 12 | 16 | 20) {
            text.push('-');
        }
        text.push(digit);
    }
    text
}

impl Groups {
    pub(crate) fn new(options: &GroupOptions) -> Self {
        let options = GroupOptions {
            initial_rebalance_delay: options.initial_rebalance_delay.min(MAX_TIMEOUT),
            consumer_session_timeout: options.consumer_session_timeout.min(MAX_TIMEOUT),
            offsets_retention: options.offsets_retention.min(MAX_TIMEOUT),
            ..options.clone()
        };
        Groups { options, by_id: BTreeMap::new(), next_sweep: Instant::now() }
    }

    fn group_or_new(&mut self, group: &str, now: Instant) -> &mut Group {
        self.by_id.entry(group.to_owned()).or_insert_with(|| Group::new(now))
    }

    /// Returns the members of a classic group. Fails with UNKNOWN_MEMBER_ID for other groups.
    fn classic_of(&mut self, group: &str) -> Result<&mut Classic, ErrorCode> {
        match self.by_id.get_mut(group).map(|group| &mut group.members) {
            Some(Members::Classic(classic)) => Ok(classic),
            _ => Err(ErrorCode::UNKNOWN_MEMBER_ID),
        }
    }

    pub(crate) fn join(&mut self, now: Instant, joiner: &Joiner<'_>, sender: ResponseSender<JoinGroupResponse>) {
        let request = joiner.request;
        let session = Duration::from_millis(u64::try_from(request.session_timeout_ms).unwrap_or_default());
        let bounds = self.options.min_session_timeout..=self.options.max_session_timeout;
        let code = if !bounds.contains(&session) {
            ErrorCode::INVALID_SESSION_TIMEOUT
        } else if request.member_id.is_empty() || self.by_id.contains_key(&request.group_id) {
            ErrorCode::NONE
        } else {
            ErrorCode::UNKNOWN_MEMBER_ID
        };
        if !code.is_none() {
            let _ = sender.send(join_error(&request.member_id, code));
            return;
        }
        let options = self.options.clone();
        let group = self.group_or_new(&request.group_id, now);
        // As in Kafka, an empty consumer group becomes a classic group, and a share group never does.
        if group.members.consumers().is_some() && group.members.is_empty() {
            group.members = Members::Classic(Box::new(Classic::new(now)));
        }
        match &mut group.members {
            Members::Classic(classic) => classic.join(now, joiner, &options, sender),
            Members::Consumer(_) | Members::Share(_) => {
                let _ = sender.send(join_error(&request.member_id, ErrorCode::INCONSISTENT_GROUP_PROTOCOL));
            }
        }
    }

    pub(crate) fn sync(&mut self, now: Instant, request: &SyncGroupRequest, sender: ResponseSender<SyncGroupResponse>) {
        match self.classic_of(&request.group_id) {
            Ok(members) => members.sync(now, request, sender),
            Err(code) => {
                let _ = sender.send(SyncGroupResponse { error_code: code.code(), ..SyncGroupResponse::default() });
            }
        }
    }

    pub(crate) fn heartbeat(&mut self, now: Instant, request: &HeartbeatRequest) -> Result<(), ErrorCode> {
        self.classic_of(&request.group_id)?.heartbeat(now, request)
    }

    /// Removes members from a group. Returns one result per member.
    pub(crate) fn leave(
        &mut self,
        now: Instant,
        group: &str,
        leaving: &[MemberIdentity],
    ) -> Vec<Result<(), ErrorCode>> {
        let options = self.options.clone();
        match self.classic_of(group) {
            Ok(members) => members.leave(now, leaving, &options),
            Err(code) => leaving.iter().map(|_| Err(code)).collect(),
        }
    }

    /// Handles a heartbeat of a KIP-848 member.
    pub(crate) fn consumer_heartbeat(
        &mut self,
        now: Instant,
        heartbeat_request: &MemberHeartbeat<'_>,
        catalog: &Catalog,
    ) -> Result<ConsumerGroupHeartbeatResponse, Rejection> {
        heartbeat_request.check()?;
        let id = &heartbeat_request.request.group_id;
        let missing = || (ErrorCode::GROUP_ID_NOT_FOUND, format!("Group {id} is not a consumer group."));
        let options = self.options.clone();
        if heartbeat_request.joins() {
            let group = self.group_or_new(id, now);
            if group.members.classic().is_some() && group.members.is_empty() {
                group.members = Members::Consumer(Consumers::new(now));
            }
        }
        match self.by_id.get_mut(id).map(|group| &mut group.members) {
            Some(Members::Consumer(consumers)) => consumers.heartbeat(now, heartbeat_request, catalog, &options),
            _ => Err(missing()),
        }
    }

    /// Handles a heartbeat of a member of a share group.
    pub(crate) fn share_heartbeat(
        &mut self,
        now: Instant,
        heartbeat: &ShareHeartbeat<'_>,
        catalog: &Catalog,
    ) -> Result<ShareGroupHeartbeatResponse, Rejection> {
        heartbeat.check()?;
        let id = &heartbeat.request.group_id;
        if heartbeat.joins() {
            self.create_share_group(id, now);
        }
        match self.by_id.get_mut(id).map(|group| &mut group.members) {
            Some(Members::Share(members)) => members.heartbeat(now, heartbeat, catalog),
            _ => Err((ErrorCode::GROUP_ID_NOT_FOUND, format!("Group {id} is not a share group."))),
        }
    }

    /// Creates a share group, unless the group exists. A group of another type keeps its type, even without members.
    pub(crate) fn create_share_group(&mut self, id: &str, now: Instant) {
        if !self.by_id.contains_key(id) {
            self.group_or_new(id, now).members = Members::Share(ShareMembers::new(now));
        }
    }

    /// Checks that the sender may commit offsets of the group. Must be called before [`Groups::commit`], which commits
    /// a single offset.
    pub(crate) fn check_commit(
        &mut self,
        now: Instant,
        version: i16,
        request: &OffsetCommitRequest,
    ) -> Result<(), ErrorCode> {
        let generation = request.generation_id_or_member_epoch;
        match self.by_id.get_mut(&request.group_id) {
            Some(Group { members: Members::Classic(classic), .. }) => {
                let instance_id = request.group_instance_id.as_deref();
                classic.check_commit(now, &request.member_id, instance_id, generation)
            }
            Some(Group { members: Members::Consumer(consumers), .. }) => {
                consumers.check_commit(version, &request.member_id, generation)
            }
            Some(Group { members: Members::Share(_), .. }) => Err(ErrorCode::GROUP_ID_NOT_FOUND),
            None if generation < 0 => Ok(()),
            None if version >= FIRST_COMMIT_WITH_GROUP_ERROR => Err(ErrorCode::GROUP_ID_NOT_FOUND),
            None => Err(ErrorCode::ILLEGAL_GENERATION),
        }
    }

    /// Commits an offset without further checks. `keep` is the retention that the request specifies, if any.
    pub(crate) fn commit(
        &mut self,
        group: &str,
        (topic, topic_id, partition): (&Arc<str>, [u8; 16], i32),
        committed: Committed,
        keep: Option<Duration>,
    ) {
        let now = Instant::now();
        let keep = keep.map(|keep| keep.min(MAX_TIMEOUT));
        self.group_or_new(group, now).offsets.commit(now, topic, topic_id, partition, committed, keep);
    }

    pub(crate) fn committed(&self, group: &str, topic: &Arc<str>, id: [u8; 16], partition: i32) -> Option<Committed> {
        self.by_id.get(group)?.offsets.get(topic, id, partition)
    }

    /// Returns all committed offsets of a group, ordered by topic and partition.
    pub(crate) fn all(&self, group: &str) -> Vec<(Arc<str>, i32, Committed)> {
        self.by_id.get(group).map(|group| group.offsets.all()).unwrap_or_default()
    }

    /// Removes the committed offsets of a deleted topic.
    pub(crate) fn forget_topic(&mut self, id: [u8; 16]) {
        for group in self.by_id.values_mut() {
            group.offsets.forget_topic(id);
            group.pending.forget_topic(id);
        }
    }

    /// Checks that this member may fetch offsets of the group.
    pub(crate) fn check_fetch(&self, group: &str, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        match self.members(group).and_then(Members::consumers) {
            Some(consumers) => consumers.check_fetch(member_id, epoch),
            None => Ok(()),
        }
    }

    /// Returns the members of a group.
    pub(crate) fn members(&self, group: &str) -> Option<&Members> {
        self.by_id.get(group).map(|group| &group.members)
    }

    /// Returns all groups, ordered by id.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Members)> {
        self.by_id.iter().map(|(id, group)| (id.as_str(), &group.members))
    }

    /// Deletes a group and its offsets. Fails if the group has members.
    pub(crate) fn delete(&mut self, group: &str) -> Result<(), ErrorCode> {
        if !self.members(group).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?.is_empty() {
            return Err(ErrorCode::NON_EMPTY_GROUP);
        }
        self.by_id.remove(group);
        Ok(())
    }

    /// Checks that offsets of the group may be deleted. Subscriptions to their topics are checked separately.
    pub(crate) fn check_offset_delete(&self, group: &str) -> Result<(), ErrorCode> {
        match self.members(group).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)? {
            Members::Classic(classic) => classic.check_offset_delete(),
            Members::Consumer(_) => Ok(()),
            Members::Share(_) => Err(ErrorCode::GROUP_ID_NOT_FOUND),
        }
    }

    /// Deletes the committed offset of a partition, if any. Fails if the group is subscribed to the topic.
    pub(crate) fn delete_offset(&mut self, group: &str, topic: &Arc<str>, partition: i32) -> Result<(), ErrorCode> {
        let group = self.by_id.get_mut(group).ok_or(ErrorCode::GROUP_ID_NOT_FOUND)?;
        if group.members.reads(topic) {
            return Err(ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC);
        }
        group.offsets.delete(topic, partition);
        Ok(())
    }

    /// Moves the group to another coordinator.
    pub(crate) fn reload(&mut self, group: &str, now: Instant) {
        if let Some(group) = self.by_id.get_mut(group) {
            group.members.reload(now, &self.options);
        }
    }

    /// Returns the earliest deadline of any group, at which [`Groups::tick`] must be called.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let sweep = (!self.by_id.is_empty()).then_some(self.next_sweep);
        self.by_id.values().filter_map(|group| group.members.next_deadline()).chain(sweep).min()
    }

    /// Applies expired deadlines.
    pub(crate) fn tick(&mut self, now: Instant) {
        for group in self.by_id.values_mut() {
            group.members.tick(now, &self.options);
        }
        if self.next_sweep <= now {
            let retention = self.options.offsets_retention;
            self.next_sweep = now + (retention / 10).clamp(MIN_SWEEP_INTERVAL, MAX_SWEEP_INTERVAL);
            self.by_id.retain(|_, group| group.expire_offsets(now, retention));
        }
    }
}
