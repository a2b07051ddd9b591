//! Encoding of many rows per call.
use arrow_array::Array;
use samsarrow_wire::batch::{
    self, Append, BatchBuilder, EqualLengthRows, MAX_EQUAL_LENGTH_ROWS, PlainRecord, PlainRows,
};

use super::bytes::{BytesColumn, short_bytes};
use super::rows::RowReader;

impl RowReader {
    /// Appends rows to `builder` until it is full, and returns the number of appended rows.
    #[inline]
    pub fn append_run(
        &self,
        builder: &mut BatchBuilder,
        rows: std::ops::Range<usize>,
        default_timestamp: i64,
    ) -> Result<usize, batch::EncodeError> {
        if self.headers.is_some() {
            return self.append_each(builder, rows, default_timestamp);
        }
        // The most frequent case: values without keys. The loop only reads the value column.
        if let (BytesColumn::Null, BytesColumn::Binary(values)) = (&self.key, &self.value)
            && values.null_count() == 0
            && rows.end <= values.len()
        {
            let record = |row| PlainRecord {
                timestamp: self.timestamp(row).unwrap_or(default_timestamp),
                key: None,
                value: short_bytes(values, row),
            };
            return builder.append_run(&InOrder::new(self, default_timestamp, record), rows);
        }
        let record = |row| self.plain(row, default_timestamp);
        builder.append_run(&InOrder::new(self, default_timestamp, record), rows)
    }

    /// Appends the rows with the indices in `picked` until `builder` is full, and returns the number of appended rows.
    pub fn append_picked(
        &self,
        builder: &mut BatchBuilder,
        picked: &[u32],
        default_timestamp: i64,
    ) -> Result<usize, batch::EncodeError> {
        if self.headers.is_some() {
            return self.append_each(builder, picked.iter().map(|row| *row as usize), default_timestamp);
        }
        builder.append_run(&Picked { rows: self, picked, default_timestamp }, 0..picked.len())
    }

    fn append_each(
        &self,
        builder: &mut BatchBuilder,
        rows: impl Iterator<Item = usize>,
        default_timestamp: i64,
    ) -> Result<usize, batch::EncodeError> {
        let mut taken = 0;
        for row in rows {
            if self.append_to(builder, row, default_timestamp)? == Append::Full {
                break;
            }
            taken += 1;
        }
        Ok(taken)
    }
}

/// Consecutive rows. The closure `record` is specialized for the types of the columns.
pub(super) struct InOrder<'a, F> {
    rows: &'a RowReader,
    record: F,
    /// Timestamps used if there is no timestamp column.
    defaults: [i64; MAX_EQUAL_LENGTH_ROWS],
}

impl<'a, F: Fn(usize) -> PlainRecord<'a>> InOrder<'a, F> {
    pub(super) fn new(rows: &'a RowReader, default_timestamp: i64, record: F) -> Self {
        InOrder { rows, record, defaults: [default_timestamp; MAX_EQUAL_LENGTH_ROWS] }
    }
}

impl<'a, F: Fn(usize) -> PlainRecord<'a>> PlainRows for InOrder<'a, F> {
    #[inline(always)]
    fn record(&self, row: usize) -> PlainRecord<'_> {
        (self.record)(row)
    }

    fn equal_length_rows(
        &self,
        row: usize,
        max_rows: usize,
        key_len: Option<usize>,
        value_len: usize,
    ) -> Option<EqualLengthRows<'_>> {
        self.rows.equal_length_rows(row, max_rows, key_len, value_len, &self.defaults)
    }
}

/// Rows selected by their indices.
pub(super) struct Picked<'a> {
    pub(super) rows: &'a RowReader,
    pub(super) picked: &'a [u32],
    pub(super) default_timestamp: i64,
}

impl PlainRows for Picked<'_> {
    #[inline(always)]
    fn record(&self, index: usize) -> PlainRecord<'_> {
        // `index` is always in range. Otherwise the row would be encoded with null key and value.
        let row = self.picked.get(index).map_or(usize::MAX, |row| *row as usize);
        self.rows.plain(row, self.default_timestamp)
    }

    /// Always `None`, because the bytes of selected rows are not contiguous.
    fn equal_length_rows(&self, _: usize, _: usize, _: Option<usize>, _: usize) -> Option<EqualLengthRows<'_>> {
        None
    }
}
