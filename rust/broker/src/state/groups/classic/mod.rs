//! The classic rebalance protocol: state and members of a classic group.
//!
//! ```text
//!          join              all joined, or timeout           leader's SyncGroup
//! Empty ────────▶ PreparingRebalance ────────▶ CompletingRebalance ────────▶ Stable
//!   ▲                  │      ▲                          │                      │
//!   └─── none joined ──┘      └── join, leave, session ended, no SyncGroup ─────┘
//! ```
//!
//! This module does no I/O and does not wait: each member keeps the sender of its delayed response, and the current
//! time is an argument. Unknown groups have Kafka's state Dead, which has no variant here.

mod expire;
mod join;
mod leave;
pub(crate) mod member;
mod rebalance;
mod sync;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::ConsumerProtocolSubscription;
use samsarrow_wire::messages::join_group::JoinGroupRequestProtocol;
use tokio::time::Instant;

pub(crate) use join::Joiner;
use member::Member;

/// Time after which a new member that waits in JoinGroup is removed, as in Kafka.
const NEW_MEMBER_JOIN_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Kafka's states of a classic group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
}

impl Phase {
    /// Returns Kafka's name of the state, as used in responses.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Empty => "Empty",
            Phase::PreparingRebalance => "PreparingRebalance",
            Phase::CompletingRebalance => "CompletingRebalance",
            Phase::Stable => "Stable",
        }
    }
}

/// Deadline of the join phase of a rebalance.
#[derive(Debug, Clone, Copy)]
enum JoinEnd {
    /// The first rebalance of an empty group. If another member has joined by the deadline `at`, the deadline is
    /// extended by up to the initial rebalance delay. `delay` is the length of the current wait, and `left` limits
    /// further extensions.
    Initial {
        at: Instant,
        delay: Duration,
        left: Duration,
    },
    Late {
        at: Instant,
    },
}

impl JoinEnd {
    fn at(self) -> Instant {
        match self {
            JoinEnd::Initial { at, .. } | JoinEnd::Late { at } => at,
        }
    }
}

/// Persistent state of a group, which Kafka writes to `__consumer_offsets`.
#[derive(Debug)]
struct Saved {
    generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: Option<String>,
    members: Vec<Member>,
    since: Instant,
}

/// Members of a group and the state of their rebalance.
#[derive(Debug)]
pub(crate) struct Classic {
    phase: Phase,
    /// Time at which this phase started.
    since: Instant,
    generation: i32,
    protocol_type: Option<String>,
    protocol: Option<String>,
    leader: Option<String>,
    /// Members in the order in which they joined.
    members: Vec<Member>,
    /// Member ids issued to clients that have not joined yet (KIP-394), with their expiry.
    pending_members: BTreeMap<String, Instant>,
    /// Ids of members that have not sent SyncGroup in this generation.
    unsynced: BTreeSet<String>,
    join_end: Option<JoinEnd>,
    sync_end: Option<Instant>,
    /// True if a member has joined since the deadline of the first rebalance was last extended.
    member_joined: bool,
    /// Topics to which the members of a consumer group are subscribed; `None` if unknown.
    subscribed: Option<BTreeSet<String>>,
    saved: Option<Saved>,
}

/// Protocol type of consumers. The coordinator parses member metadata only for this type.
pub(crate) const CONSUMER: &str = "consumer";

impl Classic {
    pub(crate) fn new(now: Instant) -> Self {
        Classic {
            phase: Phase::Empty,
            since: now,
            generation: 0,
            protocol_type: None,
            protocol: None,
            leader: None,
            members: Vec::new(),
            pending_members: BTreeMap::new(),
            unsynced: BTreeSet::new(),
            join_end: None,
            sync_end: None,
            member_joined: false,
            subscribed: None,
            saved: None,
        }
    }

    pub(crate) fn members(&self) -> &[Member] {
        &self.members
    }

    /// Returns the protocol (assignor) that was selected in the last rebalance.
    pub(crate) fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    pub(crate) fn since(&self) -> Instant {
        self.since
    }

    pub(crate) fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    /// Returns true if the group has neither members nor pending members.
    pub(crate) fn is_unused(&self) -> bool {
        self.phase == Phase::Empty && self.pending_members.is_empty()
    }

    /// Returns true if the members are subscribed to a topic, or if their subscriptions are unknown.
    pub(crate) fn reads(&self, topic: &str) -> bool {
        let is_consumers = !self.members.is_empty() && self.protocol_type() == Some(CONSUMER);
        is_consumers && self.subscribed.as_ref().is_none_or(|topics| topics.contains(topic))
    }

    /// Returns true if the group is a stable consumer group whose subscriptions are known.
    pub(crate) fn is_reading(&self) -> bool {
        self.phase == Phase::Stable && self.protocol_type() == Some(CONSUMER) && self.subscribed.is_some()
    }

    fn find_subscribed(&self) -> Option<BTreeSet<String>> {
        let protocol = self.protocol.as_deref()?;
        let mut topics = BTreeSet::new();
        for member in &self.members {
            topics.extend(ConsumerProtocolSubscription::from_bytes(member.metadata(protocol)).ok()?.topics);
        }
        Some(topics)
    }

    /// Checks that offsets of the group may be deleted. Subscriptions to their topics are checked separately.
    pub(crate) fn check_offset_delete(&self) -> Result<(), ErrorCode> {
        if self.phase != Phase::Empty && self.protocol_type() != Some(CONSUMER) {
            return Err(ErrorCode::NON_EMPTY_GROUP);
        }
        Ok(())
    }

    fn member(&self, id: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    fn member_mut(&mut self, id: &str) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.id == id)
    }

    fn static_member(&self, instance_id: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.instance_id.as_deref() == Some(instance_id))
    }

    fn is_leader(&self, id: &str) -> bool {
        self.leader.as_deref() == Some(id)
    }

    /// Checks that the member id is known and matches the instance id (KIP-345).
    fn check_member(&self, id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_member(instance_id) {
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some(member) if member.id != id => return Err(ErrorCode::FENCED_INSTANCE_ID),
                Some(_) => (),
            }
        }
        self.member(id).map(|_| ()).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)
    }

    fn check_generation(&self, generation: i32) -> Result<(), ErrorCode> {
        if generation == self.generation { Ok(()) } else { Err(ErrorCode::ILLEGAL_GENERATION) }
    }

    /// Returns true if a member with these protocols may join the group or stay in it.
    fn supports(&self, protocol_type: &str, protocols: &[JoinGroupRequestProtocol]) -> bool {
        if self.phase == Phase::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        let by_all = |name: &str| self.members.iter().all(|member| member.params.supports(name));
        self.protocol_type.as_deref() == Some(protocol_type) && protocols.iter().any(|protocol| by_all(&protocol.name))
    }

    /// Selects the protocol of the next generation. Each member votes for its most preferred protocol among those that
    /// all members support. In a tie, the vote of the oldest member takes precedence.
    fn vote(&self) -> Option<String> {
        let by_all = |name: &str| self.members.iter().all(|member| member.params.supports(name));
        let mut votes: Vec<(&str, usize)> = Vec::new();
        for member in &self.members {
            let choice =
                member.params.protocols.iter().map(|protocol| protocol.name.as_str()).find(|name| by_all(name));
            let Some(choice) = choice else { continue };
            match votes.iter_mut().find(|(name, _)| *name == choice) {
                Some((_, count)) => *count += 1,
                None => votes.push((choice, 1)),
            }
        }
        let max_votes = votes.iter().map(|(_, count)| *count).max()?;
        votes.into_iter().find(|(_, count)| *count == max_votes).map(|(name, _)| name.to_owned())
    }

    /// Removes a member. If the member was the leader, another member becomes the leader.
    fn remove(&mut self, id: &str) -> Option<Member> {
        let index = self.members.iter().position(|member| member.id == id);
        let removed = index.map(|index| self.members.remove(index));
        if self.is_leader(id) {
            self.leader = self.members.first().map(|member| member.id.clone());
        }
        self.pending_members.remove(id);
        self.unsynced.remove(id);
        removed
    }

    fn enter(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.since = now;
    }

    /// Saves the state that Kafka would write to its log.
    fn save(&mut self) {
        self.saved = Some(Saved {
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            members: self.members.iter().map(Member::saved).collect(),
            since: self.since,
        });
    }

    /// Moves the group to another coordinator. Pending requests fail with NOT_COORDINATOR, and the group returns to its
    /// saved state.
    pub(crate) fn reload(&mut self, now: Instant) {
        for member in &mut self.members {
            member.fail(ErrorCode::NOT_COORDINATOR);
        }
        let saved = self.saved.take();
        *self = Classic::new(now);
        let Some(saved) = saved else { return };
        self.generation = saved.generation;
        self.protocol_type = saved.protocol_type;
        self.protocol = saved.protocol;
        self.leader = saved.leader;
        self.members = saved.members;
        self.since = saved.since;
        self.phase = if self.members.is_empty() { Phase::Empty } else { Phase::Stable };
        for member in &mut self.members {
            member.renew(now);
        }
        self.subscribed = self.find_subscribed();
        self.save();
    }

    /// Checks that a member may commit offsets in a transaction. Such commits are also allowed during a rebalance.
    pub(crate) fn check_transactional_commit(
        &mut self,
        now: Instant,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        match self.check_commit(now, member_id, instance_id, generation) {
            Err(ErrorCode::REBALANCE_IN_PROGRESS) => Ok(()),
            checked => checked,
        }
    }

    /// Checks that this member may commit offsets in this generation.
    pub(crate) fn check_commit(
        &mut self,
        now: Instant,
        member_id: &str,
        instance_id: Option<&str>,
        generation: i32,
    ) -> Result<(), ErrorCode> {
        if generation < 0 && self.phase == Phase::Empty {
            // The sender is an administrator, or a consumer that assigns partitions manually.
            return Ok(());
        }
        if generation < 0 && member_id.is_empty() && instance_id.is_none() {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        self.check_member(member_id, instance_id)?;
        self.check_generation(generation)?;
        match self.phase {
            Phase::CompletingRebalance => return Err(ErrorCode::REBALANCE_IN_PROGRESS),
            // A commit counts as a heartbeat.
            Phase::Stable | Phase::PreparingRebalance => {
                if let Some(member) = self.member_mut(member_id) {
                    member.renew(now);
                }
            }
            Phase::Empty => (),
        }
        Ok(())
    }
}
