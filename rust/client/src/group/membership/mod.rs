//! Membership state shared by the polling thread and the task that keeps the membership.
//!
//! The task never changes the assignment on its own: it dispatches a rebalance event and waits, while heartbeats
//! continue, until the polling thread has called the listener and acknowledged the event. Partitions are therefore
//! revoked between two polls, after the application has finished the rows of the previous poll.

mod polling_side;
mod task_side;

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::sync::lock;
use tokio::sync::watch;
use tokio::time::Instant;

use super::subscription::Subscription;
use crate::error::Error;
use crate::metrics::{Rebalances, Sink, Source};
use crate::reached;
use crate::types::TopicPartition;
pub use crate::types::{MemberIdentity, Rebalance};

/// Partitions assigned to the member.
pub(crate) type Owned = BTreeSet<TopicPartition>;

/// Reason to rejoin that was detected outside the membership task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RejoinReason {
    /// The group is rebalancing.
    RebalanceInProgress,
    /// The generation is over; the member id is still valid.
    IllegalGeneration,
    /// The coordinator no longer knows the member.
    UnknownMember,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MemberState {
    /// Not a member of the group.
    Unjoined,
    /// A member that waits for an assignment.
    Joining,
    /// A member with an assignment.
    Stable,
}

#[derive(Debug)]
struct PendingRebalance {
    event: Rebalance,
    taken: bool,
    id: u64,
}

#[derive(Debug)]
struct State {
    subscription: Option<Arc<Subscription>>,
    /// Incremented by every subscription.
    version: u64,
    /// Number of times that the consumer unsubscribed.
    unsubscribes: u64,
    /// Value of `unsubscribes` when the task began its membership. A different value ends that membership, even if the
    /// consumer has subscribed again in between.
    unsubscribes_at_start: u64,
    /// True if the task waits for the next poll before it joins.
    awaiting_poll: bool,
    /// Error that `poll` raises before other events. The flag is true if every poll raises the error.
    failure: Option<(Error, bool)>,
    /// Errors for `poll` that do not end the membership.
    reports: VecDeque<Error>,
    /// Topics of this subscription that were already reported, each with its error.
    reported: BTreeSet<(String, ErrorCode)>,
    closing: bool,
    member_state: MemberState,
    identity: MemberIdentity,
    /// Identity in the last generation that the member entered.
    last_identity: MemberIdentity,
    owned: Owned,
    /// Partitions that were revoked and may still have commits in flight.
    revoked: Owned,
    pending: Option<PendingRebalance>,
    last_event_id: u64,
    rejoin_reason: Option<RejoinReason>,
    /// Reason passed to `enforce_rebalance`, until it is sent to the coordinator.
    join_reason: Option<String>,
    /// Number of generations entered so far.
    joins: u64,
    polling: usize,
    polled_at: Instant,
    rebalances: Rebalances,
}

impl State {
    fn enter(&mut self, next: MemberState) {
        reached::transition("membership", format_args!("{:?}", self.member_state), format_args!("{next:?}"));
        self.member_state = next;
    }

    /// Returns true if the consumer has unsubscribed since the task began its membership.
    fn has_unsubscribed(&self) -> bool {
        self.unsubscribes != self.unsubscribes_at_start
    }
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
            subscription: None,
            version: 0,
            unsubscribes: 0,
            unsubscribes_at_start: 0,
            awaiting_poll: true,
            failure: None,
            reports: VecDeque::new(),
            reported: BTreeSet::new(),
            closing: false,
            member_state: MemberState::Unjoined,
            identity: MemberIdentity { instance_id, ..MemberIdentity::default() },
            last_identity: MemberIdentity::default(),
            owned: Owned::new(),
            revoked: Owned::new(),
            pending: None,
            last_event_id: 0,
            rejoin_reason: None,
            join_reason: None,
            joins: 0,
            polling: 0,
            polled_at: Instant::now(),
            rebalances: Rebalances::default(),
        };
        Self { state: Mutex::new(state), changed: watch::Sender::new(()), max_poll_interval }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn wake(&self) {
        self.changed.send_replace(());
    }

    async fn wait_for<T>(&self, mut condition: impl FnMut(&mut State) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            changed.borrow_and_update();
            if let Some(value) = condition(&mut self.lock()) {
                return value;
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
    async fn assigns_and_revokes_50_000_partitions_quickly() {
        let membership = Arc::new(Membership::new(None, Duration::from_secs(300)));
        let partitions: Vec<_> = (0..50_000).map(|partition| TopicPartition::new("t", partition)).collect();
        let start = Instant::now();
        for event in [Rebalance::Assigned(partitions.clone()), Rebalance::Revoked(partitions.clone())] {
            let (task, dispatched) = (Arc::clone(&membership), event.clone());
            let task = tokio::spawn(async move { task.dispatch(|_| Some(dispatched.clone()), &|| {}).await });
            let taken = loop {
                match membership.take() {
                    Some(taken) => break taken,
                    None => tokio::task::yield_now().await,
                }
            };
            assert_eq!(taken, event);
            assert_eq!(membership.owned().len(), partitions.len());
            assert!(membership.owns_all(partitions.iter()));
            membership.acknowledge();
            task.await.unwrap();
        }
        assert_eq!((membership.owned().len(), membership.committable().len()), (0, partitions.len()));
        membership.finish_revocation();
        assert!(membership.committable().is_empty());
        // A quadratic implementation would take minutes.
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }

    #[tokio::test]
    async fn requeued_event_is_replaced_by_a_newer_one() {
        let membership = Arc::new(Membership::new(None, Duration::from_secs(300)));
        let partitions = vec![TopicPartition::new("t", 0)];
        let dispatch = |event: Rebalance| {
            let membership = Arc::clone(&membership);
            tokio::spawn(async move { membership.dispatch(|_| Some(event.clone()), &|| {}).await })
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
        let first = dispatch(Rebalance::Revoked(partitions.clone()));
        assert_eq!(taken().await, Rebalance::Revoked(partitions.clone()));
        first.abort();
        assert!(first.await.is_err());
        let second = dispatch(Rebalance::Lost(partitions.clone()));
        // The second event waits until the first is acknowledged or requeued.
        while membership.changed.receiver_count() == 0 {
            tokio::task::yield_now().await;
        }
        membership.requeue();
        let replaced = async {
            while membership.lock().last_event_id < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), replaced).await.unwrap();
        assert_eq!(taken().await, Rebalance::Lost(partitions));
        membership.acknowledge();
        second.await.unwrap();
    }

    /// Regression test: a task that was in the middle of a step when the consumer unsubscribed left an event for the
    /// next subscription, whose poll then returned partitions of the previous one.
    #[tokio::test]
    async fn unsubscribed_member_dispatches_no_events() {
        let membership = Membership::new(None, Duration::from_secs(300));
        let assigned = Rebalance::Assigned(vec![TopicPartition::new("t", 0)]);
        let subscription = || Some(Subscription::topics(["t".to_owned()]).unwrap());
        let now = Duration::ZERO;
        membership.set_subscription(subscription());
        let _poll = membership.polling();
        membership.ready_to_join().await.unwrap();
        assert!(tokio::time::timeout(now, membership.unsubscribed()).await.is_err());

        membership.set_subscription(None);
        membership.dispatch(|_| Some(assigned.clone()), &|| {}).await;
        assert_eq!(membership.take(), None);

        // The old membership ends even if the task runs only after the next subscription.
        membership.set_subscription(subscription());
        membership.dispatch(|_| Some(assigned.clone()), &|| {}).await;
        assert_eq!(membership.take(), None);
        membership.suspend_until_poll(Some(Error::closed("the old membership")));
        assert_eq!(membership.failure(), None);
        membership.joined("old", 7);
        assert!(membership.commit_identity("g").is_err());
        tokio::time::timeout(now, membership.unsubscribed()).await.unwrap();

        membership.set_unjoined(false);
        membership.ready_to_join().await.unwrap();
        assert!(tokio::time::timeout(now, membership.unsubscribed()).await.is_err());
        let dispatched = membership.dispatch(|_| Some(assigned.clone()), &|| {});
        assert!(tokio::time::timeout(now, dispatched).await.is_err());
        assert_eq!(membership.take(), Some(assigned));
    }

    #[tokio::test]
    async fn only_events_that_were_not_taken_can_be_withdrawn() {
        let membership = Membership::new(None, Duration::from_secs(300));
        let assigned = Rebalance::Assigned(vec![TopicPartition::new("t", 0)]);
        let dispatched = async || {
            let dispatch = membership.dispatch(|_| Some(assigned.clone()), &|| {});
            assert!(tokio::time::timeout(Duration::ZERO, dispatch).await.is_err());
        };
        dispatched().await;
        assert!(membership.withdraw());
        assert_eq!(membership.take(), None);
        assert!(membership.owned().is_empty() && !membership.withdraw());
        dispatched().await;
        assert_eq!(membership.take(), Some(assigned.clone()));
        assert!(!membership.withdraw());
        assert_eq!(membership.owned().len(), 1);
    }

    #[test]
    fn lost_member_keeps_an_identity_that_brokers_reject() {
        let membership = Membership::new(None, Duration::from_secs(300));
        let unknown = MemberIdentity { instance_id: None, ..MemberIdentity::default() };
        assert_eq!(membership.transaction_identity(), unknown);
        membership.set_subscription(Some(Subscription::topics(["t".to_owned()]).unwrap()));
        assert_eq!(membership.transaction_identity(), unknown);
        membership.joined("m", 7);
        membership.set_unjoined(false);
        let identity = membership.transaction_identity();
        assert_eq!((identity.member_id.as_str(), identity.generation), ("m", 7));
        // Without a subscription, partitions are assigned by hand, and no member is fenced.
        membership.set_subscription(None);
        assert_eq!(membership.transaction_identity(), unknown);
    }

    #[tokio::test]
    async fn running_poll_allows_rejoining() {
        let membership = Membership::new(None, Duration::from_secs(300));
        membership.set_subscription(Some(Subscription::topics(["t".to_owned()]).unwrap()));
        let ready_to_join = async || tokio::time::timeout(Duration::ZERO, membership.ready_to_join()).await.is_ok();
        assert!(!ready_to_join().await, "no poll yet");
        let long_poll = membership.polling();
        assert!(ready_to_join().await);
        // The poll is still running when the membership ends.
        membership.suspend_until_poll(None);
        assert!(ready_to_join().await);
        let error = Error::server(samsarrow_wire::error_code::ErrorCode::GROUP_AUTHORIZATION_FAILED, "JoinGroup");
        membership.suspend_until_poll(Some(error.clone()));
        assert!(!ready_to_join().await, "the poll has not raised the error yet");
        assert_eq!(membership.failure(), Some(error));
        drop(long_poll);
        assert!(!ready_to_join().await);
        membership.suspend_until_poll(None);
        assert!(!ready_to_join().await, "no poll is running");
        let _next = membership.polling();
        assert!(ready_to_join().await);
    }
}
