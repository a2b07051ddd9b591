//! Methods of [`Membership`] for the polling thread.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;

use super::super::subscription::Subscription;
use super::{MemberIdentity, MemberState, Membership, Owned, Polling, Rebalance, RejoinReason};
use crate::error::{Error, Result};
use crate::types::TopicPartition;

impl Membership {
    /// Replaces the subscription. `None` ends the membership and discards the assignment and any pending event.
    pub(crate) fn set_subscription(&self, subscription: Option<Subscription>) {
        {
            let mut state = self.lock();
            state.version += 1;
            state.failure = None;
            state.reports.clear();
            state.reported.clear();
            if subscription.is_none() {
                state.unsubscribes += 1;
                state.owned.clear();
                state.pending = None;
            } else if state.subscription.is_none() {
                state.awaiting_poll = state.polling == 0;
            }
            state.subscription = subscription.map(Arc::new);
        }
        self.wake();
    }

    /// Makes the task leave the group and end.
    pub(crate) fn close(&self) {
        self.lock().closing = true;
        self.set_subscription(None);
    }

    pub(crate) fn subscription(&self) -> Option<Arc<Subscription>> {
        self.lock().subscription.clone()
    }

    pub(crate) fn owned(&self) -> Vec<TopicPartition> {
        self.lock().owned.iter().cloned().collect()
    }

    /// Returns true if the member owns all of the partitions.
    pub(crate) fn owns_all<'a>(&self, mut partitions: impl Iterator<Item = &'a TopicPartition>) -> bool {
        let state = self.lock();
        partitions.all(|tp| state.owned.contains(tp))
    }

    /// Returns the partitions that can be committed: owned partitions, and revoked partitions that are not yet
    /// reassigned.
    pub(crate) fn committable(&self) -> Owned {
        let state = self.lock();
        state.owned.union(&state.revoked).cloned().collect()
    }

    /// Returns the event that the rebalance listener receives when the consumer closes. It revokes the partitions, or
    /// reports them as lost if the membership has already ended.
    pub(crate) fn final_rebalance(&self) -> Option<Rebalance> {
        let state = self.lock();
        let owned: Vec<_> = state.owned.iter().cloned().collect();
        match state.member_state {
            _ if owned.is_empty() => None,
            MemberState::Unjoined => Some(Rebalance::Lost(owned)),
            MemberState::Joining | MemberState::Stable => Some(Rebalance::Revoked(owned)),
        }
    }

    /// Marks the application as polling until the guard is dropped.
    pub(crate) fn polling(&self) -> Polling<'_> {
        let resumed = {
            let mut state = self.lock();
            state.polling += 1;
            state.failure.is_none() && std::mem::take(&mut state.awaiting_poll)
        };
        if resumed {
            self.wake();
        }
        Polling(self)
    }

    /// Returns the error that ended the membership; the next poll rejoins. If the member must not rejoin, every call
    /// returns the error. If no error has ended the membership, returns the next other error for `poll`.
    pub(crate) fn failure(&self) -> Option<Error> {
        let mut state = self.lock();
        match &state.failure {
            Some((error, true)) => Some(error.clone()),
            Some(_) => state.failure.take().map(|(error, _)| error),
            None => state.reports.pop_front(),
        }
    }

    /// Returns true if [`failure`](Self::failure) or [`take`](Self::take) would return an error or an event.
    pub(crate) fn has_pending(&self) -> bool {
        let state = self.lock();
        state.failure.is_some()
            || !state.reports.is_empty()
            || state.pending.as_ref().is_some_and(|pending| !pending.taken)
    }

    /// Takes the pending event, which must then be acknowledged or requeued.
    pub(crate) fn take(&self) -> Option<Rebalance> {
        let mut state = self.lock();
        let pending = state.pending.as_mut().filter(|pending| !pending.taken)?;
        pending.taken = true;
        let event = pending.event.clone();
        if let Rebalance::Assigned(new) = &event {
            state.owned.extend(new.iter().cloned());
        }
        Some(event)
    }

    /// Returns the id of the event that was taken and not acknowledged yet. Ids are unique within a consumer.
    pub(crate) fn taken_event_id(&self) -> Option<u64> {
        self.lock().pending.as_ref().filter(|pending| pending.taken).map(|pending| pending.id)
    }

    /// Requeues the event that was taken, if the application has not seen it. The next poll takes it again.
    pub(crate) fn requeue(&self) {
        if let Some(pending) = &mut self.lock().pending {
            pending.taken = false;
        }
        // Wakes the task, because a newer event may replace the requeued event.
        self.wake();
    }

    /// Acknowledges the event that was taken.
    pub(crate) fn acknowledge(&self) {
        {
            let mut state = self.lock();
            let Some(pending) = state.pending.take_if(|pending| pending.taken) else { return };
            if let Rebalance::Revoked(partitions) | Rebalance::Lost(partitions) = pending.event {
                for tp in &partitions {
                    state.owned.remove(tp);
                }
                state.revoked = partitions.into_iter().collect();
            }
        }
        self.wake();
    }

    /// Returns the identity to commit with.
    ///
    /// # Errors
    /// Fails with `REBALANCE_IN_PROGRESS` during a rebalance, and with `UNKNOWN_MEMBER_ID` if the consumer has a
    /// subscription but no membership.
    pub(crate) fn commit_identity(&self, group: &str) -> Result<MemberIdentity> {
        let state = self.lock();
        if state.subscription.is_none() {
            return Ok(MemberIdentity { instance_id: None, ..MemberIdentity::default() });
        }
        let member_state = if state.has_unsubscribed() { MemberState::Unjoined } else { state.member_state };
        match member_state {
            MemberState::Stable => Ok(state.identity.clone()),
            MemberState::Joining => Err(Error::server(
                ErrorCode::REBALANCE_IN_PROGRESS,
                format!(
                    "OffsetCommit for group {group}: a rebalance is in progress; poll, then commit the partitions still assigned"
                ),
            )),
            // A member fenced by another member with the same `group.instance.id` does not rejoin.
            MemberState::Unjoined if let Some((error, true)) = &state.failure => Err(error.clone()),
            MemberState::Unjoined if state.joins == 0 => Err(Error::server(
                ErrorCode::UNKNOWN_MEMBER_ID,
                format!(
                    "OffsetCommit for group {group}: this consumer has not joined the group yet; poll until partitions \
                     are assigned, then commit"
                ),
            )),
            MemberState::Unjoined => Err(Error::server(
                ErrorCode::UNKNOWN_MEMBER_ID,
                format!(
                    "OffsetCommit for group {group}: this consumer is not a member (it did not poll for \
                     max.poll.interval.ms, or missed heartbeats); its partitions may be assigned to others, and poll rejoins"
                ),
            )),
        }
    }

    /// Waits until the new generation is complete or the membership has ended.
    pub(crate) async fn generation_formed(&self) {
        self.wait_for(|state| (state.member_state != MemberState::Joining).then_some(())).await;
    }

    /// Returns the member's current identity.
    pub(crate) fn identity(&self) -> MemberIdentity {
        self.lock().identity.clone()
    }

    /// Returns the identity for offsets in a transaction.
    ///
    /// A member that has lost its membership gets its last identity, which brokers reject. Without member id and
    /// generation, brokers accept the offsets unchecked (KIP-447), although other members may have processed the rows.
    pub(crate) fn transaction_identity(&self) -> MemberIdentity {
        let state = self.lock();
        let lost = state.subscription.is_some() && state.identity.generation < 0 && state.last_identity.generation >= 0;
        if lost { state.last_identity.clone() } else { state.identity.clone() }
    }

    /// Makes the task rejoin because of an error code in the response to a commit by `identity`.
    pub(crate) fn request_rejoin(&self, identity: &MemberIdentity, reason: RejoinReason) {
        {
            let mut state = self.lock();
            // The error no longer applies if the identity was replaced in between.
            if state.identity != *identity || state.member_state == MemberState::Unjoined {
                return;
            }
            state.rejoin_reason = state.rejoin_reason.max(Some(reason));
        }
        self.wake();
    }

    /// Makes the task rejoin with `reason`, if it is a member.
    pub(crate) fn enforce_rebalance(&self, reason: &str) {
        {
            let mut state = self.lock();
            if state.member_state != MemberState::Stable {
                return;
            }
            state.join_reason = Some(reason.to_owned());
            state.rejoin_reason = state.rejoin_reason.max(Some(RejoinReason::RebalanceInProgress));
        }
        self.wake();
    }
}
