//! Records without headers, as they are given to be encoded.
use crate::Piece;

/// A record without headers.
#[derive(Debug, Clone, Copy)]
pub struct PlainRecord<'a> {
    /// Milliseconds since 1970, -1 for none.
    pub timestamp: i64,
    /// Its key.
    pub key: Option<Piece<'a>>,
    /// Its value.
    pub value: Option<Piece<'a>>,
}

/// Records whose keys are of one length, as their values are: as many as there is of everything.
#[derive(Debug, Clone, Copy)]
pub struct Alike<'a> {
    /// Their timestamps.
    pub timestamps: &'a [i64],
    /// Their keys, one after the other, if they have keys.
    pub keys: Option<&'a [u8]>,
    /// Their values, one after the other.
    pub values: &'a [u8],
}

/// Where [`BatchBuilder::append_run`](super::BatchBuilder::append_run) takes records from.
pub trait PlainRows {
    /// The record of a row.
    fn record(&self, row: usize) -> PlainRecord<'_>;

    /// The records from `row` on, `most` or fewer, that have keys and values of these lengths. `None` if it is not known.
    fn alike(&self, row: usize, most: usize, key_len: Option<usize>, value_len: usize) -> Option<Alike<'_>>;
}

/// The most records to ask [`PlainRows::alike`] for.
pub const MOST_ALIKE: usize = 128;
