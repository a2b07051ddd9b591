//! A batch of records for one partition, and the result of a batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use samsarrow_wire::batch::BatchBuilder;
use tokio::time::Instant;

use super::delivery_state::{Appended, BatchState};
use crate::error::{Error, Result};

/// Producer ID and epoch that identify an idempotent producer to brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProducerIdAndEpoch {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
}

impl ProducerIdAndEpoch {
    /// Returns the same producer ID with the next epoch; `None` after the last epoch.
    pub(crate) fn next_epoch(self) -> Option<Self> {
        Some(Self { epoch: self.epoch.checked_add(1)?, ..self })
    }
}

/// Returns the sequence `count` records after `sequence`: 2³¹ − 1 is followed by 0.
pub(crate) fn advance(sequence: i32, count: u32) -> i32 {
    ((i64::from(sequence) + i64::from(count)) & i64::from(i32::MAX)) as i32
}

/// Records of a batch, encoded or still in a builder.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Encoded records whose batch header is not written yet.
    Draft(Box<BatchBuilder>),
    /// Complete batch as it is sent.
    Encoded(Bytes),
}

/// A batch of records for one partition.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Number of records queued for the partition before this batch, which determines the order of batches.
    pub(crate) order: u64,
    pub(crate) state: Arc<BatchState>,
    /// Index in `state` of the first record.
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) created: Instant,
    pub(crate) deadline: Instant,
    pub(crate) payload: Payload,
    /// Producer ID and base sequence under which the broker may have received this batch.
    pub(crate) numbered: Option<(ProducerIdAndEpoch, i32)>,
    pub(crate) attempts: u32,
    /// True if an earlier attempt had no definite result, so the broker may have appended the batch.
    pub(crate) maybe_appended: bool,
    /// Bytes of `buffer.memory` that the batch holds.
    pub(crate) reserved: usize,
    /// Error of the last attempt.
    pub(crate) cause: Option<Error>,
}

impl Batch {
    /// Creates a batch that was not sent yet.
    pub(super) fn new(
        order: u64,
        state: Arc<BatchState>,
        count: u32,
        created: Instant,
        deadline: Instant,
        payload: Payload,
        reserved: usize,
    ) -> Self {
        Self {
            order,
            state,
            first: 0,
            count,
            created,
            deadline,
            payload,
            numbered: None,
            attempts: 0,
            maybe_appended: false,
            reserved,
            cause: None,
        }
    }

    pub(crate) fn size(&self) -> usize {
        match &self.payload {
            Payload::Draft(builder) => builder.size(),
            Payload::Encoded(bytes) => bytes.len(),
        }
    }

    pub(crate) fn complete(self, outcome: Result<Appended>) -> BatchResult {
        BatchResult {
            state: self.state,
            first: self.first,
            count: self.count,
            reserved: self.reserved,
            late: false,
            outcome,
        }
    }
}

impl BatchResult {
    /// Splits a failed result into one result for each record of `records` (index to error) and results with the common
    /// error for the other records. Records with an error of their own come first, because they are the reason why a
    /// transaction fails.
    pub(crate) fn split_by_error(self, records: &BTreeMap<u32, Error>) -> Vec<BatchResult> {
        let Err(common) = self.outcome else { return vec![self] };
        let mut runs: Vec<(u32, u32, Error)> =
            records.iter().map(|(index, error)| (*index, 1, error.clone())).collect();
        let mut next = 0;
        for index in records.keys().copied().chain([self.count]) {
            if index > next {
                runs.push((next, index - next, common.clone()));
            }
            next = index + 1;
        }
        let mut reserved = self.reserved;
        let part = |(first, count, error)| BatchResult {
            state: Arc::clone(&self.state),
            first: self.first + first,
            count,
            // The first part releases the memory of the whole batch.
            reserved: std::mem::take(&mut reserved),
            late: self.late,
            outcome: Err(error),
        };
        runs.into_iter().map(part).collect()
    }
}

/// Result of all records of a batch.
#[derive(Debug)]
pub(crate) struct BatchResult {
    pub(crate) state: Arc<BatchState>,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) reserved: usize,
    /// True if the records already have a result. This result then only releases their memory.
    pub(crate) late: bool,
    pub(crate) outcome: Result<Appended>,
}
