//! Commits of one consumer, one after the other: a late answer can never undo a newer commit.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use samsarrow_wire::error_code::ErrorCode;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::coordinator::Coordinator;
use super::membership::{Complaint, Identity, Membership};
use crate::cluster::Cluster;
use crate::error::{Error, Result};
use crate::offsets::{self, Outcomes};
use crate::types::{OffsetAndMetadata, TopicPartition};

/// Offsets by partition.
pub type Offsets = Vec<(TopicPartition, OffsetAndMetadata)>;

/// How often a member looks whether its epoch has moved on.
const EPOCH_POLL: Duration = Duration::from_millis(50);

/// A commit on its way, and who wants to know.
struct Job {
    who: Identity,
    offsets: Offsets,
    deadline: Instant,
    limit: Duration,
    answer: Box<dyn FnOnce(Result<Outcomes>) + Send>,
}

/// Hands commits to a task that makes them in the order of the calls.
#[derive(Debug)]
pub(crate) struct Commits {
    jobs: mpsc::UnboundedSender<Job>,
    waiting: Mutex<Option<(mpsc::UnboundedReceiver<Job>, Committer)>>,
    /// An automatic commit is under way.
    pub(crate) automatic: Arc<AtomicBool>,
    /// What was committed last, so that the same is not committed again by itself.
    last: Arc<Mutex<BTreeMap<TopicPartition, i64>>>,
}

/// What a commit needs.
#[derive(Debug, Clone)]
pub(crate) struct Committer {
    pub(crate) cluster: Cluster,
    pub(crate) coordinator: Coordinator,
    pub(crate) membership: Arc<Membership>,
}

impl Commits {
    pub(crate) fn new(committer: Committer) -> Self {
        let (jobs, waiting) = mpsc::unbounded_channel();
        Self { jobs, waiting: Mutex::new(Some((waiting, committer))), automatic: Arc::default(), last: Arc::default() }
    }

    fn last(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, i64>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`submit_then`](Self::submit_then); the receiver gets the answer.
    pub(crate) fn submit(
        &self,
        who: Identity,
        offsets: Offsets,
        limit: Duration,
    ) -> oneshot::Receiver<Result<Outcomes>> {
        let (answer, receiver) = oneshot::channel();
        self.submit_then(who, offsets, limit, |outcome| {
            // Whoever asked may have given up.
            let _ = answer.send(outcome);
        });
        receiver
    }

    /// Takes its place behind earlier commits at once. `then` is called with the answer before the next commit is made, so
    /// that answers are told in the order of the commits. Must be called within a runtime.
    pub(crate) fn submit_then(
        &self,
        who: Identity,
        offsets: Offsets,
        limit: Duration,
        then: impl FnOnce(Result<Outcomes>) + Send + 'static,
    ) {
        if let Some((waiting, committer)) = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take() {
            tokio::spawn(work(waiting, committer, Arc::clone(&self.last)));
        }
        let job = Job { who, offsets, deadline: Instant::now() + limit, limit, answer: Box::new(then) };
        if let Err(mpsc::error::SendError(job)) = self.jobs.send(job) {
            (job.answer)(Err(Error::closed("the consumer")));
        }
    }

    /// The offsets that differ from what was committed last.
    pub(crate) fn news(&self, offsets: Offsets) -> Offsets {
        let last = self.last();
        offsets.into_iter().filter(|(tp, o)| last.get(tp) != Some(&o.offset)).collect()
    }

    /// What others may commit from now on is not ours to remember.
    pub(crate) fn forget(&self, partitions: &[TopicPartition]) {
        let mut last = self.last();
        for tp in partitions {
            last.remove(tp);
        }
    }

    /// Whether an automatic commit may start: one at a time.
    pub(crate) fn start_automatic(&self) -> bool {
        !self.automatic.swap(true, Ordering::AcqRel)
    }
}

async fn work(
    mut waiting: mpsc::UnboundedReceiver<Job>,
    committer: Committer,
    last: Arc<Mutex<BTreeMap<TopicPartition, i64>>>,
) {
    while let Some(job) = waiting.recv().await {
        let outcome = committer.commit(job.who, &job.offsets, job.deadline, job.limit).await;
        if let Ok(outcomes) = &outcome {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            for ((tp, outcome), (_, offset)) in outcomes.iter().zip(&job.offsets) {
                if outcome.is_ok() {
                    last.insert(tp.clone(), offset.offset);
                }
            }
        }
        (job.answer)(outcome);
    }
}

impl Committer {
    async fn commit(
        &self,
        mut who: Identity,
        offsets: &Offsets,
        deadline: Instant,
        limit: Duration,
    ) -> Result<Outcomes> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let outcome = offsets::commit(&self.cluster, &self.coordinator, &who, offsets, left).await;
            let Err(Error::Server { code, .. }) = &outcome else { return outcome };
            match *code {
                // The epoch went on without a word about these partitions: it is the same member (KIP-848).
                ErrorCode::STALE_MEMBER_EPOCH if self.still_owned(offsets) => {
                    let Some(newer) = self.newer(&who, deadline).await else {
                        let what = format!("OffsetCommit for group {}", self.coordinator.group());
                        return Err(Error::timeout_because(what, limit, outcome.err()));
                    };
                    who = newer;
                }
                ErrorCode::REBALANCE_IN_PROGRESS => {
                    self.membership.complain(&who, Complaint::Rejoin);
                    return outcome;
                }
                // The member comes back under its id: by another it would wait for itself, for a session timeout.
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

    fn still_owned(&self, offsets: &Offsets) -> bool {
        let owned = self.membership.owned();
        offsets.iter().all(|(tp, _)| owned.contains(tp))
    }

    async fn newer(&self, who: &Identity, deadline: Instant) -> Option<Identity> {
        loop {
            let now = self.membership.identity();
            if now.member_id == who.member_id && now.generation > who.generation {
                return Some(now);
            }
            if Instant::now() + EPOCH_POLL > deadline {
                return None;
            }
            sleep(EPOCH_POLL).await;
        }
    }
}
