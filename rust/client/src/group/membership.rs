//! What the thread that polls and the task that keeps the membership tell each other.
//!
//! The task decides nothing about partitions by itself: it hands an event over and waits, heartbeats going on, until
//! the polling thread has called the listener and says so. So partitions are given up between two polls, when the
//! program is done with the rows of the last one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

use super::wanted::Wanted;
use crate::error::{Error, Result};
use crate::types::TopicPartition;

/// A change of what a member owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rebalance {
    /// These are to be given up, and can still be committed.
    Revoked(Vec<TopicPartition>),
    /// These belong to others already.
    Lost(Vec<TopicPartition>),
    /// These are new.
    Assigned(Vec<TopicPartition>),
}

/// The partitions that a member has.
pub(crate) type Owned = BTreeSet<TopicPartition>;

/// Who commits: with a generation of −1 somebody who is no member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The coordinator's name for the member.
    pub member_id: String,
    /// The generation, or the member's epoch (KIP-848).
    pub generation: i32,
    /// Of a static member.
    pub instance_id: Option<String>,
}

impl Default for Identity {
    fn default() -> Self {
        Self { member_id: String::new(), generation: -1, instance_id: None }
    }
}

/// What another than the membership's own task found out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Complaint {
    /// The group is rebalancing.
    Rejoin,
    /// The generation is over, the member still known.
    Stale,
    /// The coordinator no longer knows the member.
    Fenced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// No member.
    Outside,
    /// A member that waits for its part.
    Joining,
    /// A member.
    Stable,
}

#[derive(Debug)]
struct Handed {
    event: Rebalance,
    taken: bool,
    ticket: u64,
}

#[derive(Debug)]
struct State {
    wanted: Option<Arc<Wanted>>,
    /// Rises with every subscription.
    version: u64,
    /// Nothing is done before the next poll.
    parked: bool,
    /// What `poll` is to raise before anything else is done, and whether for ever.
    failure: Option<(Error, bool)>,
    closing: bool,
    phase: Phase,
    identity: Identity,
    owned: Owned,
    /// What the program gave up, and commits of it may be under way.
    leaving: Owned,
    handed: Option<Handed>,
    tickets: u64,
    complaint: Option<Complaint>,
    /// Why the program wants the group to rebalance, until the coordinator hears of it.
    reason: Option<String>,
    /// How often a generation was entered.
    joins: u64,
    polling: usize,
    polled_at: Instant,
}

/// The membership of one consumer in its group.
#[derive(Debug)]
pub(crate) struct Membership {
    state: Mutex<State>,
    /// Rings for the task.
    changed: watch::Sender<()>,
    max_poll_interval: Duration,
}

/// Held while a thread is in `poll`: the program is alive.
#[derive(Debug)]
pub(crate) struct Polling<'a>(&'a Membership);

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.polling = state.polling.saturating_sub(1);
        state.polled_at = Instant::now();
    }
}

impl Membership {
    pub(crate) fn new(instance_id: Option<String>, max_poll_interval: Duration) -> Self {
        let state = State {
            wanted: None,
            version: 0,
            parked: true,
            failure: None,
            closing: false,
            phase: Phase::Outside,
            identity: Identity { instance_id, ..Identity::default() },
            owned: Owned::new(),
            leaving: Owned::new(),
            handed: None,
            tickets: 0,
            complaint: None,
            reason: None,
            joins: 0,
            polling: 0,
            polled_at: Instant::now(),
        };
        Self { state: Mutex::new(state), changed: watch::Sender::new(()), max_poll_interval }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ring(&self) {
        self.changed.send_replace(());
    }

    async fn until<T>(&self, mut look: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(found) = look(&mut self.lock()) {
                return found;
            }
            // The sender is ours: it cannot be gone.
            let _ = changed.changed().await;
        }
    }

    // ---- what the user's thread says ----

    /// Wants other topics from now on; `None` ends the membership, and with it what is owned and handed over.
    pub(crate) fn want(&self, wanted: Option<Wanted>) {
        {
            let mut state = self.lock();
            state.version += 1;
            state.failure = None;
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

    /// What the program has to be told at the end: its partitions are given up, or others' already.
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

    /// Why there is no membership: raised once, and the next poll joins again; for ever where that would be wrong.
    pub(crate) fn failure(&self) -> Option<Error> {
        let mut state = self.lock();
        match &state.failure {
            Some((error, true)) => Some(error.clone()),
            Some(_) => state.failure.take().map(|(error, _)| error),
            None => None,
        }
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

    /// The event that was taken was not seen by the program after all: the next poll takes it again.
    pub(crate) fn give_back(&self) {
        if let Some(handed) = &mut self.lock().handed {
            handed.taken = false;
        }
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
    pub(crate) fn committer(&self, group: &str) -> Result<Identity> {
        let state = self.lock();
        if state.wanted.is_none() {
            return Ok(Identity { instance_id: None, ..Identity::default() });
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

    /// As it stands, for whoever commits in the member's name (transactions).
    pub(crate) fn identity(&self) -> Identity {
        self.lock().identity.clone()
    }

    /// A commit met a coordinator that knows better.
    pub(crate) fn complain(&self, of: &Identity, complaint: Complaint) {
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

    // ---- what the task says ----

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

    /// What is wanted, and the version of that wish. Without one it waits: `unwanted` tells of that.
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

    /// Does nothing more before the next poll begins, and before a failure was raised.
    pub(crate) fn park(&self, failure: Option<Error>) {
        let mut state = self.lock();
        state.parked = true;
        // Two members of one name would throw each other out for ever.
        let fenced = |error: &Error| error.code() == Some(ErrorCode::FENCED_INSTANCE_ID.code());
        state.failure = failure.map(|error| {
            let lasts = fenced(&error);
            (error, lasts)
        });
    }

    pub(crate) fn set_member_id(&self, member_id: &str) {
        self.lock().identity.member_id = member_id.to_owned();
    }

    pub(crate) fn joining(&self) {
        self.lock().phase = Phase::Joining;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn as_many_partitions_as_a_cluster_has_come_and_go_in_no_time() {
        let membership = Arc::new(Membership::new(None, Duration::from_secs(300)));
        let many: Vec<_> = (0..50_000).map(|partition| TopicPartition::new("t", partition)).collect();
        let start = Instant::now();
        for event in [Rebalance::Assigned(many.clone()), Rebalance::Revoked(many.clone())] {
            let (task, handed) = (Arc::clone(&membership), event.clone());
            let task = tokio::spawn(async move { task.hand(|_| Some(handed.clone()), &|| {}).await });
            let taken = loop {
                match membership.take() {
                    Some(taken) => break taken,
                    None => tokio::task::yield_now().await,
                }
            };
            assert_eq!(taken, event);
            assert_eq!(membership.owned().len(), many.len());
            assert!(membership.owns_all(many.iter()));
            membership.acknowledge();
            task.await.unwrap();
        }
        assert_eq!((membership.owned().len(), membership.committable().len()), (0, many.len()));
        membership.gave_up();
        assert!(membership.committable().is_empty());
        // Quadratic, it takes minutes.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}
