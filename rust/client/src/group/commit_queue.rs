//! Queue of one consumer's commits. Commits are sent one at a time, so that a late response cannot undo a newer commit,
//! and those queued in between are sent as one request.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::Uuid;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, timeout};

use super::membership::{Complaint, MemberIdentity, Membership};
use crate::cluster::Cluster;
use crate::cluster::coordinator::Coordinator;
use crate::cluster::metadata::Metadata;
use crate::error::{Error, Result};
use crate::offsets::{self, Outcomes, TopicIds};
use crate::types::{OffsetAndMetadata, TopicPartition};

/// Offsets by partition.
pub type Offsets = Vec<(TopicPartition, OffsetAndMetadata)>;

/// Interval at which a changed member epoch is checked for.
const EPOCH_POLL: Duration = Duration::from_millis(50);
/// Maximum wait for a newer epoch, after which a commit is retried with the same one: the coordinator may be behind.
const SAME_EPOCH: Duration = Duration::from_secs(1);

/// Interval after which unchanged offsets are committed again: a group without members keeps its offsets only for
/// `offsets.retention.minutes` (KIP-211), of which the minimum is one minute.
const RENEWAL: Duration = Duration::from_secs(30);

/// A commit in the queue.
struct Job {
    who: MemberIdentity,
    offsets: Offsets,
    deadline: Instant,
    limit: Duration,
    patience: Duration,
    /// Metadata at the time of the call, which identifies the topics of the offsets.
    metadata: Arc<Metadata>,
    answer: Box<dyn FnOnce(Result<Outcomes>) + Send>,
}

/// Commits sent as one request, with the newest offset of each partition.
struct Batch {
    who: MemberIdentity,
    offsets: Offsets,
    deadline: Instant,
    limit: Duration,
    patience: Duration,
    /// Ids of the topics that the offsets belong to, where known.
    topic_ids: TopicIds,
}

impl Batch {
    /// Takes the commits of one member from the front of the queue.
    fn take(waiting: &mut VecDeque<Job>) -> Option<(Batch, Vec<Job>)> {
        let first = waiting.front()?;
        let mut batch = Batch {
            who: first.who.clone(),
            offsets: Offsets::new(),
            deadline: first.deadline,
            limit: first.limit,
            patience: first.patience,
            topic_ids: TopicIds::new(),
        };
        let mut jobs = Vec::new();
        let mut newest = BTreeMap::new();
        while waiting.front().is_some_and(|job| job.who == batch.who || job.offsets.is_empty()) {
            let Some(job) = waiting.pop_front() else { break };
            for (tp, offset) in &job.offsets {
                let topic = job.metadata.topic(&tp.topic);
                batch.topic_ids.insert(tp.clone(), topic.map_or(Uuid::ZERO, |topic| topic.topic_id));
                newest.insert(tp.clone(), offset.clone());
            }
            if job.deadline > batch.deadline {
                (batch.deadline, batch.limit) = (job.deadline, job.limit);
            }
            batch.patience = batch.patience.max(job.patience);
            jobs.push(job);
        }
        batch.offsets = newest.into_iter().collect();
        Some((batch, jobs))
    }
}

/// Returns the error of a partition that is missing from a response: it may not have been committed.
fn without_outcome(tp: &TopicPartition) -> Error {
    Error::protocol("the coordinator", format!("OffsetCommit has no outcome for {tp}"))
}

/// Completes every commit with the results of its partitions, in the order of the calls.
fn answer(jobs: Vec<Job>, outcome: Result<Outcomes>) {
    let outcome = outcome.map(|outcomes| outcomes.into_iter().collect::<BTreeMap<_, _>>());
    for job in jobs {
        let own = |found: &BTreeMap<TopicPartition, Result<()>>| {
            let of = |tp| found.get(tp).cloned().unwrap_or_else(|| Err(without_outcome(tp)));
            job.offsets.iter().map(|(tp, _)| (tp.clone(), of(tp))).collect()
        };
        (job.answer)(outcome.as_ref().map(own).map_err(Error::clone));
    }
}

/// Queues commits for a task that sends them in the order of the calls.
#[derive(Debug)]
pub(crate) struct Commits {
    jobs: mpsc::UnboundedSender<Job>,
    cluster: Cluster,
    waiting: Mutex<Option<(mpsc::UnboundedReceiver<Job>, Committer)>>,
    /// True while an automatic commit is in flight.
    pub(crate) automatic: Arc<AtomicBool>,
    /// Last committed offsets, which automatic commits do not commit again.
    last: Arc<Mutex<Last>>,
    /// Error of the last commit, or of the one in flight if it is being retried.
    trouble: Trouble,
}

type Trouble = Arc<Mutex<Option<Error>>>;

fn note(trouble: &Trouble, error: Option<Error>) {
    *trouble.lock().unwrap_or_else(PoisonError::into_inner) = error;
}

/// Committed offsets and the time of the commit.
#[derive(Debug, Default)]
struct Last(BTreeMap<TopicPartition, (i64, Instant)>);

impl Last {
    /// Returns the offsets that differ from the committed ones, or were committed longer than `RECOMMIT_INTERVAL` ago.
    fn news(&self, offsets: Offsets, now: Instant) -> Offsets {
        let known = |tp: &TopicPartition, new: i64| {
            self.0.get(tp).is_some_and(|(offset, at)| *offset == new && now.duration_since(*at) < RENEWAL)
        };
        offsets.into_iter().filter(|(tp, new)| !known(tp, new.offset)).collect()
    }
}

/// Sends the commits of a consumer.
#[derive(Debug, Clone)]
pub(crate) struct Committer {
    pub(crate) cluster: Cluster,
    pub(crate) coordinator: Coordinator,
    pub(crate) membership: Arc<Membership>,
}

impl Commits {
    pub(crate) fn new(committer: Committer) -> Self {
        let (jobs, waiting) = mpsc::unbounded_channel();
        let cluster = committer.cluster.clone();
        let waiting = Mutex::new(Some((waiting, committer)));
        Self { jobs, cluster, waiting, automatic: Arc::default(), last: Arc::default(), trouble: Arc::default() }
    }

    /// Returns the error of the last commit, as the cause of a timeout.
    pub(crate) fn trouble(&self) -> Option<Error> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`submit_then`](Self::submit_then), but returns a receiver of the result.
    pub(crate) fn submit(
        &self,
        who: MemberIdentity,
        offsets: Offsets,
        limit: Duration,
        patience: Duration,
    ) -> oneshot::Receiver<Result<Outcomes>> {
        let (answer, receiver) = oneshot::channel();
        self.submit_then(who, offsets, limit, patience, |outcome| {
            // The receiver may have been dropped.
            let _ = answer.send(outcome);
        });
        receiver
    }

    /// Queues a commit after earlier ones. `then` is called with the result, in the order of the commits. Unknown
    /// topics are retried for `patience`. Must be called within a tokio runtime.
    pub(crate) fn submit_then(
        &self,
        who: MemberIdentity,
        offsets: Offsets,
        limit: Duration,
        patience: Duration,
        then: impl FnOnce(Result<Outcomes>) + Send + 'static,
    ) {
        if let Some((waiting, committer)) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(work(waiting, committer, Arc::clone(&self.last), Arc::clone(&self.trouble)));
        }
        let (deadline, metadata, answer) = (Instant::now() + limit, self.cluster.metadata(), Box::new(then));
        let job = Job { who, offsets, deadline, limit, patience, metadata, answer };
        if let Err(mpsc::error::SendError(job)) = self.jobs.send(job) {
            (job.answer)(Err(Error::closed("the consumer")));
        }
    }

    /// Waits until all earlier commits have completed.
    pub(crate) async fn settle(&self, limit: Duration) {
        let nothing = self.submit(MemberIdentity::default(), Offsets::new(), limit, Duration::ZERO);
        let _ = timeout(limit, nothing).await;
    }

    /// Returns the offsets that differ from the last committed ones, or were committed too long ago.
    pub(crate) fn news(&self, offsets: Offsets) -> Offsets {
        self.last().news(offsets, Instant::now())
    }

    /// Forgets partitions that other members may commit from now on.
    pub(crate) fn forget(&self, partitions: &[TopicPartition]) {
        let mut last = self.last();
        for tp in partitions {
            last.0.remove(tp);
        }
    }

    /// Returns true if an automatic commit may start; only one may be in flight.
    pub(crate) fn start_automatic(&self) -> bool {
        !self.automatic.swap(true, Ordering::AcqRel)
    }
}

async fn work(
    mut waiting: mpsc::UnboundedReceiver<Job>,
    committer: Committer,
    last: Arc<Mutex<Last>>,
    trouble: Trouble,
) {
    let mut queue = VecDeque::new();
    while let Some(job) = waiting.recv().await {
        queue.push_back(job);
        loop {
            while let Ok(job) = waiting.try_recv() {
                queue.push_back(job);
            }
            let Some((batch, jobs)) = Batch::take(&mut queue) else { break };
            let outcome = committer.commit(&batch, &trouble).await;
            note(&trouble, outcome.as_ref().err().cloned());
            if let Ok(outcomes) = &outcome {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                for ((tp, outcome), (_, offset)) in outcomes.iter().zip(&batch.offsets) {
                    if outcome.is_ok() {
                        last.0.insert(tp.clone(), (offset.offset, Instant::now()));
                    }
                }
            }
            answer(jobs, outcome);
        }
    }
}

impl Committer {
    /// Commits a batch; returns the results in the order of its offsets.
    async fn commit(&self, batch: &Batch, trouble: &Trouble) -> Result<Outcomes> {
        let mut who = batch.who.clone();
        // Partitions that the member no longer owned when its epoch changed.
        let mut gone = BTreeMap::new();
        let mut offsets = batch.offsets.clone();
        loop {
            let left = batch.deadline.saturating_duration_since(Instant::now());
            let (cluster, coordinator) = (&self.cluster, &self.coordinator);
            let outcome =
                offsets::commit_with(cluster, coordinator, &who, &offsets, &batch.topic_ids, batch.patience, left)
                    .await;
            let Err(error @ Error::Server { code, .. }) = &outcome else {
                let mut done: BTreeMap<_, _> = outcome?.into_iter().collect();
                done.append(&mut gone);
                let mut outcome = |tp| done.remove(tp).unwrap_or_else(|| Err(without_outcome(tp)));
                return Ok(batch.offsets.iter().map(|(tp, _)| (tp.clone(), outcome(tp))).collect());
            };
            match *code {
                // The epoch changed without affecting these partitions: it is the same member (KIP-848).
                ErrorCode::STALE_MEMBER_EPOCH => {
                    note(trouble, Some(error.clone()));
                    let owned = self.membership.committable();
                    let (kept, lost): (Offsets, Offsets) = offsets.into_iter().partition(|(tp, _)| owned.contains(tp));
                    gone.extend(lost.into_iter().map(|(tp, _)| (tp, Err(error.clone()))));
                    if kept.is_empty() {
                        return outcome;
                    }
                    let Some(newer) = self.newer(&who, batch.deadline).await else {
                        let what = format!("OffsetCommit for group {}", self.coordinator.group());
                        return Err(Error::timeout_because(what, batch.limit, outcome.err()));
                    };
                    (who, offsets) = (newer, kept);
                }
                ErrorCode::REBALANCE_IN_PROGRESS => {
                    self.membership.complain(&who, Complaint::Rejoin);
                    return outcome;
                }
                // The member rejoins with its id: with a new one it would wait a session timeout for its own old
                // membership.
                ErrorCode::ILLEGAL_GENERATION => {
                    self.membership.complain(&who, Complaint::Stale);
                    return outcome;
                }
                ErrorCode::UNKNOWN_MEMBER_ID => {
                    self.membership.complain(&who, Complaint::Fenced);
                    return outcome;
                }
                _ => return outcome,
            }
        }
    }

    /// Waits for an epoch newer than that of `identity`, or until a retry with the same epoch is due.
    async fn newer(&self, who: &MemberIdentity, deadline: Instant) -> Option<MemberIdentity> {
        let again = Instant::now() + SAME_EPOCH;
        loop {
            let now = self.membership.identity();
            let same = now == *who && Instant::now() >= again;
            if same || now.member_id == who.member_id && now.generation > who.generation {
                return Some(now);
            }
            if Instant::now() + EPOCH_POLL > deadline {
                return None;
            }
            sleep(EPOCH_POLL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_that_did_not_change_are_committed_again_before_they_could_expire() {
        let (changed, same, unknown) = (0, 1, 2);
        let start = Instant::now();
        let tp = |partition| TopicPartition::new("t", partition);
        let last = Last([changed, same].map(|partition| (tp(partition), (7, start))).into());
        let news = |after: Duration| {
            let offset = |offset| OffsetAndMetadata { offset, ..Default::default() };
            let offsets = vec![(tp(changed), offset(8)), (tp(same), offset(7)), (tp(unknown), offset(7))];
            let news = last.news(offsets, start + after).into_iter();
            news.map(|(tp, _)| tp.partition).collect::<Vec<_>>()
        };
        assert_eq!(news(Duration::ZERO), [changed, unknown]);
        assert_eq!(news(RENEWAL - Duration::from_millis(1)), [changed, unknown]);
        assert_eq!(news(RENEWAL), [changed, same, unknown]);
        // Allows two commits within the shortest possible retention (KIP-211).
        assert!(RENEWAL * 2 <= Duration::from_secs(60));
    }
}
