//! Where the columns of a batch lie, in 64-bit numbers: what Java's vectors read. Nothing here looks at an address: it is
//! those of memory that the frame keeps alive.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use arrow_buffer::{Buffer, NullBuffer};
use samsarrow_client::types::TopicPartition;
use samsarrow_spark::columns::{Column, Served};

use crate::alive::Alive;
use crate::decoded::Decoded;
use crate::failure::{Failure, Result};
use crate::frame_headers::headers;
use crate::frame_nested::nested;

/// Slots before those of columns: rows, number of vectors, and spare ones.
pub const HEAD: usize = 8;
/// Slots of a vector: of a column, or of what is within one, which follow it.
pub const SLOTS: usize = 8;
pub(crate) const VALIDITY: usize = 0;
pub(crate) const OFFSETS: usize = 1;
pub(crate) const DATA: usize = 2;
const CONSTANT: usize = 7;

/// The slots of one column.
pub(crate) type Slots = [u64; SLOTS];

/// A batch as Java sees it.
#[derive(Debug)]
pub struct Frame {
    rows: usize,
    slots: Vec<u64>,
    kept: Kept,
    _alive: Alive,
}

/// What addresses point into.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    arrays: Vec<ArrayRef>,
    buffers: Vec<Buffer>,
}

impl Kept {
    /// The address of a buffer that is kept from now on.
    pub(crate) fn buffer(&mut self, buffer: Buffer) -> u64 {
        let address = address(buffer.as_slice());
        self.buffers.push(buffer);
        address
    }

    /// The address of a bitmap, least significant bit first, whose first bit is of the first row; 0 without nulls.
    pub(crate) fn validity(&mut self, nulls: Option<&NullBuffer>) -> u64 {
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => self.buffer(nulls.inner().sliced()),
            None => 0,
        }
    }

    /// Keeps an array, into which addresses point.
    pub(crate) fn array(&mut self, array: ArrayRef) {
        self.arrays.push(array);
    }

    fn bytes(&self) -> usize {
        let arrays: usize = self.arrays.iter().map(|array| array.get_buffer_memory_size()).sum();
        arrays + self.buffers.iter().map(Buffer::len).sum::<usize>()
    }
}

/// Where `slice` begins.
pub(crate) fn address<T>(slice: &[T]) -> u64 {
    slice.as_ptr() as usize as u64
}

impl Frame {
    /// Of rows of one partition; columns may be none. Java has room for so many vectors.
    ///
    /// # Errors
    /// The batch is not one of a reader's consumer, or Java expects others; or a time is none of Spark's.
    pub(crate) fn new(
        batch: &RecordBatch,
        columns: &[Served],
        decoded: &[Decoded<'_>],
        vectors: usize,
        tp: &TopicPartition,
    ) -> Result<Frame> {
        let rows = batch.num_rows();
        let mut slots = vec![0; HEAD];
        let mut kept = Kept::default();
        for (slot, number) in slots.iter_mut().zip([rows, vectors]) {
            *slot = number as u64;
        }
        for column in columns {
            let of = decoded.iter().find(|one| Some(one.part) == column.part());
            match (column, of) {
                (Served::Column(_), Some(decoded)) => {
                    nested(&decoded.array, decoded.kind, decoded.part.name(), &mut kept, &mut slots)?;
                }
                (Served::Column(column), None) => slots.extend(one(batch, *column, tp, &mut kept)?),
                (Served::Raw(part), _) => slots.extend(bytes(batch, part.name(), &mut kept)?),
                (Served::Error(part), _) => {
                    let errors = of.and_then(|decoded| decoded.errors.as_ref()).ok_or_else(|| other(part.name()))?;
                    slots.extend(text(errors, &mut kept));
                }
            }
        }
        if slots.len() != HEAD + SLOTS * vectors {
            let found = slots.len().saturating_sub(HEAD) / SLOTS;
            return Err(Failure::state(format!("the jar has room for {vectors} vectors, and there are {found}")));
        }
        let _alive = Alive::new(kept.bytes());
        Ok(Frame { rows, slots, kept, _alive })
    }

    /// How many rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// What is written to Java's memory.
    pub fn slots(&self) -> &[u64] {
        &self.slots
    }

    /// Bytes that are kept for it.
    pub fn bytes(&self) -> usize {
        self.kept.bytes()
    }
}

fn one(batch: &RecordBatch, column: Column, tp: &TopicPartition, kept: &mut Kept) -> Result<Slots> {
    match column {
        Column::Key => bytes(batch, "key", kept),
        Column::Value => bytes(batch, "value", kept),
        Column::Topic => Ok(topic(&tp.topic, kept)),
        Column::Partition => Ok(constant(kept.buffer(Buffer::from_vec(vec![tp.partition])))),
        Column::Offset => {
            let array = array(batch, "offset", kept)?;
            let offsets = array.as_primitive_opt::<Int64Type>().ok_or_else(|| other("offset"))?;
            Ok(slots(&[(DATA, address(offsets.values()))]))
        }
        Column::Timestamp => {
            let array = array(batch, "timestamp", kept)?;
            let times = array.as_primitive_opt::<TimestampMillisecondType>().ok_or_else(|| other("timestamp"))?;
            // Spark's are microseconds. What does not fit is what no clock says.
            let micros: Vec<i64> = times.values().iter().map(|time| time.saturating_mul(1000)).collect();
            let data = kept.buffer(Buffer::from_vec(micros));
            Ok(slots(&[(VALIDITY, kept.validity(times.nulls())), (DATA, data)]))
        }
        Column::TimestampType => timestamp_type(batch, kept),
        Column::Headers => headers(&array(batch, "headers", kept)?, kept),
    }
}

fn bytes(batch: &RecordBatch, name: &str, kept: &mut Kept) -> Result<Slots> {
    let array = array(batch, name, kept)?;
    let values = array.as_binary_opt::<i32>().ok_or_else(|| other(name))?;
    let validity = kept.validity(values.nulls());
    Ok(slots(&[(VALIDITY, validity), (OFFSETS, address(values.value_offsets())), (DATA, address(values.value_data()))]))
}

fn text(values: &StringArray, kept: &mut Kept) -> Slots {
    kept.arrays.push(Arc::new(values.clone()));
    let validity = kept.validity(values.nulls());
    slots(&[(VALIDITY, validity), (OFFSETS, address(values.value_offsets())), (DATA, address(values.value_data()))])
}

fn topic(name: &str, kept: &mut Kept) -> Slots {
    let end = i32::try_from(name.len()).unwrap_or(i32::MAX);
    let offsets = kept.buffer(Buffer::from_vec(vec![0, end]));
    let data = kept.buffer(Buffer::from(name.as_bytes()));
    slots(&[(OFFSETS, offsets), (DATA, data), (CONSTANT, 1)])
}

/// Constant where all rows have the same, as those of a topic do that nobody reconfigured.
fn timestamp_type(batch: &RecordBatch, kept: &mut Kept) -> Result<Slots> {
    let array = array(batch, "timestamp_type", kept)?;
    let types = array.as_primitive_opt::<Int8Type>().ok_or_else(|| other("timestamp_type"))?;
    let first = types.values().first().copied().unwrap_or_default();
    if types.null_count() == 0 && types.values().iter().all(|one| *one == first) {
        return Ok(constant(kept.buffer(Buffer::from_vec(vec![i32::from(first)]))));
    }
    let wide: Vec<i32> = types.values().iter().map(|one| i32::from(*one)).collect();
    let data = kept.buffer(Buffer::from_vec(wide));
    Ok(slots(&[(VALIDITY, kept.validity(types.nulls())), (DATA, data)]))
}

fn constant(data: u64) -> Slots {
    slots(&[(DATA, data), (CONSTANT, 1)])
}

/// Slots by their numbers; the others are 0.
pub(crate) fn slots(given: &[(usize, u64)]) -> Slots {
    let mut slots = Slots::default();
    for (index, value) in given {
        if let Some(slot) = slots.get_mut(*index) {
            *slot = *value;
        }
    }
    slots
}

fn array(batch: &RecordBatch, name: &str, kept: &mut Kept) -> Result<ArrayRef> {
    let array = batch.column_by_name(name).ok_or_else(|| other(name))?;
    kept.arrays.push(Arc::clone(array));
    Ok(Arc::clone(array))
}

pub(crate) fn other(name: &str) -> Failure {
    Failure::state(format!("the decoder gave no column {name} of the type that Spark is to see"))
}
