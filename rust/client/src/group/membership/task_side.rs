//! Methods of [`Membership`] for the task that keeps the membership.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::subscription::Wanted;
use super::{Complaint, Handed, Membership, Owned, Phase, Rebalance};
use crate::error::Error;

impl Membership {
    /// Takes the reason passed to `enforce_rebalance`.
    pub(crate) fn take_reason(&self) -> Option<String> {
        self.lock().reason.take()
    }

    /// Returns the number of generations entered so far.
    pub(crate) fn joins(&self) -> u64 {
        self.lock().joins
    }

    /// Waits until there is a subscription and the application polls. Returns `None` when the consumer closes.
    pub(crate) async fn awaited(&self) -> Option<()> {
        self.until(|state| match (state.closing, &state.wanted) {
            (true, _) => Some(None),
            (false, Some(_)) if !state.parked => Some(Some(())),
            _ => None,
        })
        .await
    }

    /// Waits until the consumer has no subscription.
    pub(crate) async fn unwanted(&self) {
        self.until(|state| state.wanted.is_none().then_some(())).await;
    }

    /// Returns the subscription and its version. Waits while the consumer has none, which `unsubscribed` reports.
    pub(crate) async fn wish(&self) -> (Arc<Wanted>, u64) {
        self.until(|state| state.wanted.clone().map(|wanted| (wanted, state.version))).await
    }

    /// Waits until the subscription differs from this version.
    pub(crate) async fn other_wish(&self, version: u64) {
        self.until(|state| (state.version != version).then_some(())).await;
    }

    /// Waits until another thread or task requests a rejoin.
    pub(crate) async fn complaint(&self) -> Complaint {
        self.until(|state| state.complaint.take()).await
    }

    /// Suspends the task until the next poll and, with a failure, until `poll` has raised it.
    pub(crate) fn park(&self, failure: Option<Error>) {
        let mut state = self.lock();
        // A poll that began earlier may still be running, and counts.
        state.parked = failure.is_some() || state.polling == 0;
        // Two members with the same `group.instance.id` would fence each other endlessly.
        let fenced = |error: &Error| error.code() == Some(ErrorCode::FENCED_INSTANCE_ID.code());
        state.failure = failure.map(|error| {
            let lasts = fenced(&error);
            (error, lasts)
        });
    }

    /// Returns the topic errors not reported yet for this version of the subscription, and marks them as reported.
    pub(crate) fn unreported(&self, version: u64, topics: Vec<(String, ErrorCode)>) -> Vec<(String, ErrorCode)> {
        let mut state = self.lock();
        if state.version != version {
            return Vec::new();
        }
        topics.into_iter().filter(|one| state.reported.insert(one.clone())).collect()
    }

    /// Queues an error for `poll`; the membership continues.
    pub(crate) fn report(&self, error: Error) {
        self.lock().reports.push_back(error);
    }

    pub(crate) fn set_member_id(&self, member_id: &str) {
        self.lock().identity.member_id = member_id.to_owned();
    }

    pub(crate) fn joining(&self) {
        let mut state = self.lock();
        state.phase = Phase::Joining;
        state.rebalances.begin();
    }

    /// Counts a failed rebalance in the metrics, because the membership ended unexpectedly.
    pub(crate) fn failed(&self) {
        self.lock().rebalances.fail();
    }

    /// Records that revoked partitions may be reassigned: their commits have completed.
    pub(crate) fn gave_up(&self) {
        self.lock().leaving.clear();
    }

    pub(crate) fn joined(&self, member_id: &str, generation: i32) {
        {
            let mut state = self.lock();
            state.phase = Phase::Stable;
            state.joins += 1;
            state.rebalances.end();
            state.complaint = None;
            state.identity.member_id = member_id.to_owned();
            state.identity.generation = generation;
        }
        self.ring();
    }

    /// Ends the membership. `keep_id` is set if only the generation is invalid.
    pub(crate) fn outside(&self, keep_id: bool) {
        {
            let mut state = self.lock();
            state.phase = Phase::Outside;
            state.leaving.clear();
            state.complaint = None;
            state.identity.generation = -1;
            if !keep_id {
                state.identity.member_id.clear();
            }
        }
        self.ring();
    }

    /// Dispatches the event that `make` returns for the owned partitions, and waits until it is acknowledged. Replaces
    /// a pending event that was not taken yet.
    pub(crate) async fn hand(&self, make: impl Fn(&Owned) -> Option<Rebalance>, bell: &(dyn Fn() + Send + Sync)) {
        let ticket = self
            .until(|state| {
                if state.handed.as_ref().is_some_and(|handed| handed.taken) {
                    return None;
                }
                state.tickets += 1;
                let ticket = state.tickets;
                state.handed = make(&state.owned).map(|event| Handed { event, taken: false, ticket });
                Some(ticket)
            })
            .await;
        bell();
        self.until(|state| state.handed.as_ref().is_none_or(|handed| handed.ticket != ticket).then_some(())).await;
    }

    /// Waits until the application has not polled for `max.poll.interval.ms`.
    pub(crate) async fn overdue(&self) {
        loop {
            let at = {
                let state = self.lock();
                // A thread in `poll` cannot exceed the interval for at least one more interval.
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
