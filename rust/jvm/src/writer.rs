//! One task of a write: rows in blocks that Java fills, into topics.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use samsarrow_client::producer::BatchDelivery;
use samsarrow_spark::WriteOptions;
use samsarrow_spark::exactly_once::Place;
use samsarrow_spark::question::Question;

use crate::alive::Alive;
use crate::block::parts;
use crate::clients::Shared;
use crate::failure::{Failure, Result};
use crate::producers::{Leased, Producers};
use crate::runtime::runtime;

/// What is under way: it goes on whenever a caller waits for it, on the caller's thread.
type Sending = Pin<Box<dyn Future<Output = Result<Vec<BatchDelivery>>> + Send>>;

/// How far a task is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// More rows may come.
    Writing,
    /// All that there were are flushed, and stored once their deliveries have ended.
    Flushed,
    /// And readers see them.
    Committed,
}

/// Sends the rows of one task.
pub struct Writer {
    shared: Arc<Shared>,
    options: Arc<WriteOptions>,
    /// Of the task, where its rows are written exactly once.
    place: Option<Place>,
    /// Java writes into it between two calls.
    block: Option<(Vec<u8>, Alive)>,
    leased: Option<Arc<Leased>>,
    sending: Option<Sending>,
    /// In the order in which they were sent, those that have ended well taken out.
    deliveries: VecDeque<BatchDelivery>,
    stage: Stage,
}

impl Writer {
    /// For the columns and the place of a question `write_task`; connects when rows come.
    ///
    /// # Errors
    /// An option or a column cannot be.
    pub fn new(shared: Arc<Shared>, question: &str) -> Result<Writer> {
        let Question::WriteTask { fields, place } = Question::parse(question)? else {
            return Err(Failure::state("the jar opens a writer with another question"));
        };
        let options = Arc::new(WriteOptions::parse(shared.given(), &fields)?);
        let place = place.filter(|_| options.exactly_once);
        if options.exactly_once && place.is_none() {
            return Err(Failure::state("the jar does not say where a task is that writes exactly once"));
        }
        let (deliveries, stage) = (VecDeque::new(), Stage::Writing);
        Ok(Writer { shared, options, place, block: None, leased: None, sending: None, deliveries, stage })
    }

    /// The address of a block of this many bytes, to which `write` refers; that of the call before is gone.
    ///
    /// # Errors
    /// There is no memory.
    pub fn block(&mut self, bytes: usize) -> Result<usize> {
        self.block = None;
        let mut block = Vec::new();
        let none = |error| Failure::state(format!("no block of {bytes} bytes for rows can be had: {error}"));
        block.try_reserve_exact(bytes).map_err(none)?;
        block.resize(bytes, 0);
        let address = block.as_mut_ptr().expose_provenance();
        self.block = Some((block, Alive::new(bytes)));
        Ok(address)
    }

    /// Takes the rows that are in the first `length` bytes of the block, which may be filled again at once.
    ///
    /// # Errors
    /// These are no such rows, or the rows of the call before are not sent.
    pub fn write(&mut self, length: usize, rows: usize) -> Result<()> {
        if self.sending.is_some() {
            return Err(Failure::state("the jar gives rows while others are not sent"));
        }
        let block = self.block.as_ref().and_then(|(block, _)| block.get(..length));
        let block = block.ok_or_else(|| Failure::state(format!("the jar gives {length} bytes of a smaller block")))?;
        let parts = parts(block, rows, &self.options)?;
        let leased = self.lease()?;
        leased.count(&parts)?;
        let (shared, options) = (Arc::clone(&self.shared), Arc::clone(&self.options));
        self.stage = Stage::Writing;
        self.sending = Some(Box::pin(async move { leased.send(&shared.producers, &options, parts).await }));
        Ok(())
    }

    /// Waits no longer than `wait` until the rows of `write` are queued, with `all` until all are stored; whether they are.
    ///
    /// # Errors
    /// Rows could not be sent, or are not stored.
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

    /// What comes next when there are no more rows.
    fn ending(&mut self) -> Result<Option<Sending>> {
        if self.leased.is_none() && self.place.is_none() {
            // No row has come, and nobody asks who has written none.
            self.stage = Stage::Committed;
        }
        let next = match self.stage {
            Stage::Writing => Stage::Flushed,
            Stage::Flushed if self.deliveries.is_empty() => Stage::Committed,
            Stage::Flushed | Stage::Committed => return Ok(None),
        };
        let (leased, shared, options) = (self.lease()?, Arc::clone(&self.shared), Arc::clone(&self.options));
        self.stage = next;
        Ok(Some(Box::pin(async move {
            if next == Stage::Flushed {
                leased.flush().await?;
            } else {
                leased.commit(&shared.producers, &options).await?;
            }
            Ok(Vec::new())
        })))
    }

    fn lease(&mut self) -> Result<Arc<Leased>> {
        if let Some(leased) = &self.leased {
            return Ok(Arc::clone(leased));
        }
        let lease = async || match &self.place {
            Some(place) => Producers::transactional(&self.options, place.clone()),
            None => self.shared.producers.take(&self.options),
        };
        let leased = Arc::new(runtime()?.block_on(lease())?);
        Ok(Arc::clone(self.leased.insert(leased)))
    }

    /// Gives everything back. With `whole`, which only a task says whose rows are all stored, the producer is kept for the
    /// next one; else what was not sent yet is dropped.
    pub fn close(&mut self, whole: bool) {
        self.block = None;
        let idle = self.sending.take().is_none() && self.deliveries.is_empty();
        self.deliveries.clear();
        match self.leased.take().and_then(Arc::into_inner) {
            Some(leased) if whole && idle => self.shared.producers.give(leased),
            Some(leased) => leased.close(),
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
