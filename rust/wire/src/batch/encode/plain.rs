//! Records without headers, as input of the encoder.
use crate::ShortBytes;

/// A record without headers.
#[derive(Debug, Clone, Copy)]
pub struct PlainRecord<'a> {
    /// Milliseconds since 1970, -1 for none.
    pub timestamp: i64,
    pub key: Option<ShortBytes<'a>>,
    pub value: Option<ShortBytes<'a>>,
}

/// Records whose keys have equal lengths, and whose values have equal lengths. Each slice contains the same number of
/// rows.
#[derive(Debug, Clone, Copy)]
pub struct EqualLengthRows<'a> {
    pub timestamps: &'a [i64],
    /// The concatenated keys, or `None` if all keys are null.
    pub keys: Option<&'a [u8]>,
    /// The concatenated values.
    pub values: &'a [u8],
}

/// A source of records for [`BatchBuilder::append_run`](super::BatchBuilder::append_run).
pub trait PlainRows {
    /// Returns the record at index `row`.
    fn record(&self, row: usize) -> PlainRecord<'_>;

    /// Returns up to `max_rows` records from `row` on, if the source knows that all their keys have the length
    /// `key_len` and all their values have the length `value_len`. `None` as `key_len` stands for null keys.
    fn equal_length_rows(
        &self,
        row: usize,
        max_rows: usize,
        key_len: Option<usize>,
        value_len: usize,
    ) -> Option<EqualLengthRows<'_>>;
}

/// Maximum number of records requested from [`PlainRows::equal_length_rows`].
pub const MAX_EQUAL_LENGTH_ROWS: usize = 128;
