//! Writer of one task, which sends the rows in the buffers that Java fills.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_client::producer::BatchDelivery;
use samsarrow_spark::WriteOptions;
use samsarrow_spark::exactly_once::TaskId;
use samsarrow_spark::rpc::Request;

use crate::clients::Shared;
use crate::failure::{Failure, Result};
use crate::leak_counters::TrackedMemory;
use crate::producers::{Producers, TaskProducer};
use crate::row_block::rows_by_topic;
use crate::runtime::runtime;
use crate::typed_columns::TypedColumns;

/// Send in flight. It makes progress only while a caller waits for it, and runs on the caller's thread.
type Sending = Pin<Box<dyn Future<Output = Result<Vec<BatchDelivery>>> + Send>>;

/// Stage of a task's writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The task may write more rows.
    Writing,
    /// All rows are flushed. They are stored once their deliveries have completed.
    Flushed,
    /// All rows are stored, and the transaction, if any, is committed.
    Committed,
}

/// Writer of the rows of one task. It connects to the brokers when the first rows arrive.
pub struct Writer {
    shared: Arc<Shared>,
    options: Arc<WriteOptions>,
    typed: TypedColumns,
    /// Identity of the task, if the write is exactly once.
    task: Option<TaskId>,
    /// Buffer that Java fills between two calls.
    block: Option<(Vec<u8>, TrackedMemory)>,
    producer: Option<Arc<TaskProducer>>,
    sending: Option<Sending>,
    /// Deliveries in the order of sending, except those that have already succeeded.
    deliveries: VecDeque<BatchDelivery>,
    stage: Stage,
}

impl Writer {
    /// Creates a writer for a `write_task` request. The writer connects to the brokers when the first rows arrive.
    ///
    /// # Errors
    /// Fails if an option or a column is invalid.
    pub fn new(shared: Arc<Shared>, request: &str) -> Result<Writer> {
        let Request::WriteTask { fields, task, partition, schemas } = Request::parse(request)? else {
            return Err(Failure::state("the jar opened a writer with a request other than write_task"));
        };
        let options = Arc::new(WriteOptions::parse(shared.raw_options(), &fields)?);
        let task = task.filter(|_| options.exactly_once);
        if options.exactly_once && task.is_none() {
            return Err(Failure::state("the jar passed no task for an exactly-once write"));
        }
        let typed = TypedColumns::new(&options, &schemas, partition)?;
        let (deliveries, stage) = (VecDeque::new(), Stage::Writing);
        Ok(Writer { shared, options, typed, task, block: None, producer: None, sending: None, deliveries, stage })
    }

    /// Allocates the buffer for the rows that `write` sends, and returns its address. Frees the previous buffer.
    ///
    /// # Errors
    /// Fails if the memory cannot be allocated.
    pub fn block(&mut self, bytes: usize) -> Result<usize> {
        self.block = None;
        let mut block = Vec::new();
        let failed = |error| Failure::state(format!("a block of {bytes} bytes for rows cannot be allocated: {error}"));
        block.try_reserve_exact(bytes).map_err(failed)?;
        block.resize(bytes, 0);
        let address = block.as_mut_ptr().expose_provenance();
        self.block = Some((block, TrackedMemory::new(bytes)));
        Ok(address)
    }

    /// Copies the rows in the first `length` bytes of the buffer and starts to send them. The buffer may then be filled
    /// again.
    ///
    /// # Errors
    /// Fails if the rows are malformed or do not fit their schema, or if the rows of the previous call are not sent yet.
    pub fn write(&mut self, length: usize, rows: usize) -> Result<()> {
        if self.sending.is_some() {
            return Err(Failure::state("the jar passed rows before the previous ones were sent"));
        }
        let block = self.block.as_ref().and_then(|(block, _)| block.get(..length));
        let block = block.ok_or_else(|| Failure::state(format!("the jar passed {length} bytes of a smaller block")))?;
        let parts = rows_by_topic(block, rows, &self.options, &mut self.typed)?;
        let producer = self.acquire_producer()?;
        producer.count(&parts)?;
        let (shared, options) = (Arc::clone(&self.shared), Arc::clone(&self.options));
        self.stage = Stage::Writing;
        self.sending = Some(Box::pin(async move { producer.send(&shared.producers, &options, parts).await }));
        Ok(())
    }

    /// Waits up to `wait` until the rows of the last `write` are queued or, if `all` is true, until all rows are
    /// stored. Returns false if `wait` expires first.
    ///
    /// # Errors
    /// Fails if rows could not be sent or stored.
    pub fn sent(&mut self, all: bool, wait: Duration) -> Result<bool> {
        if self.sending.is_none() && all {
            self.sending = self.ending()?;
        }
        if let Some(sending) = &mut self.sending {
            let Ok(sent) = runtime()?.block_on(async { tokio::time::timeout(wait, sending).await }) else {
                return Ok(false);
            };
            self.sending = None;
            self.deliveries.extend(sent?);
        }
        while let Some(outcome) = self.deliveries.front().and_then(BatchDelivery::peek) {
            outcome?;
            self.deliveries.pop_front();
        }
        Ok(!all || (self.stage == Stage::Committed && self.sending.is_none()))
    }

    /// Starts the next stage of a task that has no more rows.
    fn ending(&mut self) -> Result<Option<Sending>> {
        if self.producer.is_none() && self.task.is_none() {
            // The task has no rows, and an at-least-once write needs no commit marker, so there is nothing to do.
            self.stage = Stage::Committed;
        }
        let next = match self.stage {
            Stage::Writing => Stage::Flushed,
            Stage::Flushed if self.deliveries.is_empty() => Stage::Committed,
            Stage::Flushed | Stage::Committed => return Ok(None),
        };
        let (producer, shared, options) =
            (self.acquire_producer()?, Arc::clone(&self.shared), Arc::clone(&self.options));
        self.stage = next;
        Ok(Some(Box::pin(async move {
            if next == Stage::Flushed {
                producer.flush().await?;
            } else {
                producer.commit(&shared.producers, &options).await?;
            }
            Ok(Vec::new())
        })))
    }

    fn acquire_producer(&mut self) -> Result<Arc<TaskProducer>> {
        if let Some(producer) = &self.producer {
            return Ok(Arc::clone(producer));
        }
        let acquire_producer = async || match &self.task {
            Some(task) => Producers::transactional(&self.options, task.clone()),
            None => self.shared.producers.take(&self.options),
        };
        let producer = Arc::new(runtime()?.block_on(acquire_producer())?);
        Ok(Arc::clone(self.producer.insert(producer)))
    }

    /// Releases all resources. If `whole` is true, keeps the producer for the next task. Only a task whose rows are all
    /// stored passes true. Otherwise drops unsent rows.
    pub fn close(&mut self, whole: bool) {
        self.block = None;
        let idle = self.sending.take().is_none() && self.deliveries.is_empty();
        self.deliveries.clear();
        match self.producer.take().and_then(Arc::into_inner) {
            Some(producer) if whole && idle => self.shared.producers.put(producer),
            Some(producer) => producer.close(),
            None => {}
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("columns", &self.options.columns).finish_non_exhaustive()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close(false);
    }
}
