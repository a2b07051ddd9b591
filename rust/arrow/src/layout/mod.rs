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

/// Origin of the records being read: a buffer index and the start in that buffer. Only used for views.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    pub(crate) buffer: u32,
    pub(crate) start: u32,
}

/// Capacity needed for the next rows, and the expected total.
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

    /// Reserves the expected total, unless there is capacity for the next rows.
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

    /// Creates a column whose bytes are allocated from the pool, if it copies any.
    fn with_pool(_: &Pool) -> Self {
        Self::default()
    }

    /// Reserves capacity for rows and their bytes; a hint.
    fn reserve(&mut self, rows: Capacity, bytes: Capacity);

    /// Appends `lens[i]` bytes of `data` from `starts[i]` on for each row; a length of -1 is null. If a range is
    /// outside of `data`, returns an error; some rows may be appended then.
    fn push_block(&mut self, data: &[u8], origin: Origin, starts: &[u32], lens: &[i32]) -> Result<(), RecordError>;

    /// Appends nulls.
    fn push_nulls(&mut self, count: usize);

    /// Drops the rows from index `rows` on.
    fn truncate(&mut self, rows: usize);

    /// Returns the column and resets the builder. Views point into `buffers`.
    fn finish(&mut self, buffers: &[Buffer]) -> Result<ArrayRef, ArrowError>;
}

/// Creates the error for a range outside of `data`. Records are validated when they are parsed, so this is a bug.
#[cold]
fn out_of_bounds(data: &[u8]) -> RecordError {
    RecordError::Beyond { what: "the key, value or header", len: data.len() }
}

/// Tells whether none, some or all of the lengths are null.
enum NullsAmong {
    None,
    Some,
    All,
}

#[inline]
fn nulls_among(lens: &[i32]) -> NullsAmong {
    // By the sign bit, and without branches, so that it is vectorized.
    let (any, all) = lens.iter().fold((0, -1), |(any, all), &len| (any | len, all & len));
    match (any < 0, all < 0) {
        (false, _) => NullsAmong::None,
        (true, false) => NullsAmong::Some,
        (true, true) => NullsAmong::All,
    }
}

/// A validity bitmap that is allocated at the first null.
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

    /// Appends nulls after `before` rows.
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
