//! Methods of [`Membership`] for the polling thread.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;

use super::super::subscription::Wanted;
use super::{Complaint, MemberIdentity, Membership, Owned, Phase, Polling, Rebalance};
use crate::error::{Error, Result};
use crate::types::TopicPartition;

impl Membership {
    /// Replaces the subscription. `None` ends the membership and discards the assignment and any pending event.
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

    /// Makes the task leave the group and end.
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

    /// Returns true if the member owns all of the partitions.
    pub(crate) fn owns_all<'a>(&self, mut partitions: impl Iterator<Item = &'a TopicPartition>) -> bool {
        let state = self.lock();
        partitions.all(|tp| state.owned.contains(tp))
    }

    /// Returns the partitions that can be committed: those owned, and those revoked but not yet reassigned.
    pub(crate) fn committable(&self) -> Owned {
        let state = self.lock();
        state.owned.union(&state.leaving).cloned().collect()
    }

    /// Returns the event for the rebalance listener when the consumer closes: partitions are revoked, or lost if the
    /// membership has already ended.
    pub(crate) fn to_give_up(&self) -> Option<Rebalance> {
        let state = self.lock();
        let owned: Vec<_> = state.owned.iter().cloned().collect();
        match state.phase {
            _ if owned.is_empty() => None,
            Phase::Outside => Some(Rebalance::Lost(owned)),
            Phase::Joining | Phase::Stable => Some(Rebalance::Revoked(owned)),
        }
    }

    /// Marks the application as polling until the guard is dropped.
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

    /// Returns the error that ended the membership, after which the next poll rejoins. An error that makes rejoining
    /// wrong is returned by every call. Then returns errors that did not end the membership.
    pub(crate) fn failure(&self) -> Option<Error> {
        let mut state = self.lock();
        match &state.failure {
            Some((error, true)) => Some(error.clone()),
            Some(_) => state.failure.take().map(|(error, _)| error),
            None => state.reports.pop_front(),
        }
    }

    /// Returns true if [`failure`](Self::failure) or [`take`](Self::take) would return something.
    pub(crate) fn has_news(&self) -> bool {
        let state = self.lock();
        state.failure.is_some()
            || !state.reports.is_empty()
            || state.handed.as_ref().is_some_and(|handed| !handed.taken)
    }

    /// Takes the pending event, which must then be acknowledged or requeued.
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

    /// Returns the id of the event that was taken and not acknowledged yet. Ids are unique within a consumer.
    pub(crate) fn ticket(&self) -> Option<u64> {
        self.lock().handed.as_ref().filter(|handed| handed.taken).map(|handed| handed.ticket)
    }

    /// Requeues the event that was taken, if the application has not seen it. The next poll takes it again.
    pub(crate) fn give_back(&self) {
        if let Some(handed) = &mut self.lock().handed {
            handed.taken = false;
        }
        // A newer event may replace it.
        self.ring();
    }

    /// Acknowledges the event that was taken.
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

    /// Returns the identity to commit with.
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
            // A member fenced by another one with the same `group.instance.id` does not rejoin.
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

    /// Waits until the new generation is complete.
    pub(crate) async fn formed(&self) {
        self.until(|state| (state.phase != Phase::Joining).then_some(())).await;
    }

    /// Returns the current identity, for commits within transactions.
    pub(crate) fn identity(&self) -> MemberIdentity {
        self.lock().identity.clone()
    }

    /// Makes the task rejoin because of an error code in the response to a commit by `identity`.
    pub(crate) fn complain(&self, of: &MemberIdentity, complaint: Complaint) {
        {
            let mut state = self.lock();
            // The error no longer applies if the identity was replaced in between.
            if state.identity != *of || state.phase == Phase::Outside {
                return;
            }
            state.complaint = state.complaint.max(Some(complaint));
        }
        self.ring();
    }

    /// Makes the task rejoin with `reason`, if it is a member.
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
