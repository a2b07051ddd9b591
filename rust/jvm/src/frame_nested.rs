//! Columns of typed keys and values: a vector, and behind it those of what is within it, in Spark's types.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_buffer::{ArrowNativeType, Buffer};
use arrow_schema::{DataType, TimeUnit};
use samsarrow_spark::typed::SparkType;

use crate::failure::{Failure, Result};
use crate::frame::{DATA, Kept, OFFSETS, Slots, VALIDITY, address, other, slots};

/// How many values a vector within another one has.
const LENGTH: usize = 3;

/// Writes the slots of an array, as Spark wants it: fields by their names, in its order.
///
/// # Errors
/// A time is outside of Spark's.
pub(crate) fn nested(
    array: &ArrayRef,
    kind: &SparkType,
    path: &str,
    kept: &mut Kept,
    out: &mut Vec<u64>,
) -> Result<()> {
    let validity = match array.data_type() {
        DataType::Null => kept.buffer(Buffer::from_vec(vec![0_u8; array.len().div_ceil(8)])),
        _ => kept.validity(array.nulls()),
    };
    let mut put = |more: &[(usize, u64)]| {
        let mut vector: Slots = slots(more);
        vector[VALIDITY] = validity;
        vector[LENGTH] = array.len() as u64;
        out.extend(vector);
    };
    match (array.data_type(), kind) {
        (DataType::Struct(_), SparkType::Struct(fields)) => {
            put(&[]);
            for (name, kind, _) in fields {
                let column = array.as_struct().column_by_name(name).ok_or_else(|| other(path))?;
                nested(column, kind, &format!("{path}.{name}"), kept, out)?;
            }
            Ok(())
        }
        (DataType::List(_), SparkType::Array(item, _)) => {
            let lists = array.as_list::<i32>();
            put(&[(OFFSETS, kept.buffer(lists.offsets().inner().inner().clone()))]);
            nested(lists.values(), item, path, kept, out)
        }
        (DataType::Map(..), SparkType::Map(key, value, _)) => {
            let maps = array.as_map();
            put(&[(OFFSETS, kept.buffer(maps.offsets().inner().inner().clone()))]);
            nested(maps.keys(), key, path, kept, out)?;
            nested(maps.values(), value, path, kept, out)
        }
        (_, SparkType::Plain(_) | SparkType::Decimal(..)) => {
            let (offsets, data) = leaf(array, path, kept)?;
            put(&[(OFFSETS, offsets), (DATA, data)]);
            Ok(())
        }
        _ => Err(other(path)),
    }
}

/// Where offsets, if there are any, and data of an array without parts are.
fn leaf(array: &ArrayRef, path: &str, kept: &mut Kept) -> Result<(u64, u64)> {
    let same = |data: u64, kept: &mut Kept| {
        kept.array(Arc::clone(array));
        Ok((0, data))
    };
    match array.data_type() {
        DataType::Null => Ok((0, 0)),
        DataType::Boolean => {
            let bits = array.as_boolean().values().sliced();
            Ok((0, kept.buffer(bits)))
        }
        DataType::Int8 => same(data::<Int8Type>(array), kept),
        DataType::Int16 => same(data::<Int16Type>(array), kept),
        DataType::Int32 => same(data::<Int32Type>(array), kept),
        DataType::Int64 => same(data::<Int64Type>(array), kept),
        DataType::Float32 => same(data::<Float32Type>(array), kept),
        DataType::Float64 => same(data::<Float64Type>(array), kept),
        DataType::Date32 => same(data::<Date32Type>(array), kept),
        DataType::Time32(TimeUnit::Millisecond) => same(data::<Time32MillisecondType>(array), kept),
        DataType::Time64(TimeUnit::Microsecond) => same(data::<Time64MicrosecondType>(array), kept),
        DataType::Timestamp(TimeUnit::Microsecond, _) => same(data::<TimestampMicrosecondType>(array), kept),
        DataType::Decimal128(..) => same(data::<Decimal128Type>(array), kept),
        DataType::UInt8 => wider::<UInt8Type, _>(array, i16::from, kept),
        DataType::UInt16 => wider::<UInt16Type, _>(array, i32::from, kept),
        DataType::UInt32 => wider::<UInt32Type, _>(array, i64::from, kept),
        DataType::UInt64 => wider::<UInt64Type, _>(array, i128::from, kept),
        // Rounded down, as Spark's own are.
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            wider::<TimestampNanosecondType, _>(array, |time| time.div_euclid(1000), kept)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            micros(array.as_primitive::<TimestampMillisecondType>(), 1000, path, kept)
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            micros(array.as_primitive::<TimestampSecondType>(), 1_000_000, path, kept)
        }
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            let lies = (address(values.value_offsets()), address(values.value_data()));
            kept.array(Arc::clone(array));
            Ok(lies)
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            let lies = (address(values.value_offsets()), address(values.value_data()));
            kept.array(Arc::clone(array));
            Ok(lies)
        }
        DataType::FixedSizeBinary(width) => {
            let values = array.as_fixed_size_binary();
            let offsets = (0..=array.len()).map(|row| i32::try_from(row).ok()?.checked_mul(*width));
            let offsets: Option<Vec<i32>> = offsets.collect();
            let offsets = kept.buffer(Buffer::from_vec(offsets.ok_or_else(|| other(path))?));
            let data = address(values.value_data());
            kept.array(Arc::clone(array));
            Ok((offsets, data))
        }
        _ => Err(other(path)),
    }
}

fn data<T: ArrowPrimitiveType>(array: &ArrayRef) -> u64 {
    address(array.as_primitive::<T>().values())
}

fn wider<T: ArrowPrimitiveType, W: ArrowNativeType>(
    array: &ArrayRef,
    widen: impl Fn(T::Native) -> W,
    kept: &mut Kept,
) -> Result<(u64, u64)> {
    let values: Vec<W> = array.as_primitive::<T>().values().iter().map(|value| widen(*value)).collect();
    Ok((0, kept.buffer(Buffer::from_vec(values))))
}

fn micros<T: ArrowPrimitiveType<Native = i64>>(
    times: &PrimitiveArray<T>,
    unit: i64,
    path: &str,
    kept: &mut Kept,
) -> Result<(u64, u64)> {
    let mut micros = Vec::with_capacity(times.len());
    for (row, time) in times.values().iter().enumerate() {
        micros.push(match time.checked_mul(unit) {
            Some(micros) => micros,
            // What is null has any value.
            None if times.is_null(row) => 0,
            None => {
                return Err(Failure::bad_value(format!("field {path}: the time {time} is outside of Spark's")));
            }
        });
    }
    Ok((0, kept.buffer(Buffer::from_vec(micros))))
}

#[cfg(test)]
#[path = "frame_nested_tests.rs"]
mod tests;
