//! Layout of the columns of a batch, as 64-bit slots that Java's vectors read. This module computes addresses of memory
//! that the layout retains, but never dereferences them.

mod headers;
mod nested;

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_buffer::{Buffer, NullBuffer};
use samsarrow_client::types::TopicPartition;
use samsarrow_spark::columns::{Column, OutputColumn};

use crate::failure::{Failure, Result, wrong_column};
use crate::leak_counters::TrackedMemory;
use crate::value_decoding::DecodedColumn;

use headers::headers;
use nested::nested;

/// Number of header slots, which precede the slots of the vectors. The first two contain the number of rows and the
/// number of vectors; the remaining header slots are unused.
pub const HEAD: usize = 8;
/// Number of slots per vector. The slots of nested vectors follow those of their parent.
pub const SLOTS: usize = 8;
pub(crate) const VALIDITY: usize = 0;
pub(crate) const OFFSETS: usize = 1;
pub(crate) const DATA: usize = 2;
const CONSTANT: usize = 7;

/// Slots of one vector.
pub(crate) type Slots = [u64; SLOTS];

/// Addresses of a batch, as Java reads them, and the memory that they point to.
#[derive(Debug)]
pub struct ColumnLayout {
    rows: usize,
    slots: Vec<u64>,
    retained: Retained,
    _tracked: TrackedMemory,
}

/// Memory to which the addresses of a layout point.
#[derive(Debug, Default)]
pub(crate) struct Retained {
    arrays: Vec<ArrayRef>,
    buffers: Vec<Buffer>,
}

impl Retained {
    /// Retains a buffer and returns the buffer's address.
    pub(crate) fn buffer(&mut self, buffer: Buffer) -> u64 {
        let address = address(buffer.as_slice());
        self.buffers.push(buffer);
        address
    }

    /// Returns the address of a validity bitmap whose first bit belongs to the first row. The least significant bit of
    /// each byte comes first. Returns 0 if no row is null.
    pub(crate) fn validity(&mut self, nulls: Option<&NullBuffer>) -> u64 {
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => self.buffer(nulls.inner().sliced()),
            None => 0,
        }
    }

    /// Retains an array, so that addresses may point to its memory.
    pub(crate) fn array(&mut self, array: ArrayRef) {
        self.arrays.push(array);
    }

    fn bytes(&self) -> usize {
        let arrays: usize = self.arrays.iter().map(|array| array.get_buffer_memory_size()).sum();
        arrays + self.buffers.iter().map(Buffer::len).sum::<usize>()
    }
}

/// Returns the address of a slice.
pub(crate) fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr() as usize as u64
}

impl ColumnLayout {
    /// Creates the layout of rows of one partition. `columns` may be empty. `vectors` is the number of vectors for
    /// which Java has allocated slots.
    ///
    /// # Errors
    /// Fails if the batch does not have the requested columns, if the number of vectors differs from Java's, or if a
    /// timestamp is outside of Spark's range.
    pub(crate) fn new(
        batch: &RecordBatch,
        columns: &[OutputColumn],
        decoded: &[DecodedColumn<'_>],
        vectors: usize,
        tp: &TopicPartition,
    ) -> Result<ColumnLayout> {
        let rows = batch.num_rows();
        let mut slots = vec![0; HEAD];
        let mut retained = Retained::default();
        for (slot, number) in slots.iter_mut().zip([rows, vectors]) {
            *slot = number as u64;
        }
        for column in columns {
            let typed = decoded.iter().find(|decoded| Some(decoded.part) == column.part());
            match (column, typed) {
                (OutputColumn::Column(_), Some(decoded)) => {
                    nested(&decoded.array, decoded.kind, decoded.part.name(), &mut retained, &mut slots)?;
                }
                (OutputColumn::Column(column), None) => {
                    slots.extend(connector_column(batch, *column, tp, &mut retained)?)
                }
                (OutputColumn::Raw(part), _) => slots.extend(bytes(batch, part.name(), &mut retained)?),
                (OutputColumn::Error(part), _) => {
                    let errors =
                        typed.and_then(|decoded| decoded.errors.as_ref()).ok_or_else(|| wrong_column(part.name()))?;
                    slots.extend(text(errors, &mut retained));
                }
            }
        }
        if slots.len() != HEAD + SLOTS * vectors {
            let found = slots.len().saturating_sub(HEAD) / SLOTS;
            return Err(Failure::state(format!("the jar expects {vectors} vectors, but the columns have {found}")));
        }
        let _tracked = TrackedMemory::new(retained.bytes());
        Ok(ColumnLayout { rows, slots, retained, _tracked })
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the slots to copy to Java's memory.
    pub fn slots(&self) -> &[u64] {
        &self.slots
    }

    /// Returns the size of the retained memory, in bytes.
    pub fn bytes(&self) -> usize {
        self.retained.bytes()
    }
}

fn connector_column(
    batch: &RecordBatch,
    column: Column,
    tp: &TopicPartition,
    retained: &mut Retained,
) -> Result<Slots> {
    match column {
        Column::Key => bytes(batch, "key", retained),
        Column::Value => bytes(batch, "value", retained),
        Column::Topic => Ok(topic(&tp.topic, retained)),
        Column::Partition => Ok(constant(retained.buffer(Buffer::from_vec(vec![tp.partition])))),
        Column::Offset => {
            let array = array(batch, "offset", retained)?;
            let offsets = array.as_primitive_opt::<Int64Type>().ok_or_else(|| wrong_column("offset"))?;
            Ok(slots(&[(DATA, address(offsets.values()))]))
        }
        Column::Timestamp => {
            let array = array(batch, "timestamp", retained)?;
            let times =
                array.as_primitive_opt::<TimestampMillisecondType>().ok_or_else(|| wrong_column("timestamp"))?;
            // Converts milliseconds to Spark's microseconds. A timestamp that would overflow becomes the maximum.
            let micros: Vec<i64> = times.values().iter().map(|time| time.saturating_mul(1000)).collect();
            let data = retained.buffer(Buffer::from_vec(micros));
            Ok(slots(&[(VALIDITY, retained.validity(times.nulls())), (DATA, data)]))
        }
        Column::TimestampType => timestamp_type(batch, retained),
        Column::Headers => headers(&array(batch, "headers", retained)?, retained),
    }
}

fn bytes(batch: &RecordBatch, name: &str, retained: &mut Retained) -> Result<Slots> {
    let array = array(batch, name, retained)?;
    let values = array.as_binary_opt::<i32>().ok_or_else(|| wrong_column(name))?;
    let validity = retained.validity(values.nulls());
    Ok(slots(&[(VALIDITY, validity), (OFFSETS, address(values.value_offsets())), (DATA, address(values.value_data()))]))
}

fn text(values: &StringArray, retained: &mut Retained) -> Slots {
    retained.arrays.push(Arc::new(values.clone()));
    let validity = retained.validity(values.nulls());
    slots(&[(VALIDITY, validity), (OFFSETS, address(values.value_offsets())), (DATA, address(values.value_data()))])
}

fn topic(name: &str, retained: &mut Retained) -> Slots {
    let end = i32::try_from(name.len()).unwrap_or(i32::MAX);
    let offsets = retained.buffer(Buffer::from_vec(vec![0, end]));
    let data = retained.buffer(Buffer::from(name.as_bytes()));
    slots(&[(OFFSETS, offsets), (DATA, data), (CONSTANT, 1)])
}

/// Returns the slots of the timestamp types. The vector is constant if all rows have the same type, as in topics whose
/// `message.timestamp.type` never changed.
fn timestamp_type(batch: &RecordBatch, retained: &mut Retained) -> Result<Slots> {
    let array = array(batch, "timestamp_type", retained)?;
    let types = array.as_primitive_opt::<Int8Type>().ok_or_else(|| wrong_column("timestamp_type"))?;
    let first = types.values().first().copied().unwrap_or_default();
    if types.null_count() == 0 && types.values().iter().all(|kind| *kind == first) {
        return Ok(constant(retained.buffer(Buffer::from_vec(vec![i32::from(first)]))));
    }
    let wide: Vec<i32> = types.values().iter().map(|kind| i32::from(*kind)).collect();
    let data = retained.buffer(Buffer::from_vec(wide));
    Ok(slots(&[(VALIDITY, retained.validity(types.nulls())), (DATA, data)]))
}

fn constant(data: u64) -> Slots {
    slots(&[(DATA, data), (CONSTANT, 1)])
}

/// Returns slots with these values at these indexes. All other slots are 0.
pub(crate) fn slots(values: &[(usize, u64)]) -> Slots {
    let mut slots = Slots::default();
    for (index, value) in values {
        if let Some(slot) = slots.get_mut(*index) {
            *slot = *value;
        }
    }
    slots
}

fn array(batch: &RecordBatch, name: &str, retained: &mut Retained) -> Result<ArrayRef> {
    let array = batch.column_by_name(name).ok_or_else(|| wrong_column(name))?;
    retained.arrays.push(Arc::clone(array));
    Ok(Arc::clone(array))
}
