//! Memory layouts of keys and values.
pub(crate) mod binary;
pub(crate) mod constant_column;
pub(crate) mod headers;
pub(crate) mod view;

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_schema::ArrowError;
use samsarrow_wire::batch::RecordError;

use crate::pool::Pool;
pub(crate) use crate::pool::trimmed;
pub use crate::schema::Layout;

/// Location of the records that are being read: index of a buffer, and start position within the buffer. Only used for
/// views.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    pub(crate) buffer: u32,
    pub(crate) start: u32,
}

/// Capacity needed for the next rows, and for all rows that are expected.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Capacity {
    next: usize,
    all: usize,
}

impl Capacity {
    pub(crate) fn new(next: usize, ahead: usize) -> Capacity {
        Capacity { next, all: next.saturating_add(ahead) }
    }

    pub(crate) fn all(self) -> usize {
        self.all
    }

    /// Reserves the capacity for all expected rows, unless there is already enough for the next rows.
    pub(crate) fn reserve_in<T>(self, column: &mut Vec<T>) {
        if column.capacity() - column.len() < self.next {
            column.reserve_exact(self.all);
        }
    }
}

/// Builder of a key or value column.
pub(crate) trait ValueColumn: Default + std::fmt::Debug + Send {
    /// Layout of the column.
    const LAYOUT: Layout;

    /// Creates a column. If its layout copies bytes, they are allocated from the pool.
    fn with_pool(_: &Pool) -> Self {
        Self::default()
    }

    /// Reserves capacity for rows and their bytes. Implementations may ignore this hint.
    fn reserve(&mut self, rows: Capacity, bytes: Capacity);

    /// Appends one row for each pair of `starts` and `lens`: the `lens[i]` bytes of `data` from `starts[i]` on, or null
    /// if the length is -1. Fails if a range is outside of `data`, but may already have appended some rows.
    fn push_block(&mut self, data: &[u8], origin: Origin, starts: &[u32], lens: &[i32]) -> Result<(), RecordError>;

    /// Appends nulls.
    fn push_nulls(&mut self, count: usize);

    /// Drops the rows from index `rows` on.
    fn truncate(&mut self, rows: usize);

    /// Returns the column and resets the builder. Views point into `buffers`.
    fn finish(&mut self, buffers: &[Buffer]) -> Result<ArrayRef, ArrowError>;
}

/// Creates the error for a range outside of `data`. Records are validated when they are parsed, so this error indicates
/// a bug.
#[cold]
fn out_of_bounds(data: &[u8]) -> RecordError {
    RecordError::Beyond { what: "the key, value or header", len: data.len() }
}

/// Result of checking whether none, some or all of the lengths are null.
enum NullsAmong {
    None,
    Some,
    All,
}

#[inline]
fn nulls_among(lens: &[i32]) -> NullsAmong {
    // Only checks the sign bits, without branches, so that the loop is vectorized.
    let (any, all) = lens.iter().fold((0, -1), |(any, all), &len| (any | len, all & len));
    match (any < 0, all < 0) {
        (false, _) => NullsAmong::None,
        (true, false) => NullsAmong::Some,
        (true, true) => NullsAmong::All,
    }
}

/// A validity bitmap that is allocated when the first null is appended.
#[derive(Debug, Default)]
pub(crate) struct Nulls {
    bits: Option<BooleanBufferBuilder>,
}

impl Nulls {
    #[inline(always)]
    pub(crate) fn push_valid(&mut self, count: usize) {
        if let Some(bits) = &mut self.bits {
            bits.append_n(count, true);
        }
    }

    /// Appends nulls. `before` is the number of existing rows, which are all valid if there is no bitmap yet.
    pub(crate) fn push_nulls(&mut self, before: usize, count: usize) {
        let bits = self.bits.get_or_insert_with(|| {
            let mut bits = BooleanBufferBuilder::new(before + count);
            bits.append_n(before, true);
            bits
        });
        bits.append_n(count, false);
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        if let Some(bits) = &mut self.bits {
            bits.truncate(rows);
        }
    }

    pub(crate) fn finish(&mut self) -> Option<NullBuffer> {
        let nulls = NullBuffer::new(self.bits.take()?.build());
        (nulls.null_count() > 0).then_some(nulls)
    }
}
