//! Membership state shared by the polling thread and the task that keeps the membership.
//!
//! The task never changes the assignment on its own: it dispatches a rebalance event and waits, while heartbeats
//! continue, until the polling thread has called the listener and acknowledged the event. Partitions are therefore
//! revoked between two polls, after the application has finished with the rows of the last one.

mod polling_side;
mod task_side;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::sync::watch;
use tokio::time::Instant;

use super::subscription::Wanted;
use crate::error::Error;
use crate::metrics::{Rebalances, Sink, Source};
use crate::types::TopicPartition;
pub use crate::types::{MemberIdentity, Rebalance};

/// Partitions assigned to the member.
pub(crate) type Owned = BTreeSet<TopicPartition>;

/// Reason to rejoin that was detected outside the membership task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Complaint {
    /// The group is rebalancing.
    Rejoin,
    /// The generation is over; the member id is still valid.
    Stale,
    /// The coordinator no longer knows the member.
    Fenced,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Not a member of the group.
    Outside,
    /// A member that waits for an assignment.
    Joining,
    /// A member with an assignment.
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
    /// Incremented by every subscription.
    version: u64,
    /// True if the task waits for the next poll before it joins.
    parked: bool,
    /// Error that `poll` raises before anything else; true if every poll raises it.
    failure: Option<(Error, bool)>,
    /// Errors for `poll` that do not end the membership.
    reports: VecDeque<Error>,
    /// Topics of this subscription that were already reported, with the error of each.
    reported: BTreeSet<(String, ErrorCode)>,
    closing: bool,
    phase: Phase,
    identity: MemberIdentity,
    owned: Owned,
    /// Partitions that were revoked and may still have commits in flight.
    leaving: Owned,
    handed: Option<Handed>,
    tickets: u64,
    complaint: Option<Complaint>,
    /// Reason passed to `enforce_rebalance`, until it is sent to the coordinator.
    reason: Option<String>,
    /// Number of generations entered so far.
    joins: u64,
    polling: usize,
    polled_at: Instant,
    rebalances: Rebalances,
}

/// Group membership of one consumer.
#[derive(Debug)]
pub(crate) struct Membership {
    state: Mutex<State>,
    /// Wakes the task.
    changed: watch::Sender<()>,
    max_poll_interval: Duration,
}

/// Guard held while a thread is in `poll`, during which `max.poll.interval.ms` does not elapse.
#[derive(Debug)]
pub(crate) struct Polling<'a>(&'a Membership);

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.polling = state.polling.saturating_sub(1);
        state.polled_at = Instant::now();
    }
}

impl Source for Membership {
    fn collect(&self, sink: &mut Sink) {
        self.lock().rebalances.collect(sink);
    }

    fn attributes(&self) -> Vec<(&'static str, String)> {
        let member = self.identity().member_id;
        if member.is_empty() { Vec::new() } else { vec![("group_member_id", member)] }
    }
}

impl Membership {
    pub(crate) fn new(instance_id: Option<String>, max_poll_interval: Duration) -> Self {
        let state = State {
            wanted: None,
            version: 0,
            parked: true,
            failure: None,
            reports: VecDeque::new(),
            reported: BTreeSet::new(),
            closing: false,
            phase: Phase::Outside,
            identity: MemberIdentity { instance_id, ..MemberIdentity::default() },
            owned: Owned::new(),
            leaving: Owned::new(),
            handed: None,
            tickets: 0,
            complaint: None,
            reason: None,
            joins: 0,
            polling: 0,
            polled_at: Instant::now(),
            rebalances: Rebalances::default(),
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
            // `self` holds the sender, so the channel cannot be closed.
            let _ = changed.changed().await;
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
        // A quadratic implementation takes minutes.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn what_was_given_back_is_overtaken_by_what_is_known_since() {
        let membership = Arc::new(Membership::new(None, Duration::from_secs(300)));
        let one = vec![TopicPartition::new("t", 0)];
        let hand = |event: Rebalance| {
            let membership = Arc::clone(&membership);
            tokio::spawn(async move { membership.hand(|_| Some(event.clone()), &|| {}).await })
        };
        let taken = async || {
            let taken = async {
                loop {
                    match membership.take() {
                        Some(taken) => return taken,
                        None => tokio::task::yield_now().await,
                    }
                }
            };
            tokio::time::timeout(Duration::from_secs(20), taken).await.unwrap()
        };
        let first = hand(Rebalance::Revoked(one.clone()));
        assert_eq!(taken().await, Rebalance::Revoked(one.clone()));
        first.abort();
        assert!(first.await.is_err());
        let second = hand(Rebalance::Lost(one.clone()));
        // The second event waits until the first is acknowledged or requeued.
        while membership.changed.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
        membership.give_back();
        let replaced = async {
            while membership.lock().tickets < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), replaced).await.unwrap();
        assert_eq!(taken().await, Rebalance::Lost(one));
        membership.acknowledge();
        second.await.unwrap();
    }

    #[tokio::test]
    async fn a_poll_that_has_begun_joins_again_itself() {
        let membership = Membership::new(None, Duration::from_secs(300));
        membership.want(Some(Wanted::topics(["t".to_owned()]).unwrap()));
        let awaited = async || tokio::time::timeout(Duration::ZERO, membership.awaited()).await.is_ok();
        assert!(!awaited().await, "nobody has polled");
        let long = membership.polling();
        assert!(awaited().await);
        // The poll outlives the membership, which ended before it returned.
        membership.park(None);
        assert!(awaited().await);
        let refused = Error::server(samsarrow_wire::error_code::ErrorCode::GROUP_AUTHORIZATION_FAILED, "JoinGroup");
        membership.park(Some(refused.clone()));
        assert!(!awaited().await, "the poll has yet to raise it");
        assert_eq!(membership.failure(), Some(refused));
        drop(long);
        assert!(!awaited().await);
        membership.park(None);
        assert!(!awaited().await, "nobody polls");
        let _next = membership.polling();
        assert!(awaited().await);
    }
}
