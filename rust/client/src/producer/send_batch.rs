//! State of one `send_batch` call: its transaction, and the number of rows queued so far.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::accumulator::Accumulator;
use crate::error::{Error, Result};

/// A `send_batch` call, shared by all batches of its data. Its fields change only while the accumulator is locked.
#[derive(Debug)]
pub struct SendBatch {
    transaction: u64,
    queued: AtomicU64,
    cancelled: AtomicBool,
}

impl SendBatch {
    /// Creates a call that belongs to this transaction.
    pub(crate) fn new(transaction: u64) -> Self {
        Self { transaction, queued: AtomicU64::new(0), cancelled: AtomicBool::new(false) }
    }

    /// Counts queued rows.
    pub(super) fn add_queued(&self, rows: u64) {
        self.queued.fetch_add(rows, Ordering::Relaxed);
    }

    /// Returns the number of queued rows, which is also the number of the next row.
    pub(super) fn queued(&self) -> u64 {
        self.queued.load(Ordering::Relaxed)
    }
}

impl Accumulator {
    /// Checks that rows of this call may be appended now.
    pub(crate) fn check_call(&self, call: &SendBatch) -> Result<()> {
        if call.cancelled.load(Ordering::Relaxed) {
            return Err(Error::State("send_batch was cancelled".into()));
        }
        self.check_transaction(call.transaction)
    }

    /// Cancels a call and returns the number of rows it has queued. The task of a cancelled call can still be running
    /// on another thread.
    pub(crate) fn cancel_batch(&mut self, call: &SendBatch) -> u64 {
        call.cancelled.store(true, Ordering::Relaxed);
        call.queued()
    }
}
