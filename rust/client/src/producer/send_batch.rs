//! One call of `send_batch`: the transaction that it belongs to, and the rows that it has queued.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::accumulator::Accumulator;
use crate::error::{Error, Result};

/// A call of `send_batch`, for all batches of its data. Its fields change only under the lock of the queues.
#[derive(Debug)]
pub struct SendBatch {
    transaction: u64,
    queued: AtomicU64,
    cancelled: AtomicBool,
}

impl SendBatch {
    /// A call that began in this transaction.
    pub(crate) fn new(transaction: u64) -> Self {
        Self { transaction, queued: AtomicU64::new(0), cancelled: AtomicBool::new(false) }
    }

    /// Counts rows that were queued.
    pub(super) fn add_queued(&self, rows: u64) {
        self.queued.fetch_add(rows, Ordering::Relaxed);
    }

    /// Returns the number of rows that were queued, which is also the number of the next row.
    pub(super) fn queued(&self) -> u64 {
        self.queued.load(Ordering::Relaxed)
    }
}

impl Accumulator {
    /// Returns whether rows of this call are taken now.
    pub(crate) fn admits_rows_of(&self, call: &SendBatch) -> Result<()> {
        if call.cancelled.load(Ordering::Relaxed) {
            return Err(Error::State("send_batch was cancelled".into()));
        }
        self.admits_in(call.transaction)
    }

    /// Takes no more rows of this call; returns how many were queued. The task of a cancelled call can still be running
    /// on another thread.
    pub(crate) fn cancel_batch(&mut self, call: &SendBatch) -> u64 {
        call.cancelled.store(true, Ordering::Relaxed);
        call.queued()
    }
}
