//! State shared by a producer's handles and tasks: settings, queues and memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Poll;
use std::time::Duration;

use samsarrow_wire::batch::HEADER_LEN;
use samsarrow_wire::compression::{Codec, Compressor};
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::sync::lock;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use super::accumulator::Accumulator;
use super::batch::BatchResult;
use super::buffer_memory::{BufferMemory, Reserved};
use super::delivery_state::PendingNotifications;
use super::topic::{no_such_partition, topic_missing};
use super::transactions::Transactions;
use super::unread_failures::Unread;
use crate::cluster::{Cluster, TopicUser};
use crate::error::{Error, Result};
use crate::metrics::{Event, Id, Sink, Source};

/// Settings of a producer, constant after its creation.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) acks: i16,
    pub(crate) transactional_id: Option<Arc<str>>,
    pub(crate) codec: Codec,
    pub(crate) level: Option<i32>,
    /// True if idempotence was requested explicitly. Records must then not be sent without it.
    pub(crate) require_idempotence: bool,
    /// Newest message format version to write.
    pub(crate) magic: i8,
    pub(crate) request_timeout: Duration,
    pub(crate) max_block: Duration,
    pub(crate) max_request_size: usize,
}

impl Settings {
    /// Returns the codec of new batches. Batches to be converted to an older message format are
    /// compressed during conversion.
    pub(crate) fn batch_codec(&self) -> Codec {
        if self.magic < 2 { Codec::None } else { self.codec }
    }

    /// Rejects a record with headers if the message format does not support them.
    pub(crate) fn check_headers(&self, any: bool, description: impl FnOnce() -> String) -> Result<()> {
        if !any || self.magic >= 2 {
            return Ok(());
        }
        Err(Error::configuration(format!(
            "{} has headers, which message format v{} cannot hold: leave them out, or set message.format.version to 0.11.0 \
             or later (and leave out api.version.produce)",
            description(),
            self.magic
        )))
    }
}

/// State shared by a producer's handles and tasks.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) cluster: Cluster,
    pub(crate) settings: Settings,
    pub(crate) memory: BufferMemory,
    accumulator: Mutex<Accumulator>,
    pub(crate) wake: Notify,
    /// Becomes true to end all tasks.
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) acquiring: AtomicBool,
    /// Idle compressors, kept to reuse their memory.
    compressors: Mutex<Vec<Compressor>>,
    pub(crate) transactions: Option<Transactions>,
    /// True once the application was notified that the producer is fenced.
    fenced: AtomicBool,
    /// Failures that the application has not read. Failures in transactions are reported by `commit_transaction`
    /// instead.
    pub(crate) unread: Arc<Unread>,
}

/// Time for which metadata requests are retried for a missing partition, because added partitions reach the
/// brokers one after the other.
const PARTITION_RETRY_TIME: Duration = Duration::from_secs(2);

impl Shared {
    /// Waits until the partitions of the topic are known and contain `partition`.
    ///
    /// # Errors
    /// Fails if the topic is not found before `deadline`, or if fresh metadata does not contain the partition.
    pub(crate) async fn ensure_partition(
        &self,
        topic: &Arc<str>,
        partition: Option<i32>,
        deadline: Instant,
    ) -> Result<()> {
        let count = |shared: &Self| {
            let mut accumulator = shared.lock();
            accumulator.find(topic).and_then(|index| accumulator.topic(index)).map(|topic| topic.count())
        };
        let in_range = |count: i32| partition.is_none_or(|partition| (0..count).contains(&partition));
        self.lock().check_open()?;
        if count(self).is_none() {
            let remaining = deadline.saturating_duration_since(Instant::now());
            let found = self.cluster.topics(&[topic], remaining).await;
            if matches!(found, Err(Error::Timeout { .. })) {
                // A later send may succeed although this one has waited too briefly, for example with max.block.ms=0.
                self.cluster.request_topic(topic);
            }
            let metadata = found?;
            self.lock().add_topic(topic, &metadata).ok_or_else(|| topic_missing(topic))?;
        }
        let retry_until = deadline.min(Instant::now() + PARTITION_RETRY_TIME);
        let mut backoff = self.cluster.backoff();
        loop {
            match (count(self).ok_or_else(|| topic_missing(topic))?, partition) {
                (count, _) if in_range(count) => return Ok(()),
                (count, Some(partition)) if partition < 0 || Instant::now() >= retry_until => {
                    let error = no_such_partition(topic, partition, usize::try_from(count).unwrap_or(0));
                    return Err(match error {
                        Error::Configuration(text) if partition >= 0 => {
                            let waited = PARTITION_RETRY_TIME.min(self.settings.max_block).as_secs_f64();
                            Error::configuration(format!("{text} (a new partition was awaited for {waited} s)"))
                        }
                        error => error,
                    });
                }
                _ => {}
            }
            let refreshed = self.refresh(deadline).await;
            if matches!(refreshed, Err(Error::Timeout { .. })) {
                self.cluster.request_refresh();
            }
            refreshed?;
            if !count(self).is_none_or(in_range) {
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
    }

    /// Refreshes the metadata of all topics in use.
    pub(crate) async fn refresh(&self, deadline: Instant) -> Result<()> {
        self.cluster.refresh(deadline.saturating_duration_since(Instant::now())).await?;
        let metadata = self.cluster.metadata();
        self.lock().update(&metadata);
        Ok(())
    }

    pub(crate) fn new(
        cluster: Cluster,
        settings: Settings,
        memory: BufferMemory,
        accumulator: Accumulator,
        transactions: Option<Transactions>,
    ) -> Self {
        Self {
            cluster,
            settings,
            memory,
            accumulator: Mutex::new(accumulator),
            wake: Notify::new(),
            stop: watch::Sender::new(false),
            acquiring: AtomicBool::new(false),
            compressors: Mutex::default(),
            transactions,
            fenced: AtomicBool::new(false),
            unread: Arc::default(),
        }
    }

    /// Locks the queues. The lock must be held briefly, and never across an await.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Accumulator> {
        lock(&self.accumulator)
    }

    /// Returns the idle compressors.
    pub(super) fn compressors(&self) -> MutexGuard<'_, Vec<Compressor>> {
        lock(&self.compressors)
    }

    /// Waits until `bytes` of `buffer.memory` are available, up to `deadline`.
    pub(crate) async fn reserve(&self, bytes: usize, deadline: Instant) -> Result<Reserved<'_>> {
        if !self.memory.try_reserve(bytes) {
            let waiting = self.memory.reserve(bytes);
            tokio::pin!(waiting);
            // The first poll joins the queue for memory. The sender then sends lingering batches, whose memory is
            // released.
            let first = std::future::poll_fn(|cx| Poll::Ready(waiting.as_mut().poll(cx))).await;
            if first.is_pending() {
                self.wake.notify_one();
                let total = self.memory.total();
                tokio::time::timeout_at(deadline, waiting).await.map_err(|_| {
                    Error::timeout(
                        format!("{bytes} bytes of buffer.memory (all {total} hold records that wait to be sent)"),
                        self.settings.max_block,
                    )
                })?;
            }
        }
        Ok(Reserved::new(&self.memory, bytes))
    }

    /// Rejects a record that is larger than `max.request.size` or `buffer.memory`.
    pub(crate) fn check_size(&self, size: usize, description: impl FnOnce() -> String) -> Result<()> {
        let encoded = size + HEADER_LEN;
        let (request, memory) = (self.settings.max_request_size, self.memory.total());
        if encoded <= request && size <= memory {
            return Ok(());
        }
        let (limit, option, remedy) = match encoded > request {
            true => (request, "max.request.size", ", and the topic's max.message.bytes if that is smaller"),
            false => (memory, "buffer.memory", ""),
        };
        let text = format!("{} takes {encoded} bytes, more than {option} ({limit} bytes)", description());
        let message = format!("raise {option} to at least {encoded}{remedy}, or send smaller records");
        Err(Error::explained(ErrorCode::MESSAGE_TOO_LARGE, text, Some(message)))
    }

    /// Delivers results and releases memory. Runs callbacks, so no lock may be held.
    pub(crate) fn complete(&self, mut results: Vec<BatchResult>) {
        for late in results.extract_if(.., |result| result.late) {
            self.memory.release(late.reserved);
        }
        if results.is_empty() {
            return;
        }
        if self.transactions.is_some() {
            self.fail_transaction_of(&mut results);
        }
        // Metrics and memory are updated before waiters are notified.
        let mut failed = Vec::new();
        for result in &results {
            if let Err(error) = &result.outcome
                && result.state.is_open(result.first)
            {
                failed.push((Arc::clone(&result.state.topic), result.count));
                self.report_fencing(error);
            }
            if result.reserved > 0 {
                self.memory.release(result.reserved);
            }
        }
        if !failed.is_empty() {
            let now = Instant::now();
            let mut accumulator = self.lock();
            failed.iter().for_each(|(topic, records)| accumulator.count_failed(topic, *records, now));
        }
        let mut done = Vec::with_capacity(results.len());
        let mut notifications = PendingNotifications::default();
        let unread = self.transactions.is_none().then_some(&self.unread);
        for result in results {
            result.state.complete(result.first, result.count, result.outcome, &mut notifications, unread);
            if result.state.all_done() {
                done.push(result.state.id);
            }
        }
        drop(notifications);
        let mut accumulator = self.lock();
        for id in done {
            accumulator.remove_state(id);
        }
    }

    /// Notifies the application once that this producer was fenced.
    fn report_fencing(&self, error: &Error) {
        let fenced = [ErrorCode::PRODUCER_FENCED, ErrorCode::INVALID_PRODUCER_EPOCH];
        if fenced.iter().any(|code| error.code() == Some(code.code())) && !self.fenced.swap(true, Ordering::AcqRel) {
            self.cluster.metrics().emit(|| Event::Fenced { reason: error.to_string() });
        }
    }

    /// Fails the transaction of failed records before their results are delivered.
    fn fail_transaction_of(&self, results: &mut Vec<BatchResult>) {
        let mut dropped = Vec::new();
        for result in results.iter_mut() {
            // Late results for completed records belong to an earlier transaction.
            if let Err(error) = &mut result.outcome
                && result.state.is_open(result.first)
            {
                dropped.extend(self.lock().transaction_failed(error));
            }
        }
        results.extend(dropped);
    }

    /// Stops all tasks and fails the remaining records with `error`.
    pub(crate) fn shut_down(&self, error: &Error) {
        let results = {
            let mut accumulator = self.lock();
            accumulator.closed = true;
            accumulator.abort_batches(error)
        };
        self.stop.send_replace(true);
        self.complete(results);
    }
}

impl Source for Shared {
    fn collect(&self, sink: &mut Sink) {
        let total = self.memory.total();
        sink.unlabeled(Id::BufferTotalBytes, total as f64);
        sink.unlabeled(Id::BufferAvailableBytes, total.saturating_sub(self.memory.used()) as f64);
        self.lock().collect_metrics(sink);
    }
}

impl TopicUser for Shared {
    fn topics_in_use(&self) -> Vec<Arc<str>> {
        self.lock().topics_in_use()
    }
}
