//! Expiry of member sessions and of the deadlines of a rebalance.

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::Instant;

use super::{Classic, JoinEnd, Phase};
use crate::options::GroupOptions;

impl Classic {
    /// Returns the earliest deadline of a session or of the rebalance.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let sessions = self.members.iter().filter_map(|member| member.expires);
        let ends = [self.join_end.map(JoinEnd::at), self.sync_end];
        sessions.chain(self.pending_members.values().copied()).chain(ends.into_iter().flatten()).min()
    }

    /// Applies all deadlines that have passed.
    pub(crate) fn tick(&mut self, now: Instant, options: &GroupOptions) {
        self.end_sessions(now, options);
        if self.join_end.is_some_and(|end| end.at() <= now) {
            self.end_join(now, options);
        }
        if self.sync_end.is_some_and(|end| end <= now) {
            self.end_sync(now, options);
        }
    }

    fn end_sessions(&mut self, now: Instant, options: &GroupOptions) {
        self.pending_members.retain(|_, end| *end > now);
        let mut gone = Vec::new();
        for member in &mut self.members {
            if member.expires.is_some_and(|end| end <= now) {
                member.expires = None;
                if !member.is_session_suspended() {
                    gone.push(member.id.clone());
                }
            }
        }
        for id in &gone {
            if let Some(mut member) = self.remove(id) {
                member.fail(ErrorCode::UNKNOWN_MEMBER_ID);
            }
        }
        match self.phase {
            Phase::Stable | Phase::CompletingRebalance if !gone.is_empty() => self.prepare(now, options),
            _ => self.complete_if_all_joined(now),
        }
    }

    /// Ends the wait for SyncGroup requests and removes the members that did not send one.
    fn end_sync(&mut self, now: Instant, options: &GroupOptions) {
        self.sync_end = None;
        let lost = std::mem::take(&mut self.unsynced);
        if lost.is_empty() || !matches!(self.phase, Phase::CompletingRebalance | Phase::Stable) {
            return;
        }
        for id in lost {
            self.remove(&id);
        }
        self.prepare(now, options);
    }
}
