//! The producer API, and the modules that implement it.

mod abort_batches;
pub(crate) mod accumulator;
pub(crate) mod batch;
mod batch_encoder;
pub(crate) mod buffer_memory;
pub(crate) mod columns;
mod delivery;
mod delivery_state;
mod dispatcher;
pub(crate) mod drain;
pub(crate) mod flush;
pub(crate) mod metrics;
pub(crate) mod partitioner;
mod producer_id;
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
use std::time::Duration;

use arrow_array::RecordBatch;
pub use samsarrow_arrow::encode::Columns;
pub use samsarrow_arrow::value_encoding::{ValueColumns, ValueFormat};
use samsarrow_wire::messages::Uuid;
use tokio::runtime::Handle;
use tokio::time::Instant;

pub use self::send::{Reservation, TrySendError};
use crate::cluster::{Cluster, TopicUser};
use crate::config::{Options, Partitioner};
use crate::error::{Error, Result};
use crate::group::Offsets;
use crate::metrics::{Metrics, Source};
use crate::producer::accumulator::{Accumulator, Limits};
use crate::producer::buffer_memory::BufferMemory;
pub use crate::producer::columns::SendBatchResult;
use crate::producer::flush::FlushGuard;
use crate::producer::metrics::Counters;
use crate::producer::partitioner::Partitioning;
use crate::producer::queue::{MAX_IDEMPOTENT_IN_FLIGHT, Rules};
use crate::producer::shared::{Settings, Shared};
use crate::producer::topic::topic_missing;
use crate::producer::transactions::Transactions;
use crate::producer::transactions::state::{Operation, Phase, Transaction};
use crate::producer::unread_failures::log_unread;
use crate::types::TopicPartition;
pub use delivery::{BatchDelivery, Delivery, PartOutcome};
pub use delivery_state::CompletionListener;
pub use record::{PartitionReceipt, ProducerRecord, RecordMetadata, RecordRef};
pub use send_batch::SendBatch;
pub use transactions::{BeginTransaction, GroupMember, TopicIdsByName};

/// Sends records to Kafka. All methods take `&self`, so a producer can be shared by reference or in an `Arc`.
///
/// Dropping a producer without [`close`](Self::close) fails the records that are not delivered yet.
#[derive(Debug)]
pub struct Producer {
    shared: Arc<Shared>,
}

impl Producer {
    /// Creates a producer. No connection is made before the first record.
    ///
    /// # Errors
    /// Fails if options contradict each other, or outside a tokio runtime.
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
            adaptive_linger: producer.adaptive_linger,
            retries: producer.retries,
            backoff: options.common.retry_backoff,
            backoff_max: options.common.retry_backoff_max,
            delivery_timeout: producer.delivery_timeout,
            client_id: options.common.client_id.as_str().into(),
        };
        let partitioning = Partitioning {
            by: producer.partitioner,
            ignore_keys: producer.partitioner_ignore_keys,
            adaptive: producer.partitioner_adaptive,
            availability_timeout: producer.partitioner_patience,
        };
        let max_request_size = producer.max_request_size;
        let batch_size = producer.batch_size.min(max_request_size);
        let rack = producer.partitioner_rack.as_deref().filter(|_| producer.partitioner != Partitioner::RoundRobin);
        let limits = Limits { batch_size, max_request_size, max_in_flight, partitioning, rack: rack.map(Arc::from) };
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
        let memory = BufferMemory::new(producer.buffer_memory);
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

    /// Sends the rows of an Arrow batch. Returns once all rows are encoded and queued, so a batch larger than
    /// `buffer.memory` waits until its first rows are delivered.
    ///
    /// # Errors
    /// Fails if a row cannot be sent (then no row is sent), or if `buffer.memory` stays full for `max.block.ms` (the
    /// message contains the number of rows queued before).
    pub async fn send_batch(&self, topic: &str, data: RecordBatch, columns: Columns) -> Result<BatchDelivery> {
        self.send_batch_of(&self.batch_call(None), topic, data, columns).await
    }

    /// Starts a `send_batch` call whose data comes in several batches. The call belongs to `transaction`, by default to
    /// the current transaction.
    pub fn batch_call(&self, transaction: Option<u64>) -> SendBatch {
        SendBatch::new(transaction.unwrap_or_else(|| self.transaction_number()))
    }

    /// Returns the number of the current or last transaction; 0 without a `transactional.id`.
    pub fn transaction_number(&self) -> u64 {
        self.shared.lock().transaction_number()
    }

    /// Stops queueing rows of a call; returns the number of rows queued so far.
    pub fn cancel_batch(&self, call: &SendBatch) -> u64 {
        self.shared.lock().cancel_batch(call)
    }

    /// Sends one batch of a call like [`send_batch`](Self::send_batch). With `written`, values are serialized in a
    /// format, and `columns.value` is ignored. Row numbers in errors count over the whole call. After a failure, the
    /// result contains the delivery of the rows that were queued before.
    ///
    /// Fails if the transaction in which the call began has ended. An invalid column rejects the whole batch. With
    /// serialized values, an invalid or oversized row rejects the rows of its chunk and of later chunks.
    pub async fn send_part(
        &self,
        call: &SendBatch,
        topic: &str,
        data: RecordBatch,
        columns: Columns,
        written: Option<(&ValueColumns, ValueFormat)>,
    ) -> SendBatchResult {
        let topic: Arc<str> = Arc::from(topic);
        let admitted = self.shared.lock().check_call(call);
        let deadline = Instant::now() + self.shared.settings.max_block;
        let ready = match admitted {
            Ok(()) => self.shared.ensure_partition(&topic, None, deadline).await,
            Err(error) => Err(error),
        };
        match (ready, written) {
            (Err(error), _) => {
                let error = columns::stopped(call, &topic, error);
                SendBatchResult::nothing(topic, error)
            }
            (Ok(()), None) => columns::send(&self.shared, call, topic, data, columns).await,
            (Ok(()), Some(written)) => {
                columns::send_serialized(&self.shared, call, topic, data, columns, written).await
            }
        }
    }

    /// Sends one batch of a call, like [`send_batch`](Self::send_batch).
    ///
    /// # Errors
    /// Fails like [`send_batch`](Self::send_batch), and if the transaction in which the call began has ended.
    pub async fn send_batch_of(
        &self,
        call: &SendBatch,
        topic: &str,
        data: RecordBatch,
        columns: Columns,
    ) -> Result<BatchDelivery> {
        self.send_part(call, topic, data, columns, None).await.complete()
    }

    /// Sends lingering batches immediately and waits until all records sent before are delivered or failed.
    ///
    /// # Errors
    /// Fails if `timeout` passes first. Failures of records are returned by their [`Delivery`]. Failures that the
    /// application has not read are returned by [`check_unread`](Self::check_unread).
    pub async fn flush(&self, timeout: Option<Duration>) -> Result<()> {
        let flush = FlushGuard::new(&self.shared);
        match timeout {
            None => flush.wait().await,
            Some(timeout) => tokio::time::timeout(timeout, flush.wait()).await.map_err(|_| {
                let count = self.shared.lock().incomplete().len();
                Error::timeout(format!("flush (of {count} batches that are still being sent)"), timeout)
            })?,
        }
        Ok(())
    }

    /// Returns the client instance ID under which brokers store this client's metrics (KIP-714).
    ///
    /// # Errors
    /// Fails if metrics are not pushed, if no broker accepts them, or if no broker responds within `timeout` (default
    /// `max.block.ms`).
    pub async fn client_instance_id(&self, timeout: Option<Duration>) -> Result<Uuid> {
        self.shared.lock().check_open()?;
        self.shared.cluster.client_instance_id(self.timeout_or_default(timeout)).await
    }

    pub fn metrics(&self) -> &Arc<Metrics> {
        self.shared.cluster.metrics()
    }

    /// Returns the partitions of a topic from fresh metadata.
    ///
    /// # Errors
    /// Fails if the topic is unknown for `timeout` (default `max.block.ms`).
    pub async fn partitions_for(&self, topic: &str, timeout: Option<Duration>) -> Result<Vec<TopicPartition>> {
        let name: Arc<str> = Arc::from(topic);
        let deadline = Instant::now() + self.timeout_or_default(timeout);
        if self.shared.lock().find(&name).is_some() {
            self.shared.refresh(deadline).await?;
        }
        let count = self.partition_count_before(topic, deadline).await?;
        Ok((0..count).map(|partition| TopicPartition { topic: Arc::clone(&name), partition }).collect())
    }

    /// Returns the number of partitions of a topic, from the last metadata refresh.
    ///
    /// # Errors
    /// Fails if the topic is unknown for `max.block.ms`.
    pub async fn partition_count(&self, topic: &str) -> Result<i32> {
        self.partition_count_before(topic, Instant::now() + self.shared.settings.max_block).await
    }

    async fn partition_count_before(&self, topic: &str, deadline: Instant) -> Result<i32> {
        let name: Arc<str> = Arc::from(topic);
        self.shared.ensure_partition(&name, None, deadline).await?;
        let mut accumulator = self.shared.lock();
        let count = accumulator.find(&name).and_then(|index| accumulator.topic(index)).map(|topic| topic.count());
        count.ok_or_else(|| topic_missing(topic))
    }

    /// Initializes the producer ID and epoch of `transactional.id`. Fences earlier producers with the same ID and
    /// aborts the transactions they left open.
    ///
    /// # Errors
    /// Fails if the producer is not authorized to use the ID, if the options do not suit the broker, or if `timeout`
    /// (default `max.block.ms`) passes first. After a timeout, the call may be repeated.
    pub async fn init_transactions(&self, timeout: Option<Duration>) -> Result<()> {
        transactions::perform(&self.shared, Operation::Init, self.timeout_or_default(timeout)).await
    }

    /// Opens a transaction: all records sent from now on are part of it. Initializes the producer ID first if
    /// necessary.
    ///
    /// # Errors
    /// Fails if a transaction is open already, or after a fatal error.
    pub async fn begin_transaction(&self) -> Result<()> {
        self.begin_transaction_of(&BeginTransaction::default(), None).await
    }

    /// Opens a transaction like [`begin_transaction`](Self::begin_transaction), for a call that may be cancelled.
    ///
    /// # Errors
    /// Fails like [`begin_transaction`](Self::begin_transaction), and if the initialization takes longer than `timeout`
    /// (default `max.block.ms`).
    pub async fn begin_transaction_of(&self, call: &BeginTransaction, timeout: Option<Duration>) -> Result<()> {
        transactions::begin(&self.shared, call, self.timeout_or_default(timeout)).await
    }

    /// Cancels a `begin_transaction` call. Returns true if the call has already opened its transaction, which the
    /// caller must then abort.
    pub fn cancel_begin(&self, call: &BeginTransaction) -> bool {
        transactions::cancel_begin(&self.shared, call)
    }

    /// Adds consumer offsets to the transaction, so that they are committed only if the transaction is committed
    /// (KIP-447).
    ///
    /// # Errors
    /// Fails if the member has lost its partitions, if the transaction must be aborted for another reason, or if
    /// `timeout` passes first. After a timeout, the request continues and the commit of the transaction waits for it.
    pub async fn send_offsets_to_transaction(
        &self,
        offsets: Offsets,
        member: GroupMember,
        timeout: Option<Duration>,
    ) -> Result<()> {
        transactions::send_offsets(&self.shared, member, offsets, self.timeout_or_default(timeout)).await
    }

    /// Sends all queued records, and commits the transaction once all of them are delivered.
    ///
    /// # Errors
    /// Fails if the transaction must be aborted, if the producer was fenced, or if `timeout` (default `max.block.ms`)
    /// passes first. After a timeout, the outcome is unknown until the call is repeated.
    pub async fn commit_transaction(&self, timeout: Option<Duration>) -> Result<()> {
        transactions::perform(&self.shared, Operation::Commit, self.timeout_or_default(timeout)).await
    }

    /// Aborts the transaction: drops queued records and waits for batches in flight.
    ///
    /// # Errors
    /// Fails if the producer was fenced, or if `timeout` (default `max.block.ms`) passes first. After a timeout, the
    /// call must be repeated.
    pub async fn abort_transaction(&self, timeout: Option<Duration>) -> Result<()> {
        transactions::perform(&self.shared, Operation::Abort, self.timeout_or_default(timeout)).await
    }

    fn timeout_or_default(&self, timeout: Option<Duration>) -> Duration {
        timeout.unwrap_or(self.shared.settings.max_block)
    }

    /// Closes the producer: aborts an open transaction, rejects further records, waits up to `timeout` for queued
    /// records, fails the remaining records and closes the connections. A second call does nothing.
    ///
    /// # Errors
    /// Fails if records were not delivered in time. The delivery of each such record fails, too.
    pub async fn close(&self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        if !self.shared.lock().closed {
            transactions::abort_on_close(&self.shared, timeout.min(self.shared.settings.request_timeout)).await;
        }
        {
            let mut accumulator = self.shared.lock();
            if accumulator.closed {
                return Ok(());
            }
            accumulator.closed = true;
        }
        // The wait for the coordinator's response to the abort counts towards `timeout`.
        let flushed = self.flush(Some(remaining_until(deadline))).await;
        let remaining = Error::closed("the producer (before this record was delivered)");
        self.shared.shut_down(&remaining);
        self.shared.cluster.close_within(remaining_until(deadline)).await;
        flushed.map_err(|_| Error::timeout("delivery of all records before close (the rest has failed)", timeout))
    }

    /// Reports failed records whose deliveries the application has not read, for the public method `call`. Each failure
    /// is reported once.
    ///
    /// # Errors
    /// Fails if such records exist, with the first failure and the number of records per topic.
    pub fn check_unread(&self, call: &str) -> Result<()> {
        self.shared.unread.take().and_then(|failures| failures.into_error(call)).map_or(Ok(()), Err)
    }

    /// Logs the records that were not delivered and whose deliveries the application has not read.
    pub fn log_unread(&self) {
        if let Some(failures) = self.shared.unread.take() {
            failures.log();
        }
    }

    /// Shuts down a producer that the application has not closed: aborts an open transaction, and logs records that are
    /// not delivered before `delivery.timeout.ms` or [`abort_incomplete`](Self::abort_incomplete). If `usable` is set,
    /// a producer without transactions is only flushed and stays open.
    pub async fn finish(&self, usable: bool) {
        let is_open = |phase: &Phase| matches!(phase, Phase::Open | Phase::Committing | Phase::Abortable(_));
        let open = self.shared.lock().transaction.as_ref().is_some_and(|transaction| is_open(transaction.phase()));
        if let Some(id) = self.shared.settings.transactional_id.as_ref().filter(|_| open) {
            tracing::error!(
                "a producer was not closed while a transaction of transactional.id {id} was open: it is aborted (call \
                 close, or use a with block)"
            );
        }
        // Every record has its result within `delivery.timeout.ms`.
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
    pub fn abort_incomplete(&self) {
        self.shared.shut_down(&Error::closed("the producer (the application ended before this record was delivered)"));
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
        self.shared.shut_down(&Error::closed("the producer (dropped before this record was delivered)"));
        if closed {
            self.log_unread();
        } else {
            self.log_unclosed();
        }
    }
}

fn remaining_until(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
