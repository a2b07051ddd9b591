//! What the task that keeps the membership asks of it, and says to it.

use std::sync::Arc;

use samsarrow_wire::error_code::ErrorCode;
use tokio::time::{Instant, sleep, sleep_until};

use super::super::subscription::Wanted;
use super::{Complaint, Handed, Membership, Owned, Phase, Rebalance};
use crate::error::Error;

impl Membership {
    /// Why the program wants a rebalance, once.
    pub(crate) fn take_reason(&self) -> Option<String> {
        self.lock().reason.take()
    }

    /// How often a generation was entered.
    pub(crate) fn joins(&self) -> u64 {
        self.lock().joins
    }

    /// Waits for a subscription and a program that polls; `None` when it is time to end.
    pub(crate) async fn awaited(&self) -> Option<()> {
        self.until(|state| match (state.closing, &state.wanted) {
            (true, _) => Some(None),
            (false, Some(_)) if !state.parked => Some(Some(())),
            _ => None,
        })
        .await
    }

    /// Waits until there is no subscription any more.
    pub(crate) async fn unwanted(&self) {
        self.until(|state| state.wanted.is_none().then_some(())).await;
    }

    /// What is wanted, and the version of that wish. Without one it waits: `unwanted` reports that.
    pub(crate) async fn wish(&self) -> (Arc<Wanted>, u64) {
        self.until(|state| state.wanted.clone().map(|wanted| (wanted, state.version))).await
    }

    /// Waits for another wish than this.
    pub(crate) async fn other_wish(&self, version: u64) {
        self.until(|state| (state.version != version).then_some(())).await;
    }

    /// Waits for what others found out.
    pub(crate) async fn complaint(&self) -> Complaint {
        self.until(|state| state.complaint.take()).await
    }

    /// Does nothing more before the program polls, and before a failure was raised.
    pub(crate) fn park(&self, failure: Option<Error>) {
        let mut state = self.lock();
        // A poll that has begun meanwhile may be a long one.
        state.parked = failure.is_some() || state.polling == 0;
        // Two members of one name would throw each other out for ever.
        let fenced = |error: &Error| error.code() == Some(ErrorCode::FENCED_INSTANCE_ID.code());
        state.failure = failure.map(|error| {
            let lasts = fenced(&error);
            (error, lasts)
        });
    }

    /// Returns the errors of topics that were not reported yet for this version of the subscription, and marks them as
    /// reported.
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

    /// The membership ends, and nobody wanted that.
    pub(crate) fn failed(&self) {
        self.lock().rebalances.fail();
    }

    /// What was given up may be others' from now on.
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

    /// No member any more; `keep_id` where only the generation is void.
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

    /// Hands over the event that `make` finds for what is owned, and waits until it is dealt with. An event that nobody
    /// has taken yet is replaced.
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

    /// Waits until the program has not polled for `max.poll.interval.ms`.
    pub(crate) async fn overdue(&self) {
        loop {
            let at = {
                let state = self.lock();
                // Who polls now cannot be late before the interval is over once more.
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
