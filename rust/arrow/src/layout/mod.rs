//! How keys and values lie in memory.
pub(crate) mod alike;
pub(crate) mod binary;
pub(crate) mod headers;
pub(crate) mod view;

use arrow_array::ArrayRef;
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_schema::ArrowError;
use samsarrow_wire::batch::RecordError;

use crate::pool::Pool;
pub(crate) use crate::pool::trimmed;
pub use crate::schema::Layout;

/// Where the bytes that are walked lie: which buffer, and where in it they start. Only views care.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    pub(crate) buffer: u32,
    pub(crate) start: u32,
}

/// What comes next, and what is likely to come after that.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Room {
    next: usize,
    all: usize,
}

impl Room {
    pub(crate) fn new(next: usize, ahead: usize) -> Room {
        Room { next, all: next.saturating_add(ahead) }
    }

    pub(crate) fn all(self) -> usize {
        self.all
    }

    /// Room for all of it, if there is none for what comes next.
    pub(crate) fn make<T>(self, column: &mut Vec<T>) {
        if column.capacity() - column.len() < self.next {
            column.reserve_exact(self.all);
        }
    }
}

/// A column of keys or values in the making.
pub(crate) trait ValueColumn: Default + std::fmt::Debug + Send {
    /// The layout that this column has.
    const LAYOUT: Layout;

    /// One whose bytes lie in memory of the pool, if it copies any.
    fn of_pool(_: &Pool) -> Self {
        Self::default()
    }

    /// Makes room for this many rows with this many bytes in all; a hint.
    fn reserve(&mut self, rows: Room, bytes: Room);

    /// Appends for each of `starts` and `lens` that many bytes of `data` from there on; a length of -1 is null. On an
    /// error, which says that they do not lie within it, some may be appended.
    fn push_block(&mut self, data: &[u8], origin: Origin, starts: &[u32], lens: &[i32]) -> Result<(), RecordError>;

    /// Appends nulls.
    fn push_nulls(&mut self, count: usize);

    /// Forgets the rows from number `rows` on.
    fn truncate(&mut self, rows: usize);

    /// Hands the column over and starts anew. `buffers` are what views point into.
    fn finish(&mut self, buffers: &[Buffer]) -> Result<ArrayRef, ArrowError>;
}

/// The error where a value does not lie within `data`. The walk looks at each, so it would be our mistake.
#[cold]
fn beyond(data: &[u8]) -> RecordError {
    RecordError::Beyond { what: "the key, value or header", len: data.len() }
}

/// Whether all, some or none of the lengths stand for null.
enum NullsAmong {
    None,
    Some,
    All,
}

#[inline]
fn nulls_among(lens: &[i32]) -> NullsAmong {
    // By the sign bit; without branches, so that it becomes vector code.
    let (any, all) = lens.iter().fold((0, -1), |(any, all), &len| (any | len, all & len));
    match (any < 0, all < 0) {
        (false, _) => NullsAmong::None,
        (true, false) => NullsAmong::Some,
        (true, true) => NullsAmong::All,
    }
}

/// A validity bitmap that exists only from the first null on.
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

    /// `before`: how many rows there are already.
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
