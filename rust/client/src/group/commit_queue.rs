//! Queue of one consumer's commits. Only one commit request is in flight at a time, so that an older commit cannot
//! overwrite a newer one. Commits queued during a request are sent together in the next request.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;
use samsarrow_wire::sync::lock;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::membership::{MemberIdentity, Membership, RejoinReason};
use crate::cluster::Cluster;
use crate::cluster::coordinator::Coordinator;
use crate::cluster::metadata::Metadata;
use crate::error::{Error, Result};
use crate::offsets::{self, Outcomes, TopicIds};
use crate::types::{OffsetAndMetadata, TopicPartition, join_limited};

/// Offsets by partition.
pub type Offsets = Vec<(TopicPartition, OffsetAndMetadata)>;

/// Interval between checks for a new member epoch.
const EPOCH_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum wait for a newer epoch. After this time, a commit is retried with the same epoch, because the coordinator
/// may be behind.
const SAME_EPOCH_RETRY: Duration = Duration::from_secs(1);

/// Interval after which unchanged offsets are committed again. A group without members keeps its offsets only for
/// `offsets.retention.minutes` (KIP-211), which is at least one minute.
const RECOMMIT_INTERVAL: Duration = Duration::from_secs(30);

struct QueuedCommit {
    identity: MemberIdentity,
    offsets: Offsets,
    deadline: Instant,
    limit: Duration,
    patience: Duration,
    /// Metadata at the time of the call, which identifies the topics of the offsets.
    metadata: Arc<Metadata>,
    on_complete: Box<dyn FnOnce(Result<Outcomes>) + Send>,
}

/// Commits sent as one request, with the newest offset of each partition.
struct Batch {
    identity: MemberIdentity,
    offsets: Offsets,
    deadline: Instant,
    limit: Duration,
    patience: Duration,
    /// Ids of the topics that the offsets belong to, where known.
    topic_ids: TopicIds,
}

impl Batch {
    /// Takes the commits of one member from the front of the queue.
    fn take(waiting: &mut VecDeque<QueuedCommit>) -> Option<(Batch, Vec<QueuedCommit>)> {
        let first = waiting.front()?;
        let mut batch = Batch {
            identity: first.identity.clone(),
            offsets: Offsets::new(),
            deadline: first.deadline,
            limit: first.limit,
            patience: first.patience,
            topic_ids: TopicIds::new(),
        };
        let mut commits = Vec::new();
        let mut newest = BTreeMap::new();
        while waiting.front().is_some_and(|commit| commit.identity == batch.identity || commit.offsets.is_empty()) {
            let Some(commit) = waiting.pop_front() else { break };
            for (tp, offset) in &commit.offsets {
                let topic = commit.metadata.topic(&tp.topic);
                batch.topic_ids.insert(tp.clone(), topic.map_or(Uuid::ZERO, |topic| topic.topic_id));
                newest.insert(tp.clone(), offset.clone());
            }
            if commit.deadline > batch.deadline {
                (batch.deadline, batch.limit) = (commit.deadline, commit.limit);
            }
            batch.patience = batch.patience.max(commit.patience);
            commits.push(commit);
        }
        batch.offsets = newest.into_iter().collect();
        Some((batch, commits))
    }
}

/// Returns the error for a partition that is missing from a response. Its offset may not have been committed.
fn without_outcome(tp: &TopicPartition) -> Error {
    Error::protocol("the coordinator", format!("OffsetCommit has no outcome for {tp}"))
}

/// Returns the committed offsets as text for a log line.
fn committed(offsets: &Offsets, outcomes: &Outcomes) -> String {
    let done: BTreeSet<&TopicPartition> = outcomes.iter().filter(|(_, o)| o.is_ok()).map(|(tp, _)| tp).collect();
    let committed = offsets.iter().filter(|(tp, _)| done.contains(tp));
    join_limited(committed.map(|(tp, at)| format!("{tp} at {}", at.offset)))
}

/// Completes every commit with the results of its partitions, in the order of the calls.
fn complete_all(commits: Vec<QueuedCommit>, outcome: Result<Outcomes>) {
    let outcome = outcome.map(|outcomes| outcomes.into_iter().collect::<BTreeMap<_, _>>());
    for commit in commits {
        let own_outcomes = |outcomes: &BTreeMap<TopicPartition, Result<()>>| {
            let outcome_of = |tp| outcomes.get(tp).cloned().unwrap_or_else(|| Err(without_outcome(tp)));
            commit.offsets.iter().map(|(tp, _)| (tp.clone(), outcome_of(tp))).collect()
        };
        (commit.on_complete)(outcome.as_ref().map(own_outcomes).map_err(Error::clone));
    }
}

/// Queues commits for a task that sends them in the order of the calls.
#[derive(Debug)]
pub(crate) struct CommitQueue {
    queue: mpsc::UnboundedSender<QueuedCommit>,
    cluster: Cluster,
    waiting: Mutex<Option<(mpsc::UnboundedReceiver<QueuedCommit>, CommitSender)>>,
    /// True while an automatic commit is in flight.
    pub(crate) auto_commit_in_flight: Arc<AtomicBool>,
    /// Last committed offsets, which automatic commits do not commit again.
    last_committed: Arc<Mutex<LastCommitted>>,
    /// Error of the last commit, or of the commit in flight while that is being retried.
    last_error: LastError,
}

type LastError = Arc<Mutex<Option<Error>>>;

fn set_last_error(last_error: &LastError, error: Option<Error>) {
    *lock(last_error) = error;
}

/// Committed offsets and the time of the commit.
#[derive(Debug, Default)]
struct LastCommitted(BTreeMap<TopicPartition, (i64, Instant)>);

impl LastCommitted {
    /// Returns the offsets that differ from the committed offsets, or were committed longer than `RECOMMIT_INTERVAL`
    /// ago.
    fn to_commit(&self, offsets: Offsets, now: Instant) -> Offsets {
        let known = |tp: &TopicPartition, new: i64| {
            self.0.get(tp).is_some_and(|(offset, at)| *offset == new && now.duration_since(*at) < RECOMMIT_INTERVAL)
        };
        offsets.into_iter().filter(|(tp, new)| !known(tp, new.offset)).collect()
    }
}

/// Sends the commits of a consumer.
#[derive(Debug, Clone)]
pub(crate) struct CommitSender {
    pub(crate) cluster: Cluster,
    pub(crate) coordinator: Coordinator,
    pub(crate) membership: Arc<Membership>,
}

impl CommitQueue {
    pub(crate) fn new(sender: CommitSender) -> Self {
        let (queue, receiver) = mpsc::unbounded_channel();
        let cluster = sender.cluster.clone();
        let waiting = Mutex::new(Some((receiver, sender)));
        Self {
            queue,
            cluster,
            waiting,
            auto_commit_in_flight: Arc::default(),
            last_committed: Arc::default(),
            last_error: Arc::default(),
        }
    }

    /// Returns the error of the last commit, as the cause of a timeout.
    pub(crate) fn last_error(&self) -> Option<Error> {
        lock(&self.last_error).clone()
    }

    /// Like [`submit_then`](Self::submit_then), but returns a receiver of the result.
    pub(crate) fn submit(
        &self,
        identity: MemberIdentity,
        offsets: Offsets,
        limit: Duration,
        patience: Duration,
    ) -> oneshot::Receiver<Result<Outcomes>> {
        let (sender, receiver) = oneshot::channel();
        self.submit_then(identity, offsets, limit, patience, |outcome| {
            // The receiver may have been dropped.
            let _ = sender.send(outcome);
        });
        receiver
    }

    /// Queues a commit behind earlier commits. `then` is called with the result, in the order of the commits.
    /// Partitions of unknown topics are retried for `patience`. Must be called within a tokio runtime.
    pub(crate) fn submit_then(
        &self,
        identity: MemberIdentity,
        offsets: Offsets,
        limit: Duration,
        patience: Duration,
        then: impl FnOnce(Result<Outcomes>) + Send + 'static,
    ) {
        if let Some((waiting, sender)) = lock(&self.waiting).take() {
            tokio::spawn(run(waiting, sender, Arc::clone(&self.last_committed), Arc::clone(&self.last_error)));
        }
        let (deadline, metadata, on_complete) = (Instant::now() + limit, self.cluster.metadata(), Box::new(then));
        let commit = QueuedCommit { identity, offsets, deadline, limit, patience, metadata, on_complete };
        if let Err(mpsc::error::SendError(commit)) = self.queue.send(commit) {
            (commit.on_complete)(Err(Error::closed("the consumer")));
        }
    }

    /// Waits until all earlier commits have completed.
    pub(crate) async fn flush(&self, limit: Duration) {
        let empty_commit = self.submit(MemberIdentity::default(), Offsets::new(), limit, Duration::ZERO);
        let _ = timeout(limit, empty_commit).await;
    }

    /// Returns the offsets that differ from the last committed offsets, or were committed longer than
    /// `RECOMMIT_INTERVAL` ago.
    pub(crate) fn to_commit(&self, offsets: Offsets) -> Offsets {
        lock(&self.last_committed).to_commit(offsets, Instant::now())
    }

    /// Removes the last committed offsets of partitions that other members may commit from now on.
    pub(crate) fn forget(&self, partitions: &[TopicPartition]) {
        let mut last_committed = lock(&self.last_committed);
        for tp in partitions {
            last_committed.0.remove(tp);
        }
    }

    /// Returns true if an automatic commit may start; only one may be in flight.
    pub(crate) fn start_auto_commit(&self) -> bool {
        !self.auto_commit_in_flight.swap(true, Ordering::AcqRel)
    }
}

async fn run(
    mut waiting: mpsc::UnboundedReceiver<QueuedCommit>,
    sender: CommitSender,
    last_committed: Arc<Mutex<LastCommitted>>,
    last_error: LastError,
) {
    let mut queue = VecDeque::new();
    while let Some(commit) = waiting.recv().await {
        queue.push_back(commit);
        loop {
            while let Ok(commit) = waiting.try_recv() {
                queue.push_back(commit);
            }
            let Some((batch, commits)) = Batch::take(&mut queue) else { break };
            let outcome = sender.commit(&batch, &last_error).await;
            set_last_error(&last_error, outcome.as_ref().err().cloned());
            if let Ok(outcomes) = &outcome {
                let mut last_committed = lock(&last_committed);
                for ((tp, outcome), (_, offset)) in outcomes.iter().zip(&batch.offsets) {
                    if outcome.is_ok() {
                        last_committed.0.insert(tp.clone(), (offset.offset, Instant::now()));
                    }
                }
            }
            complete_all(commits, outcome);
        }
    }
}

impl CommitSender {
    /// Commits a batch. Returns the results in the order of the batch's offsets.
    async fn commit(&self, batch: &Batch, last_error: &LastError) -> Result<Outcomes> {
        let mut identity = batch.identity.clone();
        // Partitions that the member no longer owned when its epoch changed.
        let mut lost = BTreeMap::new();
        let mut offsets = batch.offsets.clone();
        loop {
            let remaining = batch.deadline.saturating_duration_since(Instant::now());
            let (cluster, coordinator) = (&self.cluster, &self.coordinator);
            let outcome = offsets::commit_with(
                cluster,
                coordinator,
                &identity,
                &offsets,
                &batch.topic_ids,
                batch.patience,
                remaining,
            )
            .await;
            let Err(error @ Error::Server { code, .. }) = &outcome else {
                let (client_id, group_id) = (self.coordinator.client_id(), self.coordinator.group());
                match &outcome {
                    Ok(outcomes) => {
                        for (tp, outcome) in outcomes {
                            if let Err(error) = outcome {
                                tracing::debug!(client_id, group_id, "partition {tp}: a commit failed: {error}");
                            }
                        }
                        if outcomes.iter().any(|(_, outcome)| outcome.is_ok()) {
                            let list = || committed(&offsets, outcomes);
                            tracing::debug!(client_id, group_id, "committed {}", list());
                        }
                    }
                    Err(error) => tracing::debug!(client_id, group_id, "a commit failed: {error}"),
                }
                let mut done: BTreeMap<_, _> = outcome?.into_iter().collect();
                done.append(&mut lost);
                let mut outcome = |tp| done.remove(tp).unwrap_or_else(|| Err(without_outcome(tp)));
                return Ok(batch.offsets.iter().map(|(tp, _)| (tp.clone(), outcome(tp))).collect());
            };
            tracing::debug!(
                client_id = self.coordinator.client_id(),
                group_id = self.coordinator.group(),
                "the coordinator rejected a commit: {error}"
            );
            match *code {
                // The member has a newer epoch (KIP-848). Partitions that it still owns are committed again with that
                // epoch.
                ErrorCode::STALE_MEMBER_EPOCH => {
                    set_last_error(last_error, Some(error.clone()));
                    let owned = self.membership.committable();
                    let (kept, not_owned): (Offsets, Offsets) =
                        offsets.into_iter().partition(|(tp, _)| owned.contains(tp));
                    lost.extend(not_owned.into_iter().map(|(tp, _)| (tp, Err(error.clone()))));
                    if kept.is_empty() {
                        return outcome;
                    }
                    let Some(newer) = self.newer_epoch(&identity, batch.deadline).await else {
                        let action = format!("OffsetCommit for group {}", self.coordinator.group());
                        return Err(Error::timeout_because(action, batch.limit, outcome.err()));
                    };
                    (identity, offsets) = (newer, kept);
                }
                ErrorCode::REBALANCE_IN_PROGRESS => {
                    self.membership.request_rejoin(&identity, RejoinReason::RebalanceInProgress);
                    return outcome;
                }
                // The member rejoins with its id, because with a new id it would have to wait until its old membership
                // has timed out.
                ErrorCode::ILLEGAL_GENERATION => {
                    self.membership.request_rejoin(&identity, RejoinReason::IllegalGeneration);
                    return outcome;
                }
                ErrorCode::UNKNOWN_MEMBER_ID => {
                    self.membership.request_rejoin(&identity, RejoinReason::UnknownMember);
                    return outcome;
                }
                _ => return outcome,
            }
        }
    }

    /// Waits for an epoch newer than that of `identity`, or until a retry with the same epoch is due.
    async fn newer_epoch(&self, identity: &MemberIdentity, deadline: Instant) -> Option<MemberIdentity> {
        let retry_at = Instant::now() + SAME_EPOCH_RETRY;
        loop {
            let current = self.membership.identity();
            let retry = current == *identity && Instant::now() >= retry_at;
            if retry || current.member_id == identity.member_id && current.generation > identity.generation {
                return Some(current);
            }
            if Instant::now() + EPOCH_POLL_INTERVAL > deadline {
                return None;
            }
            sleep(EPOCH_POLL_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_offsets_are_recommitted_before_they_expire() {
        let (changed, unchanged, unknown) = (0, 1, 2);
        let start = Instant::now();
        let tp = |partition| TopicPartition::new("t", partition);
        let last_committed = LastCommitted([changed, unchanged].map(|partition| (tp(partition), (7, start))).into());
        let to_commit = |after: Duration| {
            let offset = |offset| OffsetAndMetadata { offset, ..Default::default() };
            let offsets = vec![(tp(changed), offset(8)), (tp(unchanged), offset(7)), (tp(unknown), offset(7))];
            let partitions = last_committed.to_commit(offsets, start + after).into_iter();
            partitions.map(|(tp, _)| tp.partition).collect::<Vec<_>>()
        };
        assert_eq!(to_commit(Duration::ZERO), [changed, unknown]);
        assert_eq!(to_commit(RECOMMIT_INTERVAL - Duration::from_millis(1)), [changed, unknown]);
        assert_eq!(to_commit(RECOMMIT_INTERVAL), [changed, unchanged, unknown]);
        // Allows two commits within the shortest possible retention (KIP-211).
        assert!(RECOMMIT_INTERVAL * 2 <= Duration::from_secs(60));
    }
}
