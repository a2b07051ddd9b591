//! Consumer groups with server-side assignment (KIP-848). The group epoch counts changes of members, subscriptions and
//! topics; the target assignment is computed for a group epoch; each member reconciles with its target at its own pace,
//! and revokes before it takes new partitions.

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
pub(crate) use topics::Catalog;
use topics::TopicIndex;

/// Partitions as topic id and index.
pub(crate) type Partitions = BTreeSet<([u8; 16], i32)>;

/// First version in which a commit can carry a member epoch.
const FIRST_COMMIT_WITH_EPOCH: i16 = 9;

/// Members and target assignment of a consumer group.
#[derive(Debug)]
pub(crate) struct Consumers {
    /// Bumped on changes of members, subscriptions or topics.
    epoch: i32,
    /// Group epoch of the target assignment.
    target_epoch: i32,
    /// Members in the order in which they joined.
    members: Vec<Member>,
    target: BTreeMap<String, Partitions>,
    /// Subscribed topics at the last bump of the epoch.
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

    /// Returns the target assignment of a member.
    pub(crate) fn target(&self, member: &str) -> Partitions {
        self.target.get(member).cloned().unwrap_or_default()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Time of the removal of the last member.
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

    /// Removes a member; its partitions are free immediately.
    fn fence(&mut self, id: &str, now: Instant) {
        self.members.retain(|member| member.id != id);
        self.target.remove(id);
        self.subscribed_topics.retain(|topic, _| self.members.iter().any(|member| member.reads(topic)));
        self.epoch = self.epoch.wrapping_add(1).max(1);
        if self.members.is_empty() {
            self.since = now;
        }
    }

    /// Returns the next session or revocation deadline.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.members.iter().flat_map(|member| [Some(member.expires), member.revoke_by]).flatten().min()
    }

    /// Removes members whose session or revocation deadline has passed.
    pub(crate) fn tick(&mut self, now: Instant) {
        let is_late = |member: &&Member| member.expires <= now || member.revoke_by.is_some_and(|end| end <= now);
        let late: Vec<String> = self.members.iter().filter(is_late).map(|member| member.id.clone()).collect();
        for id in late {
            self.fence(&id, now);
        }
    }

    /// Moves the group to another coordinator, which knows the whole state, and restarts the timeouts.
    pub(crate) fn reload(&mut self, now: Instant, options: &GroupOptions) {
        for member in &mut self.members {
            member.expires = now + options.consumer_session_timeout;
            member.revoke_by = member.revoke_by.map(|_| now + member.rebalance_timeout);
        }
    }

    /// Checks that offsets may be committed by this member and epoch.
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

    /// Checks a commit in a transaction; all versions of its request carry the member epoch.
    pub(crate) fn check_transactional_commit(&self, member_id: &str, epoch: i32) -> Result<(), ErrorCode> {
        self.check_commit(FIRST_COMMIT_WITH_EPOCH, member_id, epoch)
    }

    /// Checks that this member may fetch offsets; requests without a member id and epoch always may.
    pub(crate) fn check_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        if member_id.is_none() && epoch < 0 {
            return Ok(());
        }
        let member = member_id.and_then(|id| self.member(id));
        member.ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?.check_epoch(epoch)
    }
}
