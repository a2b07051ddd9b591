//! Public API of the share consumer.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use samsarrow_wire::messages::Uuid;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::acks::RowState;
use super::decisions::check_decided;
use super::decode::schema_of;
use super::member;
use super::options::{AcknowledgementMode, ShareOptions};
use super::rows::take_rows;
use super::shared::Shared;
use super::state::{Completed, Item, Outcomes, PendingCommit, State, Ticket};
use crate::config::Options;
use crate::error::{Error, Result};
use crate::metrics::Metrics;
use crate::types::TopicPartition;

/// Member of a share group. Methods take `&self` and may be called from any thread.
#[derive(Debug)]
pub struct ShareConsumer {
    pub(super) shared: Arc<Shared>,
    schema: SchemaRef,
    started: AtomicBool,
    woken: AtomicBool,
    /// Set to true once `close` has completed.
    ended: watch::Sender<bool>,
}

impl Drop for ShareConsumer {
    fn drop(&mut self) {
        // The tasks end. Connections close with the cluster, which releases the rows.
        self.shared.with(|state| state.closing = true);
        self.shared.notify_tasks();
    }
}

impl ShareConsumer {
    /// Creates a share consumer without I/O. No tokio runtime is required.
    pub fn new(options: &Options, share: ShareOptions) -> Result<ShareConsumer> {
        let shared = Shared::new(options, share)?;
        let schema = schema_of(&shared.decode_options());
        let (started, woken) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(ShareConsumer { shared, schema, started, woken, ended: watch::Sender::new(false) })
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        self.shared.cluster.metrics()
    }

    /// Returns the id under which brokers receive this client's metrics (KIP-714).
    ///
    /// # Errors
    /// Fails if metrics are not pushed, if no broker accepts them, or if no broker was reachable within `timeout`.
    pub async fn client_instance_id(&self, timeout: Duration) -> Result<Uuid> {
        self.check_open()?;
        self.shared.cluster.client_instance_id(timeout).await
    }

    /// Returns the schema of every batch.
    pub fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    /// Returns the timeout of calls that do not pass a timeout (`default.api.timeout.ms`).
    pub fn default_timeout(&self) -> Duration {
        self.shared.cluster.options().default_api_timeout
    }

    /// Subscribes to topics, in place of an earlier subscription. The next poll joins the group. Must be called within
    /// a tokio runtime.
    pub fn subscribe(&self, topics: BTreeSet<String>) -> Result<()> {
        self.check_open()?;
        self.set_subscription(topics.clone());
        if !self.started.swap(true, Ordering::AcqRel) {
            tokio::spawn(member::run(Arc::clone(&self.shared)));
        }
        // Assignments name topics by id, so the names are looked up while the member joins.
        let shared = Arc::clone(&self.shared);
        tokio::spawn(async move {
            match shared.cluster.learn(&topics, shared.cluster.options().default_api_timeout).await {
                Ok(metadata) => {
                    let missing = topics.iter().filter(|topic| metadata.topic(topic).is_none());
                    let missing = crate::types::join_limited(missing);
                    if !missing.is_empty() {
                        let (client_id, group_id) = (shared.cluster.client_id(), shared.coordinator.group());
                        tracing::warn!(
                            client_id,
                            group_id,
                            "subscribed topics do not exist, and are read once they are created: {missing}"
                        );
                    }
                    shared.notify_tasks();
                }
                Err(error) if error.retriable() => {}
                Err(error) => shared.fail(error),
            }
        });
        Ok(())
    }

    fn set_subscription(&self, topics: BTreeSet<String>) {
        self.shared.with(|state| {
            state.subscription = topics;
            state.subscription_version += 1;
            state.failure = None;
        });
        self.shared.notify_tasks();
    }

    /// Leaves the group. Rows that the application has can still be acknowledged; rows in the queue are released.
    pub fn unsubscribe(&self) -> Result<()> {
        self.check_open()?;
        self.shared.with(|state| {
            // No poll returns these rows, so they go back to the group at once.
            state.release_queue();
        });
        self.set_subscription(BTreeSet::new());
        self.shared.cluster.unsubscribe();
        Ok(())
    }

    pub fn subscription(&self) -> BTreeSet<String> {
        self.shared.with(|state| state.subscription.clone())
    }

    /// Returns the partitions that the coordinator has assigned. Other members can have them too.
    pub fn assignment(&self) -> BTreeSet<TopicPartition> {
        self.shared.with(|state| state.assignment())
    }

    /// Begins a poll. In the implicit mode, the rows of earlier polls are accepted.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] without a subscription, and with [`Error::State`] in the explicit mode if a
    /// row of the last poll was not acknowledged.
    pub fn begin_poll(&self) -> Result<()> {
        self.check_open()?;
        self.shared.cluster.metrics().polls.begin();
        let joins = self.shared.with(|state| {
            if state.subscription.is_empty() {
                return Err(Error::configuration(
                    "nothing is subscribed by this consumer, so nothing can come: call subscribe first",
                ));
            }
            match self.shared.share.acknowledgement_mode {
                AcknowledgementMode::Implicit => state.replace(RowState::Returned, RowState::Accept),
                AcknowledgementMode::Explicit => check_decided(state)?,
            }
            state.polls += 1;
            state.last_poll = Instant::now();
            Ok(std::mem::take(&mut state.joins_with_poll))
        })?;
        if joins {
            self.shared.notify_tasks();
        } else {
            self.shared.notify_sessions();
        }
        Ok(())
    }

    /// Returns rows, or `None` if none are available. A row whose lock has ended in the queue is not returned.
    ///
    /// # Errors
    /// Fails with an error of the membership or of a partition, once per error, and with [`Error::Wakeup`] after
    /// `wakeup` was called.
    pub fn try_poll(&self) -> Result<Option<RecordBatch>> {
        self.try_take(RowState::Returned)
    }

    /// Like [`try_poll`](Self::try_poll), but no commit accepts the rows before [`set_returned`](Self::set_returned),
    /// for callers that return them later.
    pub fn try_hold(&self) -> Result<Option<RecordBatch>> {
        self.try_take(RowState::Queued)
    }

    fn try_take(&self, to: RowState) -> Result<Option<RecordBatch>> {
        self.check_open()?;
        if self.woken.swap(false, Ordering::AcqRel) {
            return Err(Error::Wakeup);
        }
        let taken = self.shared.with(|state| {
            if let Some(error) = state.failure.take() {
                return Err(error);
            }
            loop {
                match state.queue.pop_front() {
                    None => return Ok(None),
                    Some(Item::Error(error)) => return Err(error),
                    Some(Item::Chunk(chunk)) => {
                        if let Some(batch) = take_rows(state, chunk, to) {
                            return Ok(Some(batch));
                        }
                    }
                }
            }
        });
        let batch = match taken? {
            Some(batch) => batch,
            None => return Ok(None),
        };
        if self.shared.share.auto_renew {
            // The locks of rows that were in the queue for long may be due.
            self.shared.notify_tasks();
        }
        self.with_topics(batch).map(Some)
    }

    /// Waits until [`try_poll`](Self::try_poll) may return something or a commit has completed, for at most `timeout`.
    /// Takes nothing, so a cancelled wait loses nothing.
    pub async fn wait_ready(&self, timeout: Duration) {
        let _idle = self.shared.cluster.metrics().polls.wait();
        let _waiting = Waiting::new(&self.shared);
        self.wait_until(Instant::now() + timeout, |state| {
            self.woken.load(Ordering::Acquire)
                || state.closed
                || state.failure.is_some()
                || !state.queue.is_empty()
                || !state.completed.is_empty()
        })
        .await;
    }

    /// Waits until `is_ready` returns true, or until the deadline. Returns false after the deadline.
    async fn wait_until(&self, deadline: Instant, is_ready: impl Fn(&State) -> bool) -> bool {
        let mut changes = self.shared.polls.subscribe();
        loop {
            changes.borrow_and_update();
            if self.shared.with(|state| is_ready(state)) {
                return true;
            }
            if !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
                return self.shared.with(|state| is_ready(state));
            }
        }
    }

    /// Returns a batch without rows.
    pub fn empty_batch(&self) -> Result<RecordBatch> {
        self.with_topics(RecordBatch::new_empty(self.schema.clone()))
    }

    fn with_topics(&self, batch: RecordBatch) -> Result<RecordBatch> {
        let renewed = self.shared.topics.renew(batch);
        renewed.map_err(|error| Error::corrupt(format!("Arrow rejects the dictionary of topics: {error}")))
    }

    /// Sends all acknowledgements and waits for the responses. In the implicit mode, the rows of the last poll are
    /// accepted first. Returns the completed commit, which has the outcomes.
    ///
    /// # Errors
    /// Fails with [`Error::Timeout`] if a broker has not responded within `timeout`, and with [`Error::Wakeup`] after
    /// `wakeup` was called. The acknowledgements continue in the background.
    pub async fn commit(&self, timeout: Duration) -> Result<Commit> {
        self.check_open()?;
        let ticket = self.shared.with(|state| {
            if self.shared.share.acknowledgement_mode == AcknowledgementMode::Implicit {
                state.replace(RowState::Returned, RowState::Accept);
            }
            state.await_commit()
        });
        let commit = Commit { shared: Arc::clone(&self.shared), ticket };
        self.shared.notify_tasks();
        let is_done = |state: &State| state.is_complete(&commit.ticket);
        let is_ready = |state: &State| is_done(state) || state.closed || self.woken.load(Ordering::Acquire);
        self.wait_until(Instant::now() + timeout, is_ready).await;
        if self.shared.with(|state| is_done(state)) {
            return Ok(commit);
        }
        self.check_open()?;
        if self.woken.swap(false, Ordering::AcqRel) {
            return Err(Error::Wakeup);
        }
        Err(Error::timeout(format!("the commit of group {}", self.shared.coordinator.group()), timeout))
    }

    /// Sends all acknowledgements in the background. Returns the number under which
    /// [`take_completed`](Self::take_completed) reports the result.
    pub fn commit_async(&self) -> Result<u64> {
        self.check_open()?;
        let number = self.shared.with(|state| {
            if self.shared.share.acknowledgement_mode == AcknowledgementMode::Implicit {
                state.replace(RowState::Returned, RowState::Accept);
            }
            let (ranges, ticket) = (state.pending_ranges(), state.begin_commit());
            let number = state.next_commit;
            state.next_commit += 1;
            state.commits.push_back(PendingCommit { number, ticket, ranges });
            state.finish_commits();
            number
        });
        self.shared.notify_tasks();
        self.shared.notify_polls();
        Ok(number)
    }

    /// Returns the commits in the background that have completed since the last call, in the order of the calls.
    pub fn take_completed(&self) -> Vec<Completed> {
        self.shared.with(|state| state.completed.drain(..).collect())
    }

    pub fn has_completed(&self) -> bool {
        self.shared.with(|state| !state.completed.is_empty())
    }

    /// Returns the duration of acquisition locks; `None` until a broker has reported it.
    pub fn lock_timeout(&self) -> Option<Duration> {
        self.shared.with(|state| state.lock_timeout)
    }

    /// Makes the waiting call, or the next call that may wait, return [`Error::Wakeup`]. `close` ignores wakeups.
    pub fn wakeup(&self) {
        self.woken.store(true, Ordering::Release);
        self.shared.notify_polls();
    }

    pub(super) fn check_open(&self) -> Result<()> {
        let closed = self.shared.with(|state| state.closing);
        if closed { Err(Error::closed("the share consumer")) } else { Ok(()) }
    }

    /// Closes the sessions, leaves the group and closes all connections. Waiting calls and later calls return
    /// [`Error::Closed`].
    ///
    /// In the implicit mode, the rows of the last poll are accepted if `accepts`. All other rows without an
    /// acknowledgement are released at once.
    pub async fn close(&self, timeout: Duration, accepts: bool) {
        let deadline = Instant::now() + timeout;
        let remaining = || deadline.saturating_duration_since(Instant::now());
        let is_first = self.shared.with(|state| {
            if state.closing {
                return false;
            }
            let accepts = accepts && self.shared.share.acknowledgement_mode == AcknowledgementMode::Implicit;
            state.replace(RowState::Returned, if accepts { RowState::Accept } else { RowState::Release });
            state.replace(RowState::Renewed, RowState::Release);
            state.release_queue();
            state.closing = true;
            true
        });
        if is_first {
            self.shared.notify_tasks();
            // Leaving the group releases no rows, so the sessions are closed first. A quarter of the time remains.
            let closed = |state: &State| state.sessions.values().all(|session| session.ended);
            let limit = Instant::now() + timeout.mul_f64(0.75);
            if !self.wait_until(limit, closed).await {
                tracing::warn!(
                    client_id = self.shared.cluster.client_id(),
                    group_id = self.shared.coordinator.group(),
                    "not all share sessions could be closed in time, so some records return to the group later"
                );
            }
            if self.started.load(Ordering::Acquire) {
                let leave = member::leave(&self.shared, "the consumer closes");
                let _ = tokio::time::timeout(remaining(), leave).await;
            }
        }
        self.shared.with(|state| {
            state.closed = true;
            state.finish_commits();
        });
        self.shared.notify_polls();
        self.shared.cluster.close_within(remaining()).await;
        self.ended.send_replace(true);
    }

    /// Waits until a [`close`](Self::close) in progress has completed, but at most for `timeout`.
    pub async fn closed(&self, timeout: Duration) {
        let _ = tokio::time::timeout(timeout, self.ended.subscribe().wait_for(|ended| *ended)).await;
    }
}

/// A commit that has completed. If it is dropped, as by a cancelled call, the next commit reports its outcomes.
#[derive(Debug)]
pub struct Commit {
    shared: Arc<Shared>,
    ticket: Ticket,
}

impl Commit {
    /// Returns the result of each partition with acknowledgements since the last commit.
    pub fn outcomes(self) -> Outcomes {
        self.shared.with(|state| state.take_outcomes(&self.ticket))
    }
}

impl Drop for Commit {
    fn drop(&mut self) {
        self.shared.with(|state| state.end_commit(&self.ticket));
    }
}

/// Counts a waiting poll, for which sessions fetch.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.with(|state| state.waiting += 1);
        shared.notify_sessions();
        Self(shared)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.with(|state| {
            state.waiting = state.waiting.saturating_sub(1);
            state.last_poll = Instant::now();
        });
    }
}
