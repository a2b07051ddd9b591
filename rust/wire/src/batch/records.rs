//! Iteration over the records of a batch.
use std::ops::ControlFlow;

use super::fast_path::{BLOCK_LEN, Block};
use super::record::{MIN_RECORD_LEN, RawRecord};

/// An error in the records of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A field of the record is malformed.
    #[error("record {index}: {what} is malformed")]
    Field {
        /// Index of the record within the batch, from 0.
        index: usize,
        /// Name of the field.
        what: &'static str,
    },
    /// The record count in the header is negative, or larger than the number of records in the batch.
    #[error("the header says {expected} records, the batch has {actual}")]
    TooFew {
        /// The record count in the header.
        expected: i32,
        /// Number of records read. It is only a lower bound if the count in the header is too large to be possible.
        actual: usize,
    },
    /// A field is outside of the batch's bytes.
    #[error("{what} of a record lies beyond the {len} bytes of its batch")]
    Beyond {
        /// Name of the field.
        what: &'static str,
        /// Length of the batch in bytes.
        len: usize,
    },
    /// Bytes remain after the last record.
    #[error("the header says {expected} records, but {left} bytes follow the last of them")]
    TooMany {
        /// The record count in the header.
        expected: i32,
        /// Number of remaining bytes.
        left: usize,
    },
}

/// Visitor of the records of a batch.
pub trait RecordVisitor {
    /// Visits a record, whose bounds and headers are already validated. `data` is the input of [`walk`]. `Break` ends
    /// the walk.
    fn record(&mut self, data: &[u8], record: &RawRecord) -> ControlFlow<()>;
}

/// Visits the `count` records in `data`, the decompressed records of a batch.
///
/// `data` must contain exactly `count` records, unless the visitor ends the walk.
pub fn walk<V: RecordVisitor>(data: &[u8], count: i32, visitor: &mut V) -> Result<(), RecordError> {
    walk_blocks(data, count, &mut Block::new(), |block| {
        block.records().try_for_each(|record| visitor.record(data, &record))
    })
}

/// Visits the `count` records in `data` one [`Block`] at a time, for column-wise processing. The last block is usually
/// shorter. Apart from the blocks, it works like [`walk`].
#[inline]
pub fn walk_blocks(
    data: &[u8],
    count: i32,
    block: &mut Block,
    mut visit: impl FnMut(&mut Block) -> ControlFlow<()>,
) -> Result<(), RecordError> {
    let expected = usize::try_from(count).unwrap_or(usize::MAX);
    if expected > data.len() / MIN_RECORD_LEN || data.len() > i32::MAX as usize {
        return Err(RecordError::TooFew { expected: count, actual: 0 });
    }
    let (mut done, mut position) = (0, 0);
    while done < expected {
        let block_len = (expected - done).min(BLOCK_LEN);
        match block.fill(data, position, block_len) {
            Ok(end) => position = end,
            Err((index, what)) => return Err(RecordError::Field { index: done + index, what }),
        }
        if block.len() < block_len {
            return Err(RecordError::TooFew { expected: count, actual: done + block.len() });
        }
        done += block_len;
        if visit(block).is_break() {
            return Ok(());
        }
    }
    if position != data.len() {
        return Err(RecordError::TooMany { expected: count, left: data.len() - position });
    }
    Ok(())
}
