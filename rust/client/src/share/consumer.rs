//! Public API of the share consumer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow_array::{Int32Array, Int64Array, RecordBatch};
use arrow_schema::SchemaRef;
use samsarrow_wire::messages::Uuid;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::acks::RowState;
use super::decode::{Chunk, Segment, schema_of};
use super::member;
use super::options::{AcknowledgementMode, ShareOptions};
use super::shared::Shared;
use super::state::{Completed, Counters, Item, Outcomes, PendingCommit, State};
use crate::config::Options;
use crate::error::{Error, Result};
use crate::fetcher::{Topics as TopicColumn, column};
use crate::metrics::Metrics;
use crate::types::TopicPartition;

/// Type of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acknowledgement {
    /// The record was processed.
    Accept,
    /// The record returns to the group, which delivers it again.
    Release,
    /// The record cannot be processed, and is not delivered again.
    Reject,
    /// The lock of the record starts again.
    Renew,
}

impl Acknowledgement {
    /// Returns the type with this number in the protocol.
    pub fn from_code(code: i8) -> Option<Self> {
        match code {
            1 => Some(Self::Accept),
            2 => Some(Self::Release),
            3 => Some(Self::Reject),
            4 => Some(Self::Renew),
            _ => None,
        }
    }

    fn state(self) -> RowState {
        match self {
            Self::Accept => RowState::Accept,
            Self::Release => RowState::Release,
            Self::Reject => RowState::Reject,
            Self::Renew => RowState::Renew,
        }
    }
}

/// Member of a share group. Methods take `&self` and may be called from any thread.
#[derive(Debug)]
pub struct ShareConsumer {
    shared: Arc<Shared>,
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

    /// Returns the counters of acknowledgements and fetched records.
    pub fn counters(&self) -> Counters {
        self.shared.with(|state| state.counters)
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

    /// Leaves the group. Rows that the application has can still be acknowledged.
    pub fn unsubscribe(&self) -> Result<()> {
        self.check_open()?;
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
        self.shared.with(|state| {
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
            Ok(())
        })?;
        self.shared.notify_tasks();
        Ok(())
    }

    /// Returns rows, or `None` if none are available. A row whose lock has ended in the queue is not returned.
    ///
    /// # Errors
    /// Fails with an error of the membership or of a partition, once per error, and with [`Error::Wakeup`] after
    /// `wakeup` was called.
    pub fn try_poll(&self) -> Result<Option<RecordBatch>> {
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
                        if let Some(batch) = take_rows(state, chunk) {
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

    /// Acknowledges rows, each by its type or all by one; rows with the type `None` stay undecided. The next poll or
    /// commit sends the acknowledgements.
    ///
    /// # Errors
    /// Fails with [`Error::Configuration`] if the batches have no positions, and with [`Error::State`] if the consumer
    /// does not have a row, or if the mode is not explicit. Nothing is acknowledged then.
    pub fn acknowledge(&self, batches: &[RecordBatch], types: &[Option<Acknowledgement>]) -> Result<()> {
        self.check_open()?;
        if self.shared.share.acknowledgement_mode == AcknowledgementMode::Implicit {
            return Err(Error::State(
                "the consumer accepts rows by itself: create it with acknowledgement=\"explicit\"".into(),
            ));
        }
        self.decide(batches, types)
    }

    /// Like [`acknowledge`](Self::acknowledge), in both modes.
    pub fn decide(&self, batches: &[RecordBatch], types: &[Option<Acknowledgement>]) -> Result<()> {
        self.check_open()?;
        let decisions = positions(batches)?;
        let total: usize = decisions.values().map(Vec::len).sum();
        if types.len() != 1 && types.len() != total {
            return Err(Error::configuration(format!(
                "{} acknowledgement types for {total} rows: pass one type, or one for each row",
                types.len()
            )));
        }
        let kind_of = |row: usize| types.get(if types.len() == 1 { 0 } else { row }).copied().flatten();
        self.shared.with(|state| {
            for (tp, rows) in &decisions {
                let decided = rows.iter().filter(|(row, _)| kind_of(*row).is_some()).map(|(_, offset)| *offset);
                let missing = match state.rows.get(tp) {
                    Some(known) => known.first_not_out(decided),
                    None => decided.into_iter().next(),
                };
                if let Some(offset) = missing {
                    return Err(Error::State(format!(
                        "offset {offset} of {tp} is not with this consumer: it was acknowledged before, or never \
                         returned by its polls"
                    )));
                }
            }
            for (tp, rows) in &decisions {
                let decided = rows.iter().filter_map(|(row, offset)| Some((*offset, kind_of(*row)?.state())));
                if let Some(known) = state.rows.get_mut(tp) {
                    known.set(decided);
                }
            }
            Ok(())
        })
    }

    /// Marks rows as not returned, or as returned again, for callers that return only some rows of a batch.
    pub fn set_returned(&self, batches: &[RecordBatch], is_returned: bool) -> Result<()> {
        let rows = positions(batches)?;
        let (from, to) = match is_returned {
            true => (RowState::Queued, RowState::Returned),
            false => (RowState::Returned, RowState::Queued),
        };
        self.shared.with(|state| {
            for (tp, rows) in &rows {
                let Some(known) = state.rows.get_mut(tp) else { continue };
                let held: Vec<_> = rows
                    .iter()
                    .filter(|(_, offset)| known.state(*offset) == Some(from))
                    .map(|(_, offset)| (*offset, to))
                    .collect();
                known.set(held);
            }
        });
        Ok(())
    }

    /// Sends all acknowledgements and waits for the responses. In the implicit mode, the rows of the last poll are
    /// accepted first. Returns the result of each partition with acknowledgements since the last commit.
    ///
    /// # Errors
    /// Fails with [`Error::Timeout`] if a broker has not responded within `timeout`, and with [`Error::Wakeup`] after
    /// `wakeup` was called. The acknowledgements continue in the background.
    pub async fn commit(&self, timeout: Duration) -> Result<Outcomes> {
        self.check_open()?;
        let ticket = self.shared.with(|state| {
            if self.shared.share.acknowledgement_mode == AcknowledgementMode::Implicit {
                state.replace(RowState::Returned, RowState::Accept);
            }
            state.flush()
        });
        self.shared.notify_tasks();
        let is_done = |state: &State| state.is_complete(&ticket);
        let is_ready = |state: &State| is_done(state) || state.closed || self.woken.load(Ordering::Acquire);
        self.wait_until(Instant::now() + timeout, is_ready).await;
        if let Some(outcomes) = self.shared.with(|state| is_done(state).then(|| state.take_outcomes(&ticket))) {
            return Ok(outcomes);
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
            let (ranges, ticket) = (state.pending_ranges(), state.flush());
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

    /// Returns the time left until the first lock of these rows ends; `None` if the consumer has none of them.
    pub fn locked_for(&self, batches: &[RecordBatch]) -> Result<Option<Duration>> {
        let rows = positions(batches)?;
        let now = Instant::now();
        Ok(self.shared.with(|state| {
            let ends = rows.iter().flat_map(|(tp, rows)| {
                let known = state.rows.get(tp);
                rows.iter().filter_map(move |(_, offset)| {
                    let known = known?;
                    let is_open = known.first_not_out([*offset]).is_none();
                    known.range(*offset).filter(|range| is_open && range.lost.is_none()).map(|range| range.locked_until)
                })
            });
            ends.min().map(|end| end.saturating_duration_since(now))
        }))
    }

    /// Makes the waiting call, or the next call that may wait, return [`Error::Wakeup`]. `close` ignores wakeups.
    pub fn wakeup(&self) {
        self.woken.store(true, Ordering::Release);
        self.shared.notify_polls();
    }

    fn check_open(&self) -> Result<()> {
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
            state.replace(RowState::Queued, RowState::Release);
            state.queue.clear();
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

/// Fails if the application has a row that it has not acknowledged.
fn check_decided(state: &State) -> Result<()> {
    let undecided = state.rows.iter().find_map(|(tp, rows)| Some((tp, rows.first_with(RowState::Returned)?)));
    match undecided {
        None => Ok(()),
        Some((tp, offset)) => Err(Error::State(format!(
            "offset {offset} of {tp} is not acknowledged: acknowledge each row of a poll before the next poll"
        ))),
    }
}

/// Marks the rows of a chunk as returned. Rows whose locks were lost in the queue are left out. If rows remain behind
/// a lost one, they go back to the queue.
fn take_rows(state: &mut State, chunk: Chunk) -> Option<RecordBatch> {
    let now = Instant::now();
    let offsets = chunk.offsets()?.values().clone();
    let (mut row, mut good) = (0, Vec::with_capacity(offsets.len()));
    for Segment { tp, rows } in &chunk.segments {
        let range_of = offsets.get(row..row + rows).unwrap_or_default();
        row += rows;
        let Some(known) = state.rows.get_mut(tp) else {
            good.resize(row, false);
            continue;
        };
        let mut current: Option<(i64, i64, bool)> = None;
        for offset in range_of {
            if current.is_none_or(|(first, last, _)| !(first..=last).contains(offset)) {
                current = known.range(*offset).map(|range| {
                    let is_locked = range.lost.is_none() && range.locked_until > now;
                    (range.first, range.last, is_locked)
                });
            }
            let is_locked = current.is_some_and(|(_, _, is_locked)| is_locked);
            good.push(is_locked && known.state(*offset) == Some(RowState::Queued));
        }
        let returned = range_of.iter().zip(good.get(row - rows..row).unwrap_or_default());
        let states: Vec<_> =
            returned.map(|(offset, good)| (*offset, if *good { RowState::Returned } else { RowState::Done })).collect();
        known.set(states);
    }
    let begin = good.iter().position(|good| *good)?;
    let length = good.iter().skip(begin).take_while(|good| **good).count();
    let rest = begin + length;
    if good.iter().skip(rest).any(|good| *good) {
        put_back(state, &chunk, rest);
    }
    state.counters.records_consumed_total += length as u64;
    Some(chunk.batch.slice(begin, length))
}

/// Puts the rows from `from` on back into the queue.
fn put_back(state: &mut State, chunk: &Chunk, from: usize) {
    let (mut segments, mut row) = (Vec::new(), 0);
    let offsets = chunk.offsets().map(|offsets| offsets.values().clone()).unwrap_or_default();
    for Segment { tp, rows } in &chunk.segments {
        let begin = from.max(row);
        row += rows;
        if begin < row {
            segments.push(Segment { tp: tp.clone(), rows: row - begin });
            if let Some(known) = state.rows.get_mut(tp) {
                let again = offsets.get(begin..row).unwrap_or_default();
                let states: Vec<_> = again
                    .iter()
                    .filter(|offset| known.state(**offset) == Some(RowState::Returned))
                    .map(|offset| (*offset, RowState::Queued))
                    .collect();
                known.set(states);
            }
        }
    }
    let batch = chunk.batch.slice(from, chunk.batch.num_rows() - from);
    state.queue.push_front(Item::Chunk(Chunk { batch, segments }));
}

/// Row number and offset of each row, by partition.
type Positions = BTreeMap<TopicPartition, Vec<(usize, i64)>>;

fn positions(batches: &[RecordBatch]) -> Result<Positions> {
    let mut positions = Positions::new();
    let mut first_row = 0;
    for batch in batches {
        let partitions: &Int32Array = column(batch, "partition", "int32")?;
        let offsets: &Int64Array = column(batch, "offset", "int64")?;
        let topics = TopicColumn::of(batch)?;
        let mut row = 0;
        while row < batch.num_rows() {
            let partition = partitions.value(row);
            let mut end = row + 1;
            while end < batch.num_rows() && partitions.value(end) == partition && topics.same(row, end) {
                end += 1;
            }
            let rows = positions.entry(TopicPartition::new(topics.name(row)?, partition)).or_default();
            rows.extend((row..end).map(|row| (first_row + row, offsets.value(row))));
            row = end;
        }
        first_row += batch.num_rows();
    }
    Ok(positions)
}

/// Counts a waiting poll, for which sessions fetch.
struct Waiting<'a>(&'a Shared);

impl<'a> Waiting<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.with(|state| state.waiting += 1);
        shared.notify_tasks();
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
