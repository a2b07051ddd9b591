//! What the thread that polls asks of the membership, and says to it.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;

use super::super::subscription::Wanted;
use super::{Complaint, MemberIdentity, Membership, Owned, Phase, Polling, Rebalance};
use crate::error::{Error, Result};
use crate::types::TopicPartition;

impl Membership {
    /// Wants other topics from now on; `None` ends the membership, and with it what is owned and handed over.
    pub(crate) fn want(&self, wanted: Option<Wanted>) {
        {
            let mut state = self.lock();
            state.version += 1;
            state.failure = None;
            state.reports.clear();
            state.reported.clear();
            if wanted.is_none() {
                state.owned.clear();
                state.handed = None;
            } else if state.wanted.is_none() {
                state.parked = state.polling == 0;
            }
            state.wanted = wanted.map(Arc::new);
        }
        self.ring();
    }

    /// Ends the task once it has left the group.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.want(None);
    }

    pub(crate) fn wanted(&self) -> Option<Arc<Wanted>> {
        self.lock().wanted.clone()
    }

    pub(crate) fn owned(&self) -> Vec<TopicPartition> {
        self.lock().owned.iter().cloned().collect()
    }

    /// Whether the member has all of them.
    pub(crate) fn owns_all<'a>(&self, mut partitions: impl Iterator<Item = &'a TopicPartition>) -> bool {
        let state = self.lock();
        partitions.all(|tp| state.owned.contains(tp))
    }

    /// What can be committed: what it has, and what it gave up while nobody else has it.
    pub(crate) fn committable(&self) -> Owned {
        let state = self.lock();
        state.owned.union(&state.leaving).cloned().collect()
    }

    /// What the program has to learn at the end: its partitions are given up, or others' already.
    pub(crate) fn to_give_up(&self) -> Option<Rebalance> {
        let state = self.lock();
        let owned: Vec<_> = state.owned.iter().cloned().collect();
        match state.phase {
            _ if owned.is_empty() => None,
            Phase::Outside => Some(Rebalance::Lost(owned)),
            Phase::Joining | Phase::Stable => Some(Rebalance::Revoked(owned)),
        }
    }

    /// The program polls until the guard is dropped.
    pub(crate) fn polling(&self) -> Polling<'_> {
        let unparked = {
            let mut state = self.lock();
            state.polling += 1;
            state.failure.is_none() && std::mem::take(&mut state.parked)
        };
        if unparked {
            self.ring();
        }
        Polling(self)
    }

    /// Returns the error that ended the membership, once, and the next poll joins again; every time if joining again would
    /// be wrong. Then the errors that were reported beside it.
    pub(crate) fn failure(&self) -> Option<Error> {
        let mut state = self.lock();
        match &state.failure {
            Some((error, true)) => Some(error.clone()),
            Some(_) => state.failure.take().map(|(error, _)| error),
            None => state.reports.pop_front(),
        }
    }

    /// Whether [`failure`](Self::failure) or [`take`](Self::take) would find something.
    pub(crate) fn has_news(&self) -> bool {
        let state = self.lock();
        state.failure.is_some()
            || !state.reports.is_empty()
            || state.handed.as_ref().is_some_and(|handed| !handed.taken)
    }

    /// The event that waits for the polling thread. It must be acknowledged.
    pub(crate) fn take(&self) -> Option<Rebalance> {
        let mut state = self.lock();
        let handed = state.handed.as_mut().filter(|handed| !handed.taken)?;
        handed.taken = true;
        let event = handed.event.clone();
        if let Rebalance::Assigned(new) = &event {
            state.owned.extend(new.iter().cloned());
        }
        Some(event)
    }

    /// The number of the event that was taken and is not acknowledged: no other event of this consumer has it.
    pub(crate) fn ticket(&self) -> Option<u64> {
        self.lock().handed.as_ref().filter(|handed| handed.taken).map(|handed| handed.ticket)
    }

    /// The event that was taken was not seen by the program after all: the next poll takes it again.
    pub(crate) fn give_back(&self) {
        if let Some(handed) = &mut self.lock().handed {
            handed.taken = false;
        }
        // What has overtaken it may be handed over instead.
        self.ring();
    }

    /// The event that was taken is dealt with.
    pub(crate) fn acknowledge(&self) {
        {
            let mut state = self.lock();
            let Some(handed) = state.handed.take_if(|handed| handed.taken) else { return };
            if let Rebalance::Revoked(gone) | Rebalance::Lost(gone) = handed.event {
                for tp in &gone {
                    state.owned.remove(tp);
                }
                state.leaving = gone.into_iter().collect();
            }
        }
        self.ring();
    }

    /// Who commits now.
    ///
    /// # Errors
    /// `REBALANCE_IN_PROGRESS` while a new generation forms, `UNKNOWN_MEMBER_ID` for a subscriber that is no member.
    pub(crate) fn committer(&self, group: &str) -> Result<MemberIdentity> {
        let state = self.lock();
        if state.wanted.is_none() {
            return Ok(MemberIdentity { instance_id: None, ..MemberIdentity::default() });
        }
        match state.phase {
            Phase::Stable => Ok(state.identity.clone()),
            Phase::Joining => Err(Error::server(
                ErrorCode::REBALANCE_IN_PROGRESS,
                format!(
                    "OffsetCommit for group {group}: a new generation forms; poll, then commit what is still assigned"
                ),
            )),
            // Who was thrown out by another member of its name stays out.
            Phase::Outside if let Some((error, true)) = &state.failure => Err(error.clone()),
            Phase::Outside if state.joins == 0 => Err(Error::server(
                ErrorCode::UNKNOWN_MEMBER_ID,
                format!(
                    "OffsetCommit for group {group}: this consumer has not joined the group yet; poll until partitions \
                     are assigned, then commit"
                ),
            )),
            Phase::Outside => Err(Error::server(
                ErrorCode::UNKNOWN_MEMBER_ID,
                format!(
                    "OffsetCommit for group {group}: this consumer is no member (it did not poll for \
                     max.poll.interval.ms, or missed heartbeats); others may have its partitions, poll joins again"
                ),
            )),
        }
    }

    /// Waits until no generation is forming.
    pub(crate) async fn formed(&self) {
        self.until(|state| (state.phase != Phase::Joining).then_some(())).await;
    }

    /// As it stands, for anyone who commits in the member's name (transactions).
    pub(crate) fn identity(&self) -> MemberIdentity {
        self.lock().identity.clone()
    }

    /// A commit met a coordinator that knows better.
    pub(crate) fn complain(&self, of: &MemberIdentity, complaint: Complaint) {
        {
            let mut state = self.lock();
            // Of an identity that was replaced meanwhile it says nothing.
            if state.identity != *of || state.phase == Phase::Outside {
                return;
            }
            state.complaint = state.complaint.max(Some(complaint));
        }
        self.ring();
    }

    /// Joins again, if it is a member.
    pub(crate) fn enforce(&self, reason: &str) {
        {
            let mut state = self.lock();
            if state.phase != Phase::Stable {
                return;
            }
            state.reason = Some(reason.to_owned());
            state.complaint = state.complaint.max(Some(Complaint::Rejoin));
        }
        self.ring();
    }
}
