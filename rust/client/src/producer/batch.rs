//! A batch on its way to a partition, from its first record to its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use samsarrow_wire::batch::BatchBuilder;

use super::delivery_state::{Appended, BatchState};
use crate::error::{Error, Result};

/// What the broker knows an idempotent producer by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) producer_id: i64,
    pub(crate) epoch: i16,
}

/// The sequence `count` records after `sequence`: 2³¹ − 1 is followed by 0.
pub(crate) fn advance(sequence: i32, count: u32) -> i32 {
    ((i64::from(sequence) + i64::from(count)) & i64::from(i32::MAX)) as i32
}

/// The bytes of a batch.
#[derive(Debug)]
pub(crate) enum Payload {
    /// Records laid out, header not yet written.
    Draft(Box<BatchBuilder>),
    /// As it goes over the wire.
    Encoded(Bytes),
}

/// A batch on its way to a partition.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Records of the partition before this batch: its place in the order.
    pub(crate) order: u64,
    pub(crate) state: Arc<BatchState>,
    /// Index in `state` of the first record.
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) created: Instant,
    pub(crate) deadline: Instant,
    pub(crate) payload: Payload,
    /// Identity and sequence that the broker may have seen this batch under.
    pub(crate) numbered: Option<(Identity, i32)>,
    pub(crate) attempts: u32,
    /// Bytes of `buffer.memory` held.
    pub(crate) reserved: usize,
    /// Why the last attempt failed.
    pub(crate) cause: Option<Error>,
}

impl Batch {
    /// A batch that was never sent.
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

    pub(crate) fn settle(self, outcome: Result<Appended>) -> Settled {
        Settled {
            state: self.state,
            first: self.first,
            count: self.count,
            reserved: self.reserved,
            late: false,
            outcome,
        }
    }
}

impl Settled {
    /// Gives each of `records`, by their index, its own error, and the others that of all. Those with their own come
    /// first: they are the reason why a transaction fails.
    pub(crate) fn apart(self, records: &BTreeMap<u32, Error>) -> Vec<Settled> {
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
        let piece = |(first, count, error)| Settled {
            state: Arc::clone(&self.state),
            first: self.first + first,
            count,
            // The first piece gives all of the memory back.
            reserved: std::mem::take(&mut reserved),
            late: self.late,
            outcome: Err(error),
        };
        runs.into_iter().map(piece).collect()
    }
}

/// A batch whose records all have their result now.
#[derive(Debug)]
pub(crate) struct Settled {
    pub(crate) state: Arc<BatchState>,
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) reserved: usize,
    /// The records have an earlier result: this one only gives their memory back.
    pub(crate) late: bool,
    pub(crate) outcome: Result<Appended>,
}
