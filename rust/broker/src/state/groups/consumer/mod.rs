//! Consumer groups with server-side assignment (KIP-848). Changes of members, subscriptions and topics bump the group
//! epoch. A target assignment is computed for each group epoch. Members reconcile with their target independently, and
//! each revokes partitions before it gets new ones.

mod assign;
mod heartbeat;
mod member;
mod reconcile;
mod topics;

use std::collections::{BTreeMap, BTreeSet};

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use crate::options::GroupOptions;
pub(crate) use heartbeat::{MemberHeartbeat, Rejection};
pub(crate) use member::Member;
pub(crate) use topics::{Catalog, TopicIndex};

/// Partitions, each as topic id and partition index.
pub(crate) type Partitions = BTreeSet<([u8; 16], i32)>;

/// First OffsetCommit version that can contain a member epoch.
const FIRST_COMMIT_WITH_EPOCH: i16 = 9;

/// Members and target assignment of a consumer group.
#[derive(Debug)]
pub(crate) struct Consumers {
    /// Group epoch, bumped when members, subscriptions or topics change.
    epoch: i32,
    /// Group epoch for which the target assignment was computed.
    target_epoch: i32,
    /// Members in the order in which they joined.
    members: Vec<Member>,
    target: BTreeMap<String, Partitions>,
    /// Subscribed topics that existed at the last bump of the group epoch.
    subscribed_topics: TopicIndex,
    since: Instant,
}

impl Consumers {
    pub(crate) fn new(now: Instant) -> Self {
        Consumers {
            epoch: 0,
            target_epoch: 0,
            members: Vec::new(),
            target: BTreeMap::new(),
            subscribed_topics: TopicIndex::new(),
            since: now,
        }
    }

    pub(crate) fn epoch(&self) -> i32 {
        self.epoch
    }

    pub(crate) fn target_epoch(&self) -> i32 {
        self.target_epoch
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the target assignment of the member with this id, which is empty for an unknown member.
    pub(crate) fn target(&self, member: &str) -> Partitions {
        self.target.get(member).cloned().unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Returns the time at which the group was created or lost its last member.
    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    /// Returns Kafka's name of the state.
    pub(crate) fn state(&self) -> &'static str {
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.target_epoch {
            "Assigning"
        } else if self.members.iter().all(|member| member.is_at(self.target_epoch)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    pub(crate) fn reads(&self, topic: &str) -> bool {
        self.subscribed_topics.contains_key(topic)
    }

    fn member(&self, id: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    fn static_member(&self, instance_id: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.instance_id.as_deref() == Some(instance_id))
    }

    /// Removes a member. Its partitions can be assigned to other members immediately.
    fn fence(&mut self, id: &str, now: Instant) {
        self.members.retain(|member| member.id != id);
        self.target.remove(id);
        self.subscribed_topics.retain(|topic, _| self.members.iter().any(|member| member.reads(topic)));
        self.epoch = self.epoch.wrapping_add(1).max(1);
        if self.members.is_empty() {
            self.since = now;
        }
    }

    /// Returns the earliest deadline of a session or a revocation.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.members.iter().flat_map(|member| [Some(member.expires), member.revoke_by]).flatten().min()
    }

    /// Removes the members whose session or revocation deadline has passed.
    pub(crate) fn tick(&mut self, now: Instant) {
        let is_late = |member: &&Member| member.expires <= now || member.revoke_by.is_some_and(|end| end <= now);
        let late: Vec<String> = self.members.iter().filter(is_late).map(|member| member.id.clone()).collect();
        for id in late {
            self.fence(&id, now);
        }
    }

    /// Moves the group to another coordinator. It keeps the whole state, but timeouts start again.
    pub(crate) fn reload(&mut self, now: Instant, options: &GroupOptions) {
        for member in &mut self.members {
            member.expires = now + options.consumer_session_timeout;
            member.revoke_by = member.revoke_by.map(|_| now + member.rebalance_timeout);
        }
    }

    /// Checks that this member may commit offsets with this member epoch.
    pub(crate) fn check_commit(&self, version: i16, member_id: &str, epoch: i32) -> Result<(), ErrorCode> {
        if epoch < 0 && self.members.is_empty() {
            return Ok(());
        }
        let member = self.member(member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if version < FIRST_COMMIT_WITH_EPOCH {
            return Err(ErrorCode::UNSUPPORTED_VERSION);
        }
        member.check_epoch(epoch)
    }

    /// Checks that this member may commit offsets in a transaction. All versions of TxnOffsetCommit that name a member
    /// contain its epoch.
    pub(crate) fn check_transactional_commit(&self, member_id: &str, epoch: i32) -> Result<(), ErrorCode> {
        self.check_commit(FIRST_COMMIT_WITH_EPOCH, member_id, epoch)
    }

    /// Checks that this member may fetch offsets. Requests without a member id and epoch are always allowed.
    pub(crate) fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        if member_id.is_none() && epoch < 0 {
            return Ok(());
        }
        let member = member_id.and_then(|id| self.member(id));
        member.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?.check_epoch(epoch)
    }
}
