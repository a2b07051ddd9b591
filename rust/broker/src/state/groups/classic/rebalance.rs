//! Rebalance: from the first JoinGroup to the next generation.

use std::time::Duration;

use samsarrow_wire::messages::join_group::JoinGroupResponse;
use tokio::time::Instant;

use super::member::Member;
use super::{Classic, JoinEnd, Phase};
use crate::options::GroupOptions;

/// Minimum rebalance timeout. Members may request 0, which would make the timer task loop without pause.
const MIN_REBALANCE_TIMEOUT: Duration = Duration::from_millis(10);

impl Classic {
    /// Returns the longest rebalance timeout of the members.
    fn rebalance_timeout(&self) -> Duration {
        let longest = self.members.iter().map(|member| member.params.rebalance_timeout).max();
        longest.unwrap_or_default().max(MIN_REBALANCE_TIMEOUT)
    }

    /// Returns true during the initial rebalance delay of an empty group.
    pub(super) fn is_initial_rebalance(&self) -> bool {
        self.phase == Phase::PreparingRebalance && matches!(self.join_end, Some(JoinEnd::Initial { .. }))
    }

    fn have_all_joined(&self) -> bool {
        self.pending_members.is_empty() && self.members.iter().all(Member::is_joining)
    }

    pub(super) fn rebalance_or_complete(&mut self, now: Instant, options: &GroupOptions) {
        if self.phase == Phase::PreparingRebalance {
            self.complete_if_all_joined(now);
        } else {
            self.prepare(now, options);
        }
    }

    /// Starts a rebalance.
    pub(super) fn prepare(&mut self, now: Instant, options: &GroupOptions) {
        let was_empty = self.phase == Phase::Empty;
        if self.phase == Phase::CompletingRebalance {
            self.withdraw_assignment(now);
        }
        self.unsynced.clear();
        self.sync_end = None;
        self.enter(Phase::PreparingRebalance, now);
        if was_empty {
            let delay = options.initial_rebalance_delay;
            let left = self.rebalance_timeout().saturating_sub(delay);
            self.member_joined = false;
            self.join_end = Some(JoinEnd::Initial { at: now + delay, delay, left });
            if delay.is_zero() {
                self.complete(now);
            }
        } else if self.have_all_joined() {
            self.complete(now);
        } else {
            self.join_end = Some(JoinEnd::Late { at: now + self.rebalance_timeout() });
        }
    }

    pub(super) fn complete_if_all_joined(&mut self, now: Instant) {
        if self.phase == Phase::PreparingRebalance && !self.is_initial_rebalance() && self.have_all_joined() {
            self.complete(now);
        }
    }

    /// Ends the join phase at its deadline, or extends the first rebalance of an empty group.
    pub(super) fn end_join(&mut self, now: Instant, options: &GroupOptions) {
        match self.join_end {
            Some(JoinEnd::Initial { delay, left, .. }) if self.member_joined && !left.is_zero() => {
                self.member_joined = false;
                let next = options.initial_rebalance_delay.min(left);
                let left = left.saturating_sub(delay);
                self.join_end = Some(JoinEnd::Initial { at: now + next, delay: next, left });
            }
            Some(_) => self.complete(now),
            None => (),
        }
    }

    /// Elects the oldest joining member if the leader is not joining. Returns false if no member is joining.
    fn elect(&mut self) -> bool {
        let leads = self.leader.as_deref().and_then(|leader| self.member(leader));
        if leads.is_some_and(Member::is_joining) {
            return true;
        }
        match self.members.iter().find(|member| member.is_joining()) {
            Some(member) => {
                self.leader = Some(member.id.clone());
                true
            }
            None => false,
        }
    }

    /// Starts the next generation. Dynamic members that have not joined are removed; static members stay until their
    /// session expires.
    pub(super) fn complete(&mut self, now: Instant) {
        let gone = |member: &Member| !member.is_joining() && member.instance_id.is_none();
        let gone: Vec<String> =
            self.members.iter().filter(|member| gone(member)).map(|member| member.id.clone()).collect();
        for id in gone {
            self.remove(&id);
        }
        if !self.members.is_empty() && !self.elect() {
            self.join_end = Some(JoinEnd::Late { at: now + self.rebalance_timeout() });
            return;
        }
        self.join_end = None;
        self.generation = self.generation.wrapping_add(1).max(1);
        self.protocol = self.vote();
        self.subscribed = self.find_subscribed();
        if self.members.is_empty() {
            self.enter(Phase::Empty, now);
            self.save();
            return;
        }
        self.enter(Phase::CompletingRebalance, now);
        self.sync_end = Some(now + self.rebalance_timeout());
        let all = self.described();
        let ids: Vec<String> = self.members.iter().map(|member| member.id.clone()).collect();
        for id in ids {
            let members = if self.is_leader(&id) { all.clone() } else { Vec::new() };
            let response = JoinGroupResponse { members, ..self.joined(&id) };
            if let Some(member) = self.member_mut(&id) {
                member.complete_join(response);
                member.is_new = false;
                member.renew(now);
            }
            self.unsynced.insert(id);
        }
    }
}
