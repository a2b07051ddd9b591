//! Access to the rows of an Arrow batch as Kafka records.
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowTimestampType, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, Int32Array, Int64Array, LargeBinaryArray, RecordBatch};
use arrow_schema::{DataType, TimeUnit};
use samsarrow_wire::batch::{
    self, Append, BatchBuilder, EqualLengthRows, LegacyBuilder, MAX_EQUAL_LENGTH_ROWS, PlainRecord,
};

use super::bytes::BytesColumn;
use super::error::{EncodeError, check_unique, no_such_column, wrong_type};
use super::headers::{HeaderRow, HeadersReader};

/// Names of the columns by role. For `key`, `value` and `headers`, `None` selects the column with the name of the role,
/// if it exists. `None` for `partition` or `timestamp` selects no column, because in consumed data these columns
/// describe the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns {
    /// Name of the key column. Its type is any binary or string type, or a dictionary of them.
    pub key: Option<String>,
    /// Name of the value column, with the same types as the key. Without a value column, all values are null.
    pub value: Option<String>,
    /// Name of the headers column. Its type is a list of structs (key, value), or a map.
    pub headers: Option<String>,
    /// Name of the partition column, which contains integers. For null, the partitioner chooses the partition.
    pub partition: Option<String>,
    /// Name of the timestamp column. Its type is a timestamp of any unit, or integers in milliseconds. Null is replaced
    /// by the default timestamp.
    pub timestamp: Option<String>,
}

/// Size in bytes of the varints in a short record, rounded up to include its share of the batch header.
const NUMBERS: usize = 11;

/// Reads the rows of an Arrow batch as Kafka records, without copying keys and values.
#[derive(Debug)]
pub struct RowReader {
    rows: usize,
    pub(super) key: BytesColumn,
    pub(super) value: BytesColumn,
    pub(super) headers: Option<HeadersReader>,
    partition: Option<Int32Array>,
    timestamp: Option<Int64Array>,
}

impl RowReader {
    /// Finds the columns, and checks their types and values.
    pub fn new(data: &RecordBatch, columns: &Columns) -> Result<RowReader, EncodeError> {
        let value = find(data, "value", columns.value.as_deref().or(Some("value")), false)?;
        let value = value.map_or(Ok(BytesColumn::Null), |(name, array)| BytesColumn::new("value", name, array))?;
        Self::with(data, columns, value)
    }

    /// Creates a reader that takes the record values from `values` instead of a column. `values` has as many rows as
    /// `data`; if it is `None`, all record values are null.
    pub fn with_values(
        data: &RecordBatch,
        columns: &Columns,
        values: Option<LargeBinaryArray>,
    ) -> Result<RowReader, EncodeError> {
        Self::with(data, columns, values.map_or(BytesColumn::Null, BytesColumn::LargeBinary))
    }

    fn with(data: &RecordBatch, columns: &Columns, value: BytesColumn) -> Result<RowReader, EncodeError> {
        let key = find(data, "key", columns.key.as_deref(), true)?;
        let headers = find(data, "headers", columns.headers.as_deref(), true)?;
        let partition = find(data, "partition", columns.partition.as_deref(), false)?;
        let timestamp = find(data, "timestamp", columns.timestamp.as_deref(), false)?;
        Ok(RowReader {
            rows: data.num_rows(),
            key: key.map_or(Ok(BytesColumn::Null), |(name, array)| BytesColumn::new("key", name, array))?,
            value,
            headers: headers.map(|(name, array)| HeadersReader::new(name, array)).transpose()?,
            partition: partition.map(|(name, array)| partitions(name, array)).transpose()?,
            timestamp: timestamp.map(|(name, array)| timestamps(name, array)).transpose()?,
        })
    }

    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the key of a row, or `None` if the row has no key.
    #[inline]
    pub fn key(&self, row: usize) -> Option<&[u8]> {
        self.key.get(row)
    }

    /// Returns the value of a row.
    #[inline]
    pub fn value(&self, row: usize) -> Option<&[u8]> {
        self.value.get(row)
    }

    /// Returns the headers of a row, in order.
    #[inline]
    pub fn headers(&self, row: usize) -> HeaderRow<'_> {
        self.headers.as_ref().map_or_else(HeaderRow::default, |headers| headers.get(row))
    }

    /// Returns the partition of a row, if it has one.
    #[inline]
    pub fn partition(&self, row: usize) -> Option<i32> {
        self.partition.as_ref().filter(|p| row < p.len() && p.is_valid(row)).map(|p| p.value(row))
    }

    /// Returns the largest partition in the partition column.
    pub fn largest_partition(&self) -> Option<i32> {
        self.partition.as_ref()?.iter().flatten().max()
    }

    /// Returns true if the data has a partition column.
    pub fn has_partition(&self) -> bool {
        self.partition.is_some()
    }

    /// Returns true if at least one row may have a key.
    pub fn has_key(&self) -> bool {
        !matches!(self.key, BytesColumn::Null)
    }

    /// Returns the timestamp of a row in milliseconds, if it has one.
    #[inline]
    pub fn timestamp(&self, row: usize) -> Option<i64> {
        self.timestamp.as_ref().filter(|t| row < t.len() && t.is_valid(row)).map(|t| t.value(row))
    }

    /// Returns up to `max_rows` consecutive rows, starting at `row`, whose keys and values have the given lengths, if
    /// their bytes are contiguous.
    pub(super) fn equal_length_rows<'a>(
        &'a self,
        row: usize,
        max_rows: usize,
        key_len: Option<usize>,
        value_len: usize,
        default_timestamps: &'a [i64; MAX_EQUAL_LENGTH_ROWS],
    ) -> Option<EqualLengthRows<'a>> {
        let timestamps = match &self.timestamp {
            None => default_timestamps.get(..max_rows)?,
            Some(column) if column.null_count() > 0 => return None,
            Some(column) => column.values().get(row..row.saturating_add(max_rows).min(column.len()))?,
        };
        let keys = match (key_len, &self.key) {
            (None, BytesColumn::Null) => None,
            // The first row has no key, but later rows may have keys, so the general encoder must be used.
            (None, _) => return None,
            (Some(len), column) => Some(column.equal_length_rows(row, max_rows, len)?),
        };
        Some(EqualLengthRows { timestamps, keys, values: self.value.equal_length_rows(row, max_rows, value_len)? })
    }

    /// Returns the approximate size of all rows as encoded records, if it is known without iterating over them.
    pub fn record_bytes(&self) -> Option<usize> {
        let bytes = self.key.bytes()?.checked_add(self.value.bytes()?)?;
        self.headers.is_none().then(|| bytes.saturating_add(self.rows.saturating_mul(NUMBERS)))
    }

    /// Returns the total size of key and value of each row, saturating at 32 bits.
    pub fn lengths(&self) -> Vec<u32> {
        let mut lengths = vec![0; self.rows];
        self.key.add_lengths(&mut lengths);
        self.value.add_lengths(&mut lengths);
        lengths
    }

    /// Returns true if the data has a headers column.
    pub fn has_headers(&self) -> bool {
        self.headers.is_some()
    }

    /// Returns the record of a row, without headers.
    #[inline(always)]
    pub(super) fn plain(&self, row: usize, default_timestamp: i64) -> PlainRecord<'_> {
        PlainRecord {
            timestamp: self.timestamp(row).unwrap_or(default_timestamp),
            key: self.key.short_bytes(row),
            value: self.value.short_bytes(row),
        }
    }

    /// Appends a row to `builder`. If the row has no timestamp, `default_timestamp` is written.
    #[inline]
    pub fn append_to(
        &self,
        builder: &mut BatchBuilder,
        row: usize,
        default_timestamp: i64,
    ) -> Result<Append, batch::EncodeError> {
        let timestamp = self.timestamp(row).unwrap_or(default_timestamp);
        match &self.headers {
            None => builder.append_short_bytes(
                timestamp,
                self.key.short_bytes(row),
                self.value.short_bytes(row),
                std::iter::empty(),
            ),
            Some(headers) => builder.append_short_bytes(
                timestamp,
                self.key.short_bytes(row),
                self.value.short_bytes(row),
                headers.get(row),
            ),
        }
    }
}

impl RowReader {
    /// Like [`append_to`](Self::append_to), but for formats v0 and v1.
    pub fn append_to_legacy(
        &self,
        builder: &mut LegacyBuilder,
        row: usize,
        default_timestamp: i64,
    ) -> Result<Append, batch::EncodeError> {
        let timestamp = self.timestamp(row).unwrap_or(default_timestamp);
        builder.append(timestamp, self.key(row), self.value(row), self.headers(row))
    }
}

/// Finds the column for `role`: the column `name` or, if `name` is `None` and `implied` is true, the column with the
/// name of the role.
fn find<'a>(
    data: &'a RecordBatch,
    role: &'static str,
    name: Option<&'a str>,
    implied: bool,
) -> Result<Option<(&'a str, &'a ArrayRef)>, EncodeError> {
    if name.is_some() || implied {
        check_unique(data, role, name.unwrap_or(role))?;
    }
    let Some(name) = name else {
        return Ok(if implied { data.column_by_name(role).map(|array| (role, array)) } else { None });
    };
    let array = data.column_by_name(name).ok_or_else(|| no_such_column(data, role, name))?;
    Ok(Some((name, array)))
}

fn partitions(name: &str, array: &ArrayRef) -> Result<Int32Array, EncodeError> {
    let numbers = match array.data_type() {
        DataType::Null => return Ok(Int32Array::new_null(array.len())),
        DataType::Int8 => integers::<Int8Type>(array),
        DataType::Int16 => integers::<Int16Type>(array),
        DataType::Int32 => integers::<Int32Type>(array),
        DataType::Int64 => integers::<Int64Type>(array),
        DataType::UInt8 => integers::<UInt8Type>(array),
        DataType::UInt16 => integers::<UInt16Type>(array),
        DataType::UInt32 => integers::<UInt32Type>(array),
        DataType::UInt64 => integers::<UInt64Type>(array),
        _ => return Err(wrong_type("partition", name, array, "an integer")),
    };
    numbers
        .enumerate()
        .map(|(row, number)| {
            number
                .map(|n| {
                    i32::try_from(n).ok().filter(|&n| n >= 0).ok_or_else(|| EncodeError::Row {
                        row,
                        what: format!("partition {n} is out of range (0 to {})", i32::MAX),
                    })
                })
                .transpose()
        })
        .collect()
}

type Integers<'a> = Box<dyn Iterator<Item = Option<i128>> + 'a>;

fn integers<T: ArrowPrimitiveType>(array: &ArrayRef) -> Integers<'_>
where
    T::Native: Into<i128>,
{
    Box::new(array.as_primitive::<T>().iter().map(|n| n.map(Into::into)))
}

/// Value that Kafka stores for a record without a timestamp.
const NO_TIMESTAMP: i64 = -1;

fn timestamps(name: &str, array: &ArrayRef) -> Result<Int64Array, EncodeError> {
    let millis = match array.data_type() {
        DataType::Null => Int64Array::new_null(array.len()),
        DataType::Int64 => array.as_primitive::<Int64Type>().clone(),
        DataType::Timestamp(TimeUnit::Second, _) => scaled::<TimestampSecondType>(array, |t| t.checked_mul(1000))?,
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            let array = array.as_primitive::<TimestampMillisecondType>();
            Int64Array::try_new(array.values().clone(), array.nulls().cloned())?
        }
        DataType::Timestamp(TimeUnit::Microsecond, _) => {
            scaled::<TimestampMicrosecondType>(array, |t| Some(t.div_euclid(1000)))?
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            scaled::<TimestampNanosecondType>(array, |t| Some(t.div_euclid(1_000_000)))?
        }
        _ => return Err(wrong_type("timestamp", name, array, "a timestamp, or int64 in milliseconds")),
    };
    // The usual case, checked in a single pass: no timestamp is negative.
    if millis.null_count() == 0 && millis.values().iter().fold(0, |all, t| all | t) >= 0 {
        return Ok(millis);
    }
    // Kafka writes a missing timestamp as -1, so -1 is valid in columns of milliseconds. In columns with a finer unit,
    // -1 ms is the result of rounding a time before 1970, and in columns of seconds it cannot occur.
    let exact = matches!(array.data_type(), DataType::Int64 | DataType::Timestamp(TimeUnit::Millisecond, _));
    let first = if exact { NO_TIMESTAMP } else { 0 };
    if let Some(row) = millis.iter().position(|t| t.is_some_and(|t| t < first)) {
        let what = format!("timestamp {} ms is before 1970, which Kafka cannot store", millis.value(row));
        return Err(EncodeError::Row { row, what });
    }
    Ok(millis)
}

fn scaled<T: ArrowTimestampType>(
    array: &ArrayRef,
    to_millis: fn(i64) -> Option<i64>,
) -> Result<Int64Array, EncodeError> {
    array
        .as_primitive::<T>()
        .iter()
        .enumerate()
        .map(|(row, t)| {
            t.map(|t| {
                to_millis(t)
                    .ok_or_else(|| EncodeError::Row { row, what: format!("timestamp {t} does not fit milliseconds") })
            })
            .transpose()
        })
        .collect()
}
