//! Records without headers, as input of the encoder.
use crate::Piece;

/// A record without headers.
#[derive(Debug, Clone, Copy)]
pub struct PlainRecord<'a> {
    /// Milliseconds since 1970, -1 for none.
    pub timestamp: i64,
    pub key: Option<Piece<'a>>,
    pub value: Option<Piece<'a>>,
}

/// Records whose keys have equal lengths, and whose values have equal lengths. All three slices have the same number of
/// rows.
#[derive(Debug, Clone, Copy)]
pub struct Alike<'a> {
    pub timestamps: &'a [i64],
    /// The concatenated keys, if they are not null.
    pub keys: Option<&'a [u8]>,
    /// The concatenated values.
    pub values: &'a [u8],
}

/// A source of records for [`BatchBuilder::append_run`](super::BatchBuilder::append_run).
pub trait PlainRows {
    /// Returns the record of a row.
    fn record(&self, row: usize) -> PlainRecord<'_>;

    /// Returns up to `most` records from `row` on, if their keys and values are known to have these lengths.
    fn alike(&self, row: usize, most: usize, key_len: Option<usize>, value_len: usize) -> Option<Alike<'_>>;
}

/// Maximum number of records requested from [`PlainRows::alike`].
pub const MOST_ALIKE: usize = 128;
