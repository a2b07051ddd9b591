//! Group of one consumer: membership, commits and automatic commits.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::sync::lock;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::assignor::{Assignor, by_name};
use super::commit_queue::{CommitQueue, CommitSender, Offsets};
use super::member::{Member, PollWaker, rebalance_limit};
use super::membership::{MemberIdentity, Membership};
use super::subscription::Subscription;
use crate::cluster::Cluster;
use crate::cluster::coordinator::Coordinator;
use crate::collections::HashSet;
use crate::config::{ConsumerOptions, GroupOptions, GroupProtocol};
use crate::error::{Error, Result};
use crate::metrics::Source;
use crate::offsets::{Outcomes, PATIENCE};
use crate::types::{OffsetAndMetadata, TopicPartition};

/// A completed asynchronous commit.
#[derive(Debug)]
pub struct Completed {
    /// Id returned by `commit_async`.
    pub id: u64,
    /// Result of each partition, or the error of the whole commit.
    pub outcome: Result<Outcomes>,
}

/// Automatic commit of the partitions revoked by one event. If a poll times out, the next poll waits for the same
/// commit. A later event for the same partitions has its own commit.
struct RevocationCommit {
    event_id: u64,
    until: Instant,
    outcome: oneshot::Receiver<Result<Outcomes>>,
}

/// Group membership and commits of one consumer.
pub(crate) struct ConsumerGroup {
    options: GroupOptions,
    pub(crate) coordinator: Coordinator,
    pub(crate) membership: Arc<Membership>,
    commits: Arc<CommitQueue>,
    /// Automatic commit before partitions are revoked.
    revocation_commit: tokio::sync::Mutex<Option<RevocationCommit>>,
    waker: Arc<dyn PollWaker>,
    /// Member that has no task yet; the first subscription starts the task.
    member: Mutex<Option<Member>>,
    task: Mutex<Option<JoinHandle<()>>>,
    stored: Mutex<BTreeMap<TopicPartition, OffsetAndMetadata>>,
    next_auto_commit: Mutex<Instant>,
    completed: Arc<Mutex<VecDeque<Completed>>>,
    last_commit_id: Mutex<u64>,
}

impl std::fmt::Debug for ConsumerGroup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsumerGroup").field("group", &self.coordinator.group()).finish_non_exhaustive()
    }
}

impl Drop for ConsumerGroup {
    fn drop(&mut self) {
        if let Some(task) = lock(&self.task).take() {
            task.abort();
        }
    }
}

impl ConsumerGroup {
    /// Creates the group without I/O. `custom` assignors take precedence over built-in assignors of the same name.
    pub(crate) fn new(
        cluster: &Cluster,
        coordinator: Coordinator,
        options: &ConsumerOptions,
        custom: Vec<Arc<dyn Assignor>>,
        waker: Arc<dyn PollWaker>,
    ) -> Result<ConsumerGroup> {
        let group = &options.group;
        let mut assignors: Vec<Arc<dyn Assignor>> = Vec::new();
        for name in &group.assignors {
            let assignor = custom.iter().find(|assignor| assignor.name() == name).cloned().or_else(|| by_name(name));
            assignors.push(assignor.ok_or_else(|| {
                Error::configuration(format!(
                    "option partition.assignment.strategy: unknown assignor {name:?}; built-in assignors are range, roundrobin, \
                     sticky and cooperative-sticky"
                ))
            })?);
        }
        let membership = Arc::new(Membership::new(group.instance_id.clone(), group.max_poll_interval));
        let measured: Arc<dyn Source> = Arc::clone(&membership) as _;
        cluster.metrics().add(Arc::downgrade(&measured));
        let sender = CommitSender {
            cluster: cluster.clone(),
            coordinator: coordinator.clone(),
            membership: Arc::clone(&membership),
        };
        let commits = Arc::new(CommitQueue::new(sender));
        let member = Member {
            cluster: cluster.clone(),
            coordinator: coordinator.clone(),
            options: group.clone(),
            rack: options.client_rack.clone(),
            assignors,
            membership: Arc::clone(&membership),
            commits: Arc::clone(&commits),
            waker: Arc::clone(&waker),
            previous: Mutex::default(),
            join_sent: AtomicBool::new(false),
            join_error_logged: AtomicBool::new(false),
        };
        Ok(ConsumerGroup {
            options: group.clone(),
            coordinator,
            membership,
            commits,
            revocation_commit: tokio::sync::Mutex::default(),
            waker,
            member: Mutex::new(Some(member)),
            task: Mutex::default(),
            stored: Mutex::default(),
            next_auto_commit: Mutex::new(Instant::now() + group.auto_commit.unwrap_or_default()),
            completed: Arc::default(),
            last_commit_id: Mutex::default(),
        })
    }

    /// Sets or replaces the subscription. Must be called within a tokio runtime.
    pub(crate) fn subscribe(&self, subscription: Subscription) {
        self.membership.set_subscription(Some(subscription));
        if let Some(member) = lock(&self.member).take() {
            *lock(&self.task) = Some(tokio::spawn(member.run()));
        }
    }

    /// Returns true if `poll` and `close` commit automatically (`enable.auto.commit`).
    pub(crate) fn auto_commits(&self) -> bool {
        self.options.auto_commit.is_some()
    }

    /// Returns true if rows count as finished without `store_offsets` (`enable.auto.offset.store`).
    pub(crate) fn auto_stores(&self) -> bool {
        self.options.auto_store
    }

    pub(crate) fn store(&self, offsets: Offsets) {
        lock(&self.stored).extend(offsets);
    }

    /// Returns the offsets that `store_offsets` has stored, by partition.
    pub(crate) fn stored(&self) -> Offsets {
        lock(&self.stored).iter().map(|(tp, offset)| (tp.clone(), offset.clone())).collect()
    }

    /// Discards stored offsets and remembered committed offsets of partitions that other members may now own, so that
    /// old offsets are not used if the partitions return (redpanda-data/connect#4477).
    pub(crate) fn forget(&self, partitions: &[TopicPartition]) {
        {
            let mut stored = lock(&self.stored);
            for tp in partitions {
                stored.remove(tp);
            }
        }
        self.commits.forget(partitions);
    }

    fn commit_identity(&self) -> Result<MemberIdentity> {
        self.membership.commit_identity(self.coordinator.group())
    }

    /// Commits after earlier commits and waits for the result. Without offsets, only waits for earlier commits, even if
    /// the consumer is not a member.
    pub(crate) async fn commit(&self, offsets: Offsets, limit: Duration) -> Result<Outcomes> {
        if offsets.is_empty() {
            self.flush(limit).await;
            return Ok(Outcomes::new());
        }
        self.commit_with_patience(offsets, limit, PATIENCE).await
    }

    async fn commit_with_patience(&self, offsets: Offsets, limit: Duration, patience: Duration) -> Result<Outcomes> {
        let deadline = Instant::now() + limit;
        let remaining = || deadline.saturating_duration_since(Instant::now());
        let identity = match self.commit_identity() {
            Err(error) if error.code() == Some(ErrorCode::REBALANCE_IN_PROGRESS.code()) => {
                // A cooperative member keeps its partitions during a rebalance. Once all members have joined, it may
                // commit in the new generation.
                let previous = self.commit_identity_now(&offsets)?;
                match self.commit_as(previous, offsets.clone(), remaining(), patience).await {
                    Err(error) if error.code().is_some_and(is_generation_error) => {}
                    outcome => return outcome,
                }
                if timeout(remaining(), self.membership.generation_formed()).await.is_err() || !self.owns(&offsets) {
                    return Err(error);
                }
                self.commit_identity()?
            }
            identity => identity?,
        };
        self.commit_as(identity, offsets, remaining(), patience).await
    }

    async fn commit_as(
        &self,
        identity: MemberIdentity,
        offsets: Offsets,
        limit: Duration,
        patience: Duration,
    ) -> Result<Outcomes> {
        match timeout(limit, self.commits.submit(identity, offsets, limit, patience)).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(Error::closed("the consumer")),
            Err(_) => {
                let action = format!("OffsetCommit for group {}", self.coordinator.group());
                Err(Error::timeout_because(action, limit, self.commits.last_error()))
            }
        }
    }

    fn owns(&self, offsets: &Offsets) -> bool {
        self.membership.owns_all(offsets.iter().map(|(tp, _)| tp))
    }

    /// Returns the identity to commit with, without waiting. During a rebalance, a cooperative member commits its
    /// partitions in the previous generation, which the coordinator accepts until all members have joined.
    fn commit_identity_now(&self, offsets: &Offsets) -> Result<MemberIdentity> {
        match self.commit_identity() {
            Err(error) if error.code() == Some(ErrorCode::REBALANCE_IN_PROGRESS.code()) => {
                let previous = self.membership.identity();
                if previous.generation < 0 || !self.owns(offsets) { Err(error) } else { Ok(previous) }
            }
            identity => identity,
        }
    }

    /// Commits in the background. `take_completed` returns the results in the order of the calls, including an error if
    /// the consumer cannot commit now.
    pub(crate) fn commit_async(&self, offsets: Offsets, limit: Duration) -> u64 {
        let (completed, waker) = (Arc::clone(&self.completed), Arc::clone(&self.waker));
        let (identity, offsets, error) = match self.commit_identity_now(&offsets) {
            _ if offsets.is_empty() => (MemberIdentity::default(), offsets, None),
            Ok(identity) => (identity, offsets, None),
            // An error is queued as an empty commit, which sends no request, so that results keep the order of the
            // calls.
            Err(error) => (MemberIdentity::default(), Offsets::new(), Some(error)),
        };
        // Locked until the commit is queued, so that ids have the order of the commits.
        let mut last_commit_id = lock(&self.last_commit_id);
        *last_commit_id += 1;
        let id = *last_commit_id;
        self.commits.submit_then(identity, offsets, limit, PATIENCE, move |outcome| {
            let outcome = error.map_or(outcome, Err);
            lock(&completed).push_back(Completed { id, outcome });
            waker.wake();
        });
        id
    }

    /// Waits until all earlier commits have completed.
    pub(crate) async fn flush(&self, limit: Duration) {
        self.commits.flush(limit).await;
    }

    pub(crate) fn has_completed(&self) -> bool {
        !lock(&self.completed).is_empty()
    }

    pub(crate) fn take_completed(&self) -> Vec<Completed> {
        lock(&self.completed).drain(..).collect()
    }

    /// With `enable.auto.commit`, commits in the background the offsets that `finished` returns, if
    /// `auto.commit.interval.ms` has elapsed.
    pub(crate) fn commit_if_due(&self, finished: impl FnOnce() -> Offsets) {
        let Some(interval) = self.options.auto_commit else { return };
        {
            let mut next_auto_commit = lock(&self.next_auto_commit);
            if *next_auto_commit > Instant::now() {
                return;
            }
            *next_auto_commit = Instant::now() + interval;
        }
        // During a rebalance or without a membership, finished offsets are committed before partitions are revoked, or
        // later.
        let Ok(identity) = self.commit_identity() else { return };
        if !self.commits.start_auto_commit() {
            return;
        }
        let in_flight = Arc::clone(&self.commits.auto_commit_in_flight);
        let offsets = self.commits.to_commit(finished());
        if offsets.is_empty() {
            in_flight.store(false, Ordering::Release);
            return;
        }
        let limit = interval.max(Duration::from_secs(1));
        let outcome = self.commits.submit(identity, offsets, limit, Duration::ZERO);
        let coordinator = self.coordinator.clone();
        tokio::spawn(async move {
            report(&coordinator, outcome.await.unwrap_or_else(|_| Err(Error::closed("the consumer"))));
            in_flight.store(false, Ordering::Release);
        });
    }

    /// With `enable.auto.commit`, commits the finished offsets of `revoked` after earlier commits, before the
    /// partitions are revoked. If the commit fails, the error is logged and the records are consumed again. Returns
    /// false if `deadline` passed first; the next call waits for the same commit.
    pub(crate) async fn commit_revoked(
        &self,
        revoked: &[TopicPartition],
        finished: impl FnOnce() -> Offsets,
        deadline: Instant,
    ) -> bool {
        let mut current = self.revocation_commit.lock().await;
        // No event is left if the application has unsubscribed in between. It commits before it unsubscribes if
        // necessary.
        let Some(event_id) = self.membership.taken_event_id() else { return true };
        if current.as_ref().is_none_or(|current| current.event_id != event_id) {
            let identity = match self.commit_identity() {
                Ok(identity) => identity,
                Err(error) => {
                    report(&self.coordinator, Err(error));
                    return true;
                }
            };
            let partitions: HashSet<&TopicPartition> = revoked.iter().collect();
            let finished = finished().into_iter().filter(|(tp, _)| partitions.contains(tp)).collect();
            let (offsets, limit) = (self.commits.to_commit(finished), rebalance_limit(&self.options));
            let outcome = self.commits.submit(identity, offsets, limit, Duration::ZERO);
            *current = Some(RevocationCommit { event_id, until: Instant::now() + limit, outcome });
        }
        let Some(commit) = current.as_mut() else { return true };
        match timeout_at(commit.until.min(deadline), &mut commit.outcome).await {
            Ok(outcome) => report(&self.coordinator, outcome.unwrap_or_else(|_| Err(Error::closed("the consumer")))),
            Err(_) if Instant::now() < commit.until => return false,
            Err(_) => {
                let timed_out =
                    Error::timeout("the commit before partitions are revoked", rebalance_limit(&self.options));
                report(&self.coordinator, Err(timed_out));
            }
        }
        *current = None;
        true
    }

    /// With `enable.auto.commit`, commits the finished offsets of partitions that the application no longer consumes.
    /// Commits in the background, after earlier commits and before later commits. Must be called within a tokio
    /// runtime.
    pub(crate) fn commit_unassigned(&self, finished: Offsets, limit: Duration) {
        let revoked: Vec<_> = finished.iter().map(|(tp, _)| tp.clone()).collect();
        let offsets = self.commits.to_commit(finished);
        let coordinator = self.coordinator.clone();
        match self.commit_identity() {
            _ if offsets.is_empty() => {}
            Ok(identity) => {
                self.commits.submit_then(identity, offsets, limit, Duration::ZERO, move |outcome| {
                    report(&coordinator, outcome)
                });
            }
            Err(error) => report(&coordinator, Err(error)),
        }
        self.forget(&revoked);
    }

    /// Acknowledges the event that was taken and drops its unfinished commit, if any.
    pub(crate) fn acknowledge(&self) {
        self.membership.acknowledge();
        // A call that waits for a commit holds the lock, and compares event ids before it reuses a commit.
        if let Ok(mut current) = self.revocation_commit.try_lock() {
            *current = None;
        }
    }

    /// With `enable.auto.commit`, commits `finished` before the consumer closes. If the commit fails, the error is
    /// logged and the records are consumed again.
    pub(crate) async fn commit_finished(&self, finished: Offsets, limit: Duration) {
        let offsets = self.commits.to_commit(finished);
        if offsets.is_empty() {
            return self.flush(limit).await;
        }
        report(&self.coordinator, self.commit_with_patience(offsets, limit, Duration::ZERO).await);
    }

    /// Triggers a rebalance at the next poll.
    pub(crate) fn enforce_rebalance(&self, reason: &str) {
        match self.options.protocol {
            GroupProtocol::Classic => self.membership.enforce_rebalance(reason),
            // Only the coordinator triggers rebalances (KIP-848).
            GroupProtocol::Consumer => tracing::warn!(
                client_id = self.coordinator.client_id(),
                group_id = self.coordinator.group(),
                "enforce_rebalance does nothing with group.protocol=consumer: the coordinator decides when to rebalance"
            ),
        }
    }

    /// Leaves the group and ends the task.
    pub(crate) async fn close(&self, limit: Duration) {
        self.membership.close();
        let task = lock(&self.task).take();
        if let Some(mut task) = task
            && timeout(limit, &mut task).await.is_err()
        {
            task.abort();
        }
    }
}

/// Returns true if the coordinator rejected a commit because the generation of the commit has ended.
fn is_generation_error(code: i16) -> bool {
    [ErrorCode::REBALANCE_IN_PROGRESS, ErrorCode::ILLEGAL_GENERATION].iter().any(|error| error.code() == code)
}

fn report(coordinator: &Coordinator, outcome: Result<Outcomes>) {
    let (client_id, group_id) = (coordinator.client_id(), coordinator.group());
    match outcome {
        Ok(outcomes) => {
            for (tp, outcome) in outcomes {
                if let Err(error) = outcome {
                    tracing::warn!(client_id, group_id, "partition {tp}: an automatic commit failed: {error}");
                }
            }
        }
        Err(error) => tracing::warn!(client_id, group_id, "an automatic commit failed: {error}"),
    }
}
