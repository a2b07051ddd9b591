//! Columns of values in the binary format of Spark's `UnsafeRow`, converted to Arrow arrays.
//!
//! A row consists of a bitmap of nulls, in words of 8 bytes, one word for each field, and a part of variable length. The
//! word of a field contains its value or, for values of variable length, an offset in the upper and a size in the lower
//! 32 bits. Offsets count from the first byte of the row. An array consists of the number of its elements, the bitmap,
//! the elements in their own width, and the part of variable length. A map consists of the size of an array in bytes,
//! the array of its keys, and the array of its values. Everything is in native byte order, except for the digits of
//! decimals of more than 18 digits, which are in big-endian order.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Float32Builder, Float64Builder, Int8Builder,
    Int16Builder, Int32Builder, Int64Builder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, ListArray, MapArray, NullArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, TimeUnit};

/// Number of digits up to which a decimal is stored in a word.
const MAX_LONG_DIGITS: u8 = 18;

/// Reason why a value cannot be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The bytes are not in Spark's format.
    Malformed,
    /// A string is not UTF-8. It has the path of the field within the column.
    Utf8(String),
    /// A list has more elements than an Arrow array can have.
    Long,
}

type Step = Result<(), Fault>;

/// Returns true if values of the type are stored in a word, and false if they are byte strings.
pub(crate) fn is_fixed(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::Binary | DataType::Struct(_) | DataType::List(_) | DataType::Map(_, _) => false,
        DataType::Decimal128(precision, _) => *precision <= MAX_LONG_DIGITS,
        _ => true,
    }
}

/// Column under construction.
#[derive(Debug)]
pub(crate) enum Column {
    Null(usize),
    Boolean(BooleanBuilder),
    Byte(Int8Builder),
    Short(Int16Builder),
    Int(Int32Builder),
    Long(Int64Builder),
    Float(Float32Builder),
    Double(Float64Builder),
    Date(Date32Builder),
    Timestamp(TimestampMicrosecondBuilder),
    Decimal(Decimal128Builder, bool),
    Text(StringBuilder),
    Binary(BinaryBuilder),
    Struct(Fields, Vec<Column>, NullBufferBuilder),
    List(FieldRef, Box<Column>, Lengths),
    Map(FieldRef, Fields, Box<[Column; 2]>, Lengths),
}

/// Offsets and nulls of lists.
#[derive(Debug)]
pub(crate) struct Lengths {
    ends: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl Lengths {
    fn new() -> Lengths {
        Lengths { ends: vec![0], nulls: NullBufferBuilder::new(0) }
    }

    fn push(&mut self, length: Option<usize>) -> Step {
        let last = self.ends.last().copied().unwrap_or_default();
        let length = i32::try_from(length.unwrap_or_default()).map_err(|_| Fault::Long)?;
        self.ends.push(last.checked_add(length).ok_or(Fault::Long)?);
        Ok(())
    }

    fn offsets(&mut self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(&mut self.ends, vec![0])))
    }
}

impl Column {
    /// Creates a column of a type that is written. Returns `None` for other types.
    pub(crate) fn new(data_type: &DataType) -> Option<Column> {
        Some(match data_type {
            DataType::Null => Column::Null(0),
            DataType::Boolean => Column::Boolean(BooleanBuilder::new()),
            DataType::Int8 => Column::Byte(Int8Builder::new()),
            DataType::Int16 => Column::Short(Int16Builder::new()),
            DataType::Int32 => Column::Int(Int32Builder::new()),
            DataType::Int64 => Column::Long(Int64Builder::new()),
            DataType::Float32 => Column::Float(Float32Builder::new()),
            DataType::Float64 => Column::Double(Float64Builder::new()),
            DataType::Date32 => Column::Date(Date32Builder::new()),
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                Column::Timestamp(TimestampMicrosecondBuilder::new().with_data_type(data_type.clone()))
            }
            DataType::Decimal128(_, _) => {
                Column::Decimal(Decimal128Builder::new().with_data_type(data_type.clone()), is_fixed(data_type))
            }
            DataType::Utf8 => Column::Text(StringBuilder::new()),
            DataType::Binary => Column::Binary(BinaryBuilder::new()),
            DataType::Struct(fields) => {
                let columns = fields.iter().map(|field| Column::new(field.data_type())).collect::<Option<_>>()?;
                Column::Struct(fields.clone(), columns, NullBufferBuilder::new(0))
            }
            DataType::List(item) => {
                Column::List(Arc::clone(item), Box::new(Column::new(item.data_type())?), Lengths::new())
            }
            DataType::Map(entries, _) => {
                let DataType::Struct(fields) = entries.data_type() else { return None };
                let [key, value] = &fields[..] else { return None };
                let columns = [Column::new(key.data_type())?, Column::new(value.data_type())?];
                Column::Map(Arc::clone(entries), fields.clone(), Box::new(columns), Lengths::new())
            }
            _ => return None,
        })
    }

    /// Appends a value. `cell` contains the word of a type that [`is_fixed`], and the byte string of any other type.
    pub(crate) fn append(&mut self, cell: Option<&[u8]>) -> Step {
        match self {
            Column::Null(rows) => *rows += 1,
            Column::Boolean(builder) => {
                builder.append_option(cell.map(first::<1>).transpose()?.map(|[byte]| byte != 0))
            }
            Column::Byte(builder) => builder.append_option(cell.map(first).transpose()?.map(i8::from_ne_bytes)),
            Column::Short(builder) => builder.append_option(cell.map(first).transpose()?.map(i16::from_ne_bytes)),
            Column::Int(builder) => builder.append_option(cell.map(first).transpose()?.map(i32::from_ne_bytes)),
            Column::Long(builder) => builder.append_option(cell.map(first).transpose()?.map(i64::from_ne_bytes)),
            Column::Float(builder) => builder.append_option(cell.map(first).transpose()?.map(f32::from_ne_bytes)),
            Column::Double(builder) => builder.append_option(cell.map(first).transpose()?.map(f64::from_ne_bytes)),
            Column::Date(builder) => builder.append_option(cell.map(first).transpose()?.map(i32::from_ne_bytes)),
            Column::Timestamp(builder) => builder.append_option(cell.map(first).transpose()?.map(i64::from_ne_bytes)),
            Column::Decimal(builder, is_fixed) => {
                let digits =
                    |cell| if *is_fixed { first(cell).map(|word| i64::from_ne_bytes(word).into()) } else { big(cell) };
                builder.append_option(cell.map(digits).transpose()?);
            }
            Column::Text(builder) => {
                let text = |cell| std::str::from_utf8(cell).map_err(|_| Fault::Utf8(String::new()));
                builder.append_option(cell.map(text).transpose()?);
            }
            Column::Binary(builder) => builder.append_option(cell),
            Column::Struct(fields, columns, nulls) => {
                nulls.append(cell.is_some());
                let count = columns.len();
                for (at, (column, field)) in columns.iter_mut().zip(fields.iter()).enumerate() {
                    let value = match cell {
                        Some(row) => field_of(row, at, count, is_fixed(field.data_type()))?,
                        None => None,
                    };
                    column.append(value).map_err(|fault| below(fault, field.name()))?;
                }
            }
            Column::List(item, column, lengths) => {
                lengths.nulls.append(cell.is_some());
                let count = match cell {
                    Some(array) => Some(append_array(column, item.data_type(), array)?),
                    None => None,
                };
                lengths.push(count)?;
            }
            Column::Map(_, fields, columns, lengths) => {
                lengths.nulls.append(cell.is_some());
                let [keys, values] = &mut **columns;
                let count = match (cell, &fields[..]) {
                    (Some(map), [key, value]) => {
                        let (size, arrays) = map.split_at_checked(8).ok_or(Fault::Malformed)?;
                        let size = usize::try_from(i64::from_ne_bytes(first(size)?)).map_err(|_| Fault::Malformed)?;
                        let (key_array, value_array) = arrays.split_at_checked(size).ok_or(Fault::Malformed)?;
                        let count = append_array(keys, key.data_type(), key_array)?;
                        if append_array(values, value.data_type(), value_array)? != count {
                            return Err(Fault::Malformed);
                        }
                        Some(count)
                    }
                    _ => None,
                };
                lengths.push(count)?;
            }
        }
        Ok(())
    }

    /// Returns the array, and empties the column.
    ///
    /// # Errors
    /// Fails if a value is null that the type does not allow to be null.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Column::Null(rows) => Arc::new(NullArray::new(std::mem::take(rows))),
            Column::Boolean(builder) => Arc::new(builder.finish()),
            Column::Byte(builder) => Arc::new(builder.finish()),
            Column::Short(builder) => Arc::new(builder.finish()),
            Column::Int(builder) => Arc::new(builder.finish()),
            Column::Long(builder) => Arc::new(builder.finish()),
            Column::Float(builder) => Arc::new(builder.finish()),
            Column::Double(builder) => Arc::new(builder.finish()),
            Column::Date(builder) => Arc::new(builder.finish()),
            Column::Timestamp(builder) => Arc::new(builder.finish()),
            Column::Decimal(builder, _) => Arc::new(builder.finish()),
            Column::Text(builder) => Arc::new(builder.finish()),
            Column::Binary(builder) => Arc::new(builder.finish()),
            Column::Struct(fields, columns, nulls) => {
                let rows = nulls.len();
                let arrays = columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new_with_length(fields.clone(), arrays, nulls.finish(), rows)?)
            }
            Column::List(item, column, lengths) => {
                let (offsets, nulls) = (lengths.offsets(), lengths.nulls.finish());
                Arc::new(ListArray::try_new(Arc::clone(item), offsets, column.finish()?, nulls)?)
            }
            Column::Map(entries, fields, columns, lengths) => {
                let (offsets, nulls) = (lengths.offsets(), lengths.nulls.finish());
                let arrays = columns.iter_mut().map(Column::finish).collect::<Result<Vec<_>, _>>()?;
                let pairs = StructArray::try_new(fields.clone(), arrays, None)?;
                let entries: &Arc<Field> = entries;
                Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, false)?)
            }
        })
    }
}

/// Appends the elements of an array. Returns their number.
fn append_array(column: &mut Column, data_type: &DataType, array: &[u8]) -> Result<usize, Fault> {
    let count = usize::try_from(i64::from_ne_bytes(first(array)?)).map_err(|_| Fault::Malformed)?;
    let bitmap = array.get(8..).ok_or(Fault::Malformed)?;
    let width = match data_type {
        DataType::Boolean | DataType::Int8 => 1,
        DataType::Int16 => 2,
        DataType::Int32 | DataType::Float32 | DataType::Date32 => 4,
        _ => 8,
    };
    let start = 8 + bitmap_bytes(count);
    // The number of elements is checked before it is used, because it may be wrong.
    let end = count.checked_mul(width).and_then(|bytes| bytes.checked_add(start));
    if end.is_none_or(|end| end > array.len()) {
        return Err(Fault::Malformed);
    }
    for at in 0..count {
        let element = if is_null(bitmap, at)? {
            None
        } else {
            let from = start + at * width;
            let cell = array.get(from..from + width).ok_or(Fault::Malformed)?;
            Some(if is_fixed(data_type) { cell } else { variable(array, cell)? })
        };
        column.append(element)?;
    }
    Ok(count)
}

/// Returns the value of a field of a row with `count` fields.
fn field_of(row: &[u8], at: usize, count: usize, is_fixed: bool) -> Result<Option<&[u8]>, Fault> {
    if is_null(row, at)? {
        return Ok(None);
    }
    let from = bitmap_bytes(count) + 8 * at;
    let word = row.get(from..from + 8).ok_or(Fault::Malformed)?;
    if is_fixed { Ok(Some(word)) } else { variable(row, word).map(Some) }
}

/// Returns the byte string whose offset and size are in `word`.
fn variable<'a>(container: &'a [u8], word: &[u8]) -> Result<&'a [u8], Fault> {
    let word = u64::from_ne_bytes(first(word)?);
    let (from, size) = ((word >> 32) as usize, (word & 0xffff_ffff) as usize);
    from.checked_add(size).and_then(|end| container.get(from..end)).ok_or(Fault::Malformed)
}

fn bitmap_bytes(count: usize) -> usize {
    count.div_ceil(64) * 8
}

fn is_null(bitmap: &[u8], at: usize) -> Result<bool, Fault> {
    let word = bitmap.get(at / 64 * 8..).ok_or(Fault::Malformed)?;
    Ok(u64::from_ne_bytes(first(word)?) >> (at % 64) & 1 == 1)
}

fn first<const N: usize>(cell: &[u8]) -> Result<[u8; N], Fault> {
    cell.first_chunk::<N>().copied().ok_or(Fault::Malformed)
}

/// Decodes at most 16 big-endian bytes in two's complement.
fn big(cell: &[u8]) -> Result<i128, Fault> {
    let Some(first) = cell.first().filter(|_| cell.len() <= 16) else { return Err(Fault::Malformed) };
    let sign = if *first >= 0x80 { -1 } else { 0 };
    Ok(cell.iter().fold(sign, |number, byte| number << 8 | i128::from(*byte)))
}

/// Returns the fault with the name of the field that contains it.
fn below(fault: Fault, name: &str) -> Fault {
    match fault {
        Fault::Utf8(path) if path.is_empty() => Fault::Utf8(name.to_owned()),
        Fault::Utf8(path) => Fault::Utf8(format!("{name}.{path}")),
        other => other,
    }
}

#[cfg(test)]
#[path = "unsafe_rows_tests.rs"]
mod tests;
