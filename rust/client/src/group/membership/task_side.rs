//! Methods of [`Membership`] for the task that keeps the membership.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::subscription::Subscription;
use super::{MemberState, Membership, Owned, PendingRebalance, Rebalance, RejoinReason};
use crate::defects::Defect;
use crate::error::Error;

impl Membership {
    /// Takes the reason passed to `enforce_rebalance`.
    pub(crate) fn take_join_reason(&self) -> Option<String> {
        self.lock().join_reason.take()
    }

    /// Returns the number of generations entered so far.
    pub(crate) fn joins(&self) -> u64 {
        self.lock().joins
    }

    /// Waits until there is a subscription and the application polls, and begins a membership. Returns `None` when the
    /// consumer closes.
    pub(crate) async fn ready_to_join(&self) -> Option<()> {
        self.wait_for(|state| match (state.closing, &state.subscription) {
            (true, _) => Some(None),
            (false, Some(_)) if !state.awaiting_poll => {
                state.unsubscribes_at_start = state.unsubscribes;
                Some(Some(()))
            }
            _ => None,
        })
        .await
    }

    /// Waits until the consumer unsubscribes. Returns even if it has subscribed again since.
    pub(crate) async fn unsubscribed(&self) {
        self.wait_for(|state| match Defect::MembershipAfterUnsubscribe.is_on() {
            true => state.subscription.is_none().then_some(()),
            false => state.has_unsubscribed().then_some(()),
        })
        .await;
    }

    /// Returns the subscription and its version. Waits while the consumer has no subscription; the caller detects that
    /// with `unsubscribed`.
    pub(crate) async fn current_subscription(&self) -> (Arc<Subscription>, u64) {
        self.wait_for(|state| state.subscription.clone().map(|subscription| (subscription, state.version))).await
    }

    /// Waits until the subscription differs from this version.
    pub(crate) async fn subscription_changed(&self, version: u64) {
        self.wait_for(|state| (state.version != version).then_some(())).await;
    }

    /// Waits until another thread or task requests a rejoin.
    pub(crate) async fn rejoin_reason(&self) -> RejoinReason {
        self.wait_for(|state| state.rejoin_reason.take()).await
    }

    /// Suspends the task until the application polls. If `failure` is given, the task stays suspended until `poll` has
    /// raised this error. Does nothing if the consumer has unsubscribed: the error of a previous subscription does not
    /// concern the next one.
    pub(crate) fn suspend_until_poll(&self, failure: Option<Error>) {
        let mut state = self.lock();
        if state.has_unsubscribed() {
            return;
        }
        // A poll that began earlier and is still running also counts.
        state.awaiting_poll = failure.is_some() || state.polling == 0;
        // Two members with the same `group.instance.id` would fence each other endlessly.
        let fenced = |error: &Error| error.code() == Some(ErrorCode::FENCED_INSTANCE_ID.code());
        state.failure = failure.map(|error| {
            let permanent = fenced(&error);
            (error, permanent)
        });
    }

    /// Returns the topic errors not reported yet for this version of the subscription, and marks them as reported.
    pub(crate) fn take_unreported(&self, version: u64, topics: Vec<(String, ErrorCode)>) -> Vec<(String, ErrorCode)> {
        let mut state = self.lock();
        if state.version != version {
            return Vec::new();
        }
        topics.into_iter().filter(|topic| state.reported.insert(topic.clone())).collect()
    }

    /// Queues an error for `poll`; the membership continues.
    pub(crate) fn report(&self, error: Error) {
        self.lock().reports.push_back(error);
    }

    pub(crate) fn set_member_id(&self, member_id: &str) {
        self.lock().identity.member_id = member_id.to_owned();
    }

    pub(crate) fn set_joining(&self) {
        let mut state = self.lock();
        state.enter(MemberState::Joining);
        state.rebalances.begin();
    }

    /// Counts a failed rebalance in the metrics, because the membership ended unexpectedly.
    pub(crate) fn rebalance_failed(&self) {
        self.lock().rebalances.fail();
    }

    /// Records that revoked partitions may be reassigned, because their commits have completed.
    pub(crate) fn finish_revocation(&self) {
        self.lock().revoked.clear();
    }

    pub(crate) fn joined(&self, member_id: &str, generation: i32) {
        {
            let mut state = self.lock();
            state.enter(MemberState::Stable);
            state.joins += 1;
            state.rebalances.end();
            state.rejoin_reason = None;
            state.identity.member_id = member_id.to_owned();
            state.identity.generation = generation;
            state.last_identity = state.identity.clone();
        }
        self.wake();
    }

    /// Ends the membership. `keep_id` is set if only the generation is invalid.
    pub(crate) fn set_unjoined(&self, keep_id: bool) {
        {
            let mut state = self.lock();
            state.enter(MemberState::Unjoined);
            state.revoked.clear();
            state.rejoin_reason = None;
            state.identity.generation = -1;
            if !keep_id {
                state.identity.member_id.clear();
            }
        }
        self.wake();
    }

    /// Dispatches the event that `make` returns for the owned partitions, and waits until it is acknowledged. Replaces
    /// a pending event that was not taken yet. Dispatches nothing if the consumer has unsubscribed, because the event
    /// would reach the next subscription.
    pub(crate) async fn dispatch(&self, make: impl Fn(&Owned) -> Option<Rebalance>, wake: &(dyn Fn() + Send + Sync)) {
        let id = self
            .wait_for(|state| {
                if state.has_unsubscribed() && !Defect::MembershipAfterUnsubscribe.is_on() {
                    return Some(None);
                }
                if state.pending.as_ref().is_some_and(|pending| pending.taken) {
                    return None;
                }
                state.last_event_id += 1;
                let id = state.last_event_id;
                state.pending = make(&state.owned).map(|event| PendingRebalance { event, taken: false, id });
                Some(Some(id))
            })
            .await;
        let Some(id) = id else { return };
        wake();
        self.wait_for(|state| state.pending.as_ref().is_none_or(|pending| pending.id != id).then_some(())).await;
    }

    /// Removes the pending event if it was not taken yet. Returns true if it was removed.
    pub(crate) fn withdraw(&self) -> bool {
        self.lock().pending.take_if(|pending| !pending.taken).is_some()
    }

    /// Waits until the application has not polled for `max.poll.interval.ms`.
    pub(crate) async fn poll_interval_exceeded(&self) {
        loop {
            let at = {
                let state = self.lock();
                // While a thread is in `poll`, it is sufficient to check again after one more interval.
                (state.polling == 0).then(|| state.polled_at + self.max_poll_interval)
            };
            match at {
                Some(at) if at <= Instant::now() => return,
                Some(at) => sleep_until(at).await,
                None => sleep(self.max_poll_interval).await,
            }
        }
    }
}
