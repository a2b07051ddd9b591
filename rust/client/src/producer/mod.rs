//! The producer's public face.

mod abort_batches;
pub(crate) mod accumulator;
pub(crate) mod batch;
mod batch_encoder;
pub(crate) mod buffer_memory;
pub(crate) mod columns;
pub(crate) mod counters;
mod delivery;
mod delivery_state;
mod dispatcher;
pub(crate) mod drain;
pub(crate) mod flush;
pub(crate) mod partitioner;
mod producer_id;
mod producer_metrics;
pub(crate) mod queue;
mod record;
mod request;
mod response_handler;
mod row_partitioning;
mod send;
mod send_batch;
pub(crate) mod sender;
pub(crate) mod shared;
mod split_oversized;
pub(crate) mod topic;
pub(crate) mod transactions;
pub(crate) mod unread_failures;

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_array::RecordBatch;
pub use samsarrow_arrow::encode::Columns;
pub use samsarrow_arrow::value_encoding::{ValueColumns, ValueFormat};
use samsarrow_wire::messages::Uuid;
use tokio::runtime::Handle;

pub use self::send::{Room, TrySendError};
use crate::cluster::{Cluster, TopicUser};
use crate::config::Options;
use crate::error::{Error, Result};
use crate::group::Offsets;
use crate::metrics::{Metrics, Source};
use crate::producer::accumulator::{Accumulator, Limits};
use crate::producer::buffer_memory::Memory;
pub use crate::producer::columns::Sent;
use crate::producer::counters::Counters;
use crate::producer::flush::Flushing;
use crate::producer::partitioner::Partitioning;
use crate::producer::queue::{MAX_IDEMPOTENT_IN_FLIGHT, Rules};
use crate::producer::shared::{Settings, Shared};
use crate::producer::topic::topic_gone;
use crate::producer::transactions::Transactions;
use crate::producer::transactions::state::{Operation, Phase, Transaction};
use crate::producer::unread_failures::log_unread;
use crate::types::TopicPartition;
pub use delivery::{BatchDelivery, Delivery, PartOutcome};
pub use delivery_state::Watcher;
pub use record::{PartitionReceipt, ProducerRecord, RecordMetadata, RecordRef};
pub use send_batch::SendBatch;
pub use transactions::{BeginTransaction, GroupMember};

/// Sends records to Kafka. All methods take `&self`; share it by reference or in an `Arc`.
///
/// Dropping a producer without [`close`](Self::close) fails the records that are not delivered yet.
#[derive(Debug)]
pub struct Producer {
    shared: Arc<Shared>,
}

impl Producer {
    /// A producer; no connection is made before the first record.
    ///
    /// # Errors
    /// Options that contradict one another, or no tokio runtime to run on.
    pub fn new(options: &Options) -> Result<Producer> {
        let runtime = Handle::try_current()
            .map_err(|_| Error::configuration("a producer must be made within a tokio runtime"))?;
        let producer = &options.producer;
        let (acks, idempotent) = (producer.acks, producer.enable_idempotence);
        let max_in_flight = producer.max_in_flight;
        if idempotent && max_in_flight > MAX_IDEMPOTENT_IN_FLIGHT {
            return Err(Error::configuration(format!(
                "max.in.flight.requests.per.connection is {max_in_flight}, idempotence allows at most \
                 {MAX_IDEMPOTENT_IN_FLIGHT}: lower it or set enable.idempotence=false"
            )));
        }
        let rules = Rules {
            idempotent,
            transactional: producer.transactional_id.is_some(),
            linger: producer.linger,
            retries: producer.retries,
            backoff: options.common.retry_backoff,
            backoff_max: options.common.retry_backoff_max,
            delivery_timeout: producer.delivery_timeout,
        };
        let partitioning = Partitioning {
            by: producer.partitioner,
            ignore_keys: producer.partitioner_ignore_keys,
            adaptive: producer.partitioner_adaptive,
            patience: producer.partitioner_patience,
        };
        let (batch_size, max_request_size) = (producer.batch_size, producer.max_request_size);
        let limits = Limits { batch_size, max_request_size, max_in_flight, partitioning };
        let settings = Settings {
            acks,
            transactional_id: producer.transactional_id.as_deref().map(Arc::from),
            codec: producer.compression,
            level: producer.compression_level,
            require_idempotence: producer.require_idempotence,
            magic: producer.magic,
            request_timeout: options.common.request_timeout,
            max_block: producer.max_block,
            max_request_size: producer.max_request_size,
        };
        let memory = Memory::new(producer.buffer_memory);
        let cluster = Cluster::new(options)?;
        let transactions = Transactions::new(producer, &cluster);
        let mut accumulator = Accumulator::new(rules, limits);
        accumulator.counters = Counters::new(options.common.metrics.windows);
        accumulator.transaction = transactions.as_ref().map(|own| Transaction::new(Arc::clone(&own.id), own.timeout));
        let shared = Arc::new(Shared::new(cluster, settings, memory, accumulator, transactions));
        let measured: Arc<dyn Source> = Arc::clone(&shared) as _;
        shared.cluster.metrics().add(Arc::downgrade(&measured));
        let user: Arc<dyn TopicUser> = Arc::clone(&shared) as _;
        shared.cluster.keep(Arc::downgrade(&user));
        runtime.spawn(sender::run(Arc::clone(&shared)));
        runtime.spawn(log_unread(Arc::clone(&shared.unread), shared.stop.subscribe()));
        Ok(Producer { shared })
    }

    /// Sends the rows of an Arrow batch; returns once all of them are encoded and queued, so a batch larger than
    /// `buffer.memory` waits for its first rows to be delivered.
    ///
    /// # Errors
    /// A row that cannot be sent (nothing is sent then), or no room for `max.block.ms` (the message says how many rows
    /// were queued before).
    pub async fn send_batch(&self, topic: &str, data: RecordBatch, columns: Columns) -> Result<BatchDelivery> {
        self.send_batch_of(&self.batch_call(None), topic, data, columns).await
    }

    /// A call of `send_batch` whose data comes in several batches. It belongs to `transaction`, by default the one that is
    /// open.
    pub fn batch_call(&self, transaction: Option<u64>) -> SendBatch {
        SendBatch::new(transaction.unwrap_or_else(|| self.transaction_number()))
    }

    /// The number of the transaction that is open, or was the last; 0 without a `transactional.id`.
    pub fn transaction_number(&self) -> u64 {
        self.shared.lock().transaction_number()
    }

    /// Queues no more rows of a call; returns how many it has queued.
    pub fn cancel_batch(&self, call: &SendBatch) -> u64 {
        self.shared.lock().cancel_batch(call)
    }

    /// Sends one batch of a call as [`send_batch`](Self::send_batch) does, or with values written in a format:
    /// `columns.value` is not looked at then. Row numbers in errors count over the whole call, and what was queued before
    /// a failure has its delivery.
    ///
    /// The call fails if the transaction in which it began has ended. What is wrong with a column keeps everything of the
    /// batch from being sent; with values that are written, what is wrong with a row, or its size, keeps the rows from a
    /// chunk on.
    pub async fn send_part(
        &self,
        call: &SendBatch,
        topic: &str,
        data: RecordBatch,
        columns: Columns,
        written: Option<(&ValueColumns, ValueFormat)>,
    ) -> Sent {
        let topic: Arc<str> = Arc::from(topic);
        let admitted = self.shared.lock().admits_rows_of(call);
        let deadline = Instant::now() + self.shared.settings.max_block;
        let ready = match admitted {
            Ok(()) => self.shared.know(&topic, None, deadline).await,
            Err(error) => Err(error),
        };
        match (ready, written) {
            (Err(error), _) => {
                let error = columns::stopped(call, &topic, error);
                Sent::nothing(topic, error)
            }
            (Ok(()), None) => columns::send(&self.shared, call, topic, data, columns).await,
            (Ok(()), Some(written)) => columns::send_written(&self.shared, call, topic, data, columns, written).await,
        }
    }

    /// Sends one batch of a call, as [`send_batch`](Self::send_batch) does.
    ///
    /// # Errors
    /// The same; or the transaction in which the call began has ended.
    pub async fn send_batch_of(
        &self,
        call: &SendBatch,
        topic: &str,
        data: RecordBatch,
        columns: Columns,
    ) -> Result<BatchDelivery> {
        self.send_part(call, topic, data, columns, None).await.complete()
    }

    /// Sends what lingers now and waits until everything sent before is delivered or failed.
    ///
    /// # Errors
    /// Not done within `timeout`. A record that failed is reported by its own [`Delivery`], and those that nothing has
    /// read by [`check_unread`](Self::check_unread).
    pub async fn flush(&self, timeout: Option<Duration>) -> Result<()> {
        let flushing = Flushing::new(&self.shared);
        match timeout {
            None => flushing.done().await,
            Some(timeout) => tokio::time::timeout(timeout, flushing.done()).await.map_err(|_| {
                let count = self.shared.lock().incomplete().len();
                Error::timeout(format!("flush (of {count} batches that are still being sent)"), timeout)
            })?,
        }
        Ok(())
    }

    /// The id by which brokers know this client's metrics (KIP-714).
    ///
    /// # Errors
    /// Metrics are not pushed, or no broker takes them; none could be asked within `timeout` (`max.block.ms`).
    pub async fn client_instance_id(&self, timeout: Option<Duration>) -> Result<Uuid> {
        self.shared.lock().check_open()?;
        self.shared.cluster.client_instance_id(self.patience(timeout)).await
    }

    /// What it counts.
    pub fn metrics(&self) -> &Arc<Metrics> {
        self.shared.cluster.metrics()
    }

    /// The partitions of a topic as brokers know them now.
    ///
    /// # Errors
    /// The topic is not there within `max.block.ms`.
    pub async fn partitions_for(&self, topic: &str) -> Result<Vec<TopicPartition>> {
        let name: Arc<str> = Arc::from(topic);
        let deadline = Instant::now() + self.shared.settings.max_block;
        if self.shared.lock().find(&name).is_some() {
            self.shared.refresh(deadline).await?;
        }
        let count = self.partition_count(topic).await?;
        Ok((0..count).map(|partition| TopicPartition { topic: Arc::clone(&name), partition }).collect())
    }

    /// The number of partitions of a topic, as of the last refresh of the metadata.
    ///
    /// # Errors
    /// The topic is not there within `max.block.ms`.
    pub async fn partition_count(&self, topic: &str) -> Result<i32> {
        let name: Arc<str> = Arc::from(topic);
        let deadline = Instant::now() + self.shared.settings.max_block;
        self.shared.know(&name, None, deadline).await?;
        let mut accumulator = self.shared.lock();
        let count = accumulator.find(&name).and_then(|index| accumulator.topic(index)).map(|topic| topic.count());
        count.ok_or_else(|| topic_gone(topic))
    }

    /// Gets an identity for `transactional.id`. Producers that had the same one before are fenced: they can do nothing
    /// more, and what they have left open is aborted.
    ///
    /// # Errors
    /// The producer is not allowed to have the id, or the options do not suit the broker; not done within `timeout`
    /// (`max.block.ms`): then the call may be repeated.
    pub async fn init_transactions(&self, timeout: Option<Duration>) -> Result<()> {
        transactions::perform(&self.shared, Operation::Init, self.patience(timeout)).await
    }

    /// Opens a transaction: what is sent from now on is part of it. Gets an identity first if there is none.
    ///
    /// # Errors
    /// A transaction is open, or the producer can do no more.
    pub async fn begin_transaction(&self) -> Result<()> {
        self.begin_transaction_of(&BeginTransaction::default()).await
    }

    /// As [`begin_transaction`](Self::begin_transaction), for a call that may be cancelled.
    ///
    /// # Errors
    /// The same.
    pub async fn begin_transaction_of(&self, call: &BeginTransaction) -> Result<()> {
        transactions::begin(&self.shared, call, self.shared.settings.max_block).await
    }

    /// Keeps a call from opening a transaction; returns whether it has opened one already, which is to be aborted then.
    pub fn cancel_begin(&self, call: &BeginTransaction) -> bool {
        transactions::cancel_begin(&self.shared, call)
    }

    /// Makes offsets part of the transaction: they are committed with it or not at all (KIP-447).
    ///
    /// # Errors
    /// The member has lost its partitions, or another reason to abort the transaction; not done within `timeout`: then
    /// it goes on, and the commit waits for it.
    pub async fn send_offsets_to_transaction(
        &self,
        offsets: Offsets,
        who: GroupMember,
        timeout: Option<Duration>,
    ) -> Result<()> {
        transactions::send_offsets(&self.shared, who, offsets, self.patience(timeout)).await
    }

    /// Sends what waits, and commits the transaction once all of it is delivered.
    ///
    /// # Errors
    /// Something failed, so that the transaction must be aborted; the producer was fenced; or not done within `timeout`
    /// (`max.block.ms`): then the outcome is open, and the call must be repeated to learn it.
    pub async fn commit_transaction(&self, timeout: Option<Duration>) -> Result<()> {
        transactions::perform(&self.shared, Operation::Commit, self.patience(timeout)).await
    }

    /// Aborts the transaction: drops what waits, waits for what is on its way.
    ///
    /// # Errors
    /// The producer was fenced; or not done within `timeout` (`max.block.ms`): then the call must be repeated.
    pub async fn abort_transaction(&self, timeout: Option<Duration>) -> Result<()> {
        transactions::perform(&self.shared, Operation::Abort, self.patience(timeout)).await
    }

    fn patience(&self, timeout: Option<Duration>) -> Duration {
        timeout.unwrap_or(self.shared.settings.max_block)
    }

    /// Aborts an open transaction, takes no more records, waits up to `timeout` for those that are on their way, fails the rest and ends the
    /// connections. A second call does nothing.
    ///
    /// # Errors
    /// Records were left over: each of them has its error, too.
    pub async fn close(&self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        if !self.shared.lock().closed {
            transactions::leave(&self.shared, timeout.min(self.shared.settings.request_timeout)).await;
        }
        {
            let mut accumulator = self.shared.lock();
            if accumulator.closed {
                return Ok(());
            }
            accumulator.closed = true;
        }
        // An abort that the coordinator does not answer takes its time from the same timeout.
        let flushed = self.flush(Some(left_until(deadline))).await;
        let left = Error::closed("the producer (before this record was delivered)");
        self.shared.abandon(&left);
        self.shared.cluster.close_within(left_until(deadline)).await;
        flushed.map_err(|_| Error::timeout("delivery of all records before close (the rest has failed)", timeout))
    }

    /// Fails if records were not delivered and the application has not read their deliveries, for the end of `call`. Each
    /// failure is reported once.
    ///
    /// # Errors
    /// The first of the failures, with the numbers of records by topic.
    pub fn check_unread(&self, call: &str) -> Result<()> {
        self.shared.unread.take().and_then(|failures| failures.into_error(call)).map_or(Ok(()), Err)
    }

    /// Logs the records that were not delivered and whose deliveries the application has not read.
    pub fn log_unread(&self) {
        if let Some(failures) = self.shared.unread.take() {
            failures.log();
        }
    }

    /// Ends a producer that the application has not closed: aborts an open transaction, and logs what is not delivered until
    /// `delivery.timeout.ms`, or until [`give_up`](Self::give_up). Where `usable`, it is not closed, unless it is
    /// transactional.
    pub async fn finish(&self, usable: bool) {
        let is_open = |phase: &Phase| matches!(phase, Phase::Open | Phase::Committing | Phase::Abortable(_));
        let open = self.shared.lock().transaction.as_ref().is_some_and(|transaction| is_open(transaction.phase()));
        if let Some(id) = self.shared.settings.transactional_id.as_ref().filter(|_| open) {
            tracing::error!(
                "a producer was not closed while a transaction of transactional.id {id} was open: it is aborted (call \
                 close, or use a with block)"
            );
        }
        // Each record has its result within delivery.timeout.ms.
        let done = if usable && self.shared.transactions.is_none() {
            self.flush(None).await
        } else {
            self.close(Duration::from_secs(1_000_000_000)).await
        };
        if let Err(error) = done {
            tracing::error!(%error, "a producer was not closed, and its end failed");
        }
        self.log_unclosed();
    }

    /// Fails all records that are not delivered yet.
    pub fn give_up(&self) {
        self.shared.abandon(&Error::closed("the producer (the application ended before this record was delivered)"));
    }

    fn log_unclosed(&self) {
        if let Some(failures) = self.shared.unread.take() {
            failures.log_unclosed();
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let closed = self.shared.lock().closed;
        self.shared.abandon(&Error::closed("the producer (dropped before this record was delivered)"));
        if closed {
            self.log_unread();
        } else {
            self.log_unclosed();
        }
    }
}

fn left_until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
