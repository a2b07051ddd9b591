//! Row buffers that Java fills, converted to Arrow batches for the producer.
//!
//! A row consists of its columns in order. A byte string is written as its length and its bytes, or as −1 for null.
//! Headers are written as their number (−1 for null), followed by the key and the value of each header as byte strings.
//! A number is written as a 1 and the number, or as a 0 for null. Lengths, header counts, ones, zeros and ints have 4
//! bytes and timestamps 8 bytes, in native byte order.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int32Builder, TimestampMicrosecondBuilder};
use arrow_array::{ArrayRef, ListArray, RecordBatch, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Fields, Schema};
use samsarrow_client::error::Error;
use samsarrow_spark::WriteOptions;
use samsarrow_spark::columns::Column;

use crate::failure::{Failure, Result};
use crate::typed_columns::{Encoded, TypedColumns};

/// Topic, and the batch of its rows.
pub(crate) type TopicRows = (Arc<str>, RecordBatch);

/// Minimum size of a row in bytes. Each row contains at least the length of its value.
const MIN_ROW_BYTES: usize = 4;

/// Returns the rows of a buffer grouped by topic. Topics are in the order of their first rows.
///
/// # Errors
/// Fails if the buffer does not contain exactly `rows` rows, if the topic of a row is null, or if a key or value does not
/// fit its schema. No row of the buffer may be sent then.
pub(crate) fn rows_by_topic(
    block: &[u8],
    rows: usize,
    options: &WriteOptions,
    typed: &mut TypedColumns,
) -> Result<Vec<TopicRows>> {
    let invalid =
        || Failure::state(format!("the jar passed a block of {} bytes that does not have {rows} rows", block.len()));
    if rows > block.len() / MIN_ROW_BYTES {
        return Err(invalid());
    }
    let mut cursor = Cursor(block);
    for row in 0..if typed.is_empty() { 0 } else { rows } {
        for column in &options.columns {
            match typed.is_fixed(*column) {
                Some(is_fixed) => {
                    let cell = cursor.cell(is_fixed).ok_or_else(invalid)?;
                    if !typed.append(*column, row, cell)? {
                        return Err(invalid());
                    }
                }
                None => cursor.skip(*column).ok_or_else(invalid)?,
            }
        }
    }
    let arrays = typed.encode(rows)?;
    let mut encoded = arrays.rows();
    let mut cursor = Cursor(block);
    let mut tables = Tables::new(options, rows, block.len());
    for _ in 0..rows {
        tables.add(&mut cursor, &options.columns, typed, &mut encoded).ok_or_else(invalid)?;
    }
    if !cursor.0.is_empty() {
        return Err(invalid());
    }
    let parts = tables.finish(rows, options)?;
    parts.into_iter().map(|(topic, batch)| Ok((topic, typed.with_headers(batch)?))).collect()
}

/// The bytes of a buffer that are not yet read. Reads never pass the end of the buffer.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, remaining) = self.0.split_at_checked(count)?;
        self.0 = remaining;
        Some(taken)
    }

    fn int(&mut self) -> Option<i32> {
        Some(i32::from_ne_bytes(self.take(4)?.try_into().ok()?))
    }

    fn long(&mut self) -> Option<i64> {
        Some(i64::from_ne_bytes(self.take(8)?.try_into().ok()?))
    }

    /// Reads a length or a count. `Some(None)` stands for null, and `None` for malformed bytes.
    fn count(&mut self) -> Option<Option<usize>> {
        match self.int()? {
            -1 => Some(None),
            count => usize::try_from(count).ok().map(Some),
        }
    }

    fn bytes(&mut self) -> Option<Option<&'a [u8]>> {
        match self.count()? {
            None => Some(None),
            Some(length) => self.take(length).map(Some),
        }
    }

    /// Reads a key or value that is encoded: the bytes of a number, or a byte string.
    fn cell(&mut self, is_fixed: bool) -> Option<Option<&'a [u8]>> {
        match is_fixed {
            false => self.bytes(),
            true if self.has_number()? => self.take(8).map(Some),
            true => Some(None),
        }
    }

    /// Skips the value of a column that is not encoded.
    fn skip(&mut self, column: Column) -> Option<()> {
        match column {
            Column::Topic | Column::Key | Column::Value => self.bytes().map(drop),
            Column::Headers => {
                for _ in 0..self.count()?.unwrap_or_default() {
                    self.bytes()?;
                    self.bytes()?;
                }
                Some(())
            }
            Column::Partition => {
                if self.has_number()? {
                    self.take(4).map(drop)
                } else {
                    Some(())
                }
            }
            Column::Timestamp => {
                if self.has_number()? {
                    self.take(8).map(drop)
                } else {
                    Some(())
                }
            }
            Column::Offset | Column::TimestampType => None,
        }
    }

    /// Reads the marker before a number. `Some(false)` stands for null.
    fn has_number(&mut self) -> Option<bool> {
        match self.int()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Rows grouped by topic. Without a topic column, all rows are in the first table.
struct Tables<'a> {
    tables: Vec<Table>,
    topics: Vec<Option<&'a [u8]>>,
    known: HashMap<Option<&'a [u8]>, usize>,
}

impl<'a> Tables<'a> {
    fn new(options: &WriteOptions, rows: usize, bytes: usize) -> Self {
        let first = options.topic.is_some().then(|| Table::new(rows, bytes));
        Self { tables: first.into_iter().collect(), topics: Vec::new(), known: HashMap::new() }
    }

    /// Adds a row. If there is a topic column, it is the first column of the row.
    fn add(
        &mut self,
        cursor: &mut Cursor<'a>,
        columns: &[Column],
        typed: &TypedColumns,
        encoded: &mut Encoded<'_>,
    ) -> Option<()> {
        let (index, columns) = match columns.split_first() {
            Some((Column::Topic, others)) => (self.index(cursor.bytes()?), others),
            _ => (0, columns),
        };
        self.tables.get_mut(index)?.add(cursor, columns, typed, encoded)
    }

    fn index(&mut self, topic: Option<&'a [u8]>) -> usize {
        *self.known.entry(topic).or_insert_with(|| {
            self.tables.push(Table::new(0, 0));
            self.topics.push(topic);
            self.topics.len() - 1
        })
    }

    fn finish(self, rows: usize, options: &WriteOptions) -> Result<Vec<TopicRows>> {
        if let Some(index) = self.known.get(&None) {
            let null = self.tables.get(*index).map_or(0, |table| table.rows);
            return Err(Failure::from(Error::configuration(format!(
                "{null} of {rows} rows have a null topic and were not sent: without the option topic every row needs one"
            ))));
        }
        // Null topics have been rejected above.
        let named = self.topics.iter().map(|topic| String::from_utf8_lossy(topic.unwrap_or_default()).into());
        let topics: Vec<Arc<str>> = match &options.topic {
            Some(topic) => vec![Arc::from(topic.as_str())],
            None => named.collect(),
        };
        let sent: usize = self.tables.iter().map(|table| table.rows).sum();
        if sent != rows || topics.len() != self.tables.len() {
            return Err(Failure::state(format!(
                "{sent} of {rows} rows are in {} tables of {} topics",
                self.tables.len(),
                topics.len()
            )));
        }
        let part = |(topic, table): (Arc<str>, Table)| {
            let batch = table.finish(&options.columns);
            batch.map(|batch| (topic, batch)).map_err(|error| Failure::state(format!("Arrow: {error}")))
        };
        topics.into_iter().zip(self.tables).map(part).collect()
    }
}

/// Column builders for the rows of one topic.
struct Table {
    rows: usize,
    key: BinaryBuilder,
    value: BinaryBuilder,
    headers: Headers,
    partition: Int32Builder,
    timestamp: TimestampMicrosecondBuilder,
}

impl Table {
    fn new(rows: usize, bytes: usize) -> Self {
        Self {
            rows: 0,
            key: BinaryBuilder::new(),
            value: BinaryBuilder::with_capacity(rows, bytes),
            headers: Headers::new(),
            partition: Int32Builder::new(),
            timestamp: TimestampMicrosecondBuilder::new(),
        }
    }

    #[inline]
    fn add(
        &mut self,
        cursor: &mut Cursor<'_>,
        columns: &[Column],
        typed: &TypedColumns,
        encoded: &mut Encoded<'_>,
    ) -> Option<()> {
        for column in columns {
            if let Some(is_fixed) = typed.is_fixed(*column) {
                cursor.cell(is_fixed)?;
                let bytes = encoded.next(*column)?;
                if *column == Column::Key {
                    self.key.append_option(bytes)
                } else {
                    self.value.append_option(bytes)
                }
                continue;
            }
            match column {
                Column::Key => self.key.append_option(cursor.bytes()?),
                Column::Value => self.value.append_option(cursor.bytes()?),
                Column::Headers => self.headers.add(cursor)?,
                Column::Partition => {
                    self.partition.append_option(if cursor.has_number()? { Some(cursor.int()?) } else { None })
                }
                Column::Timestamp => {
                    self.timestamp.append_option(if cursor.has_number()? { Some(cursor.long()?) } else { None });
                }
                Column::Topic | Column::Offset | Column::TimestampType => return None,
            }
        }
        self.rows += 1;
        Some(())
    }

    fn finish(mut self, columns: &[Column]) -> Result<RecordBatch, ArrowError> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::<ArrayRef>::new());
        for column in columns {
            let array: ArrayRef = match column {
                Column::Key => Arc::new(self.key.finish()),
                Column::Value => Arc::new(self.value.finish()),
                Column::Headers => Arc::new(self.headers.finish()?),
                Column::Partition => Arc::new(self.partition.finish()),
                Column::Timestamp => Arc::new(self.timestamp.finish()),
                Column::Topic | Column::Offset | Column::TimestampType => continue,
            };
            fields.push(Field::new(column.name(), array.data_type().clone(), true));
            arrays.push(array);
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
    }
}

/// Builder of the headers column. Each list contains the keys and values of one record's headers.
struct Headers {
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
    keys: BinaryBuilder,
    values: BinaryBuilder,
    count: i32,
}

impl Headers {
    fn new() -> Self {
        let (keys, values) = (BinaryBuilder::new(), BinaryBuilder::new());
        Self { ends: vec![0], nulls: NullBufferBuilder::new(0), keys, values, count: 0 }
    }

    fn add(&mut self, cursor: &mut Cursor<'_>) -> Option<()> {
        let count = cursor.count()?;
        // A null list, like an empty list, has no headers to read.
        for _ in 0..count.unwrap_or_default() {
            // A null header key is rejected later by the batch encoder.
            self.keys.append_option(cursor.bytes()?);
            self.values.append_option(cursor.bytes()?);
            self.count = self.count.checked_add(1)?;
        }
        self.nulls.append(count.is_some());
        self.ends.push(self.count);
        Some(())
    }

    fn finish(&mut self) -> Result<ListArray, ArrowError> {
        let field = |name: &str| Field::new(name, DataType::Binary, true);
        let fields = Fields::from(vec![field("key"), field("value")]);
        let pairs: Vec<ArrayRef> = vec![Arc::new(self.keys.finish()), Arc::new(self.values.finish())];
        let entry = Arc::new(Field::new("element", DataType::Struct(fields.clone()), true));
        let pairs = Arc::new(StructArray::try_new(fields, pairs, None)?);
        ListArray::try_new(
            entry,
            OffsetBuffer::new(ScalarBuffer::from(std::mem::take(&mut self.ends))),
            pairs,
            self.nulls.finish(),
        )
    }
}

#[cfg(test)]
#[path = "row_block_tests.rs"]
mod tests;
