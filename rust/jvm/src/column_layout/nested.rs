//! Layout of typed keys and values in Spark's types. The slots of nested vectors follow the slots of their parent.

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

use super::{DATA, OFFSETS, Retained, Slots, VALIDITY, address, slots};
use crate::failure::{Failure, Result, wrong_column};

/// Index of the slot with the number of values of a nested vector.
const LENGTH: usize = 3;

/// Appends the slots of an array, in the structure of the Spark type. Fields are matched by name.
///
/// # Errors
/// Fails if a timestamp is outside of Spark's range.
pub(crate) fn nested(
    array: &ArrayRef,
    kind: &SparkType,
    path: &str,
    retained: &mut Retained,
    out: &mut Vec<u64>,
) -> Result<()> {
    let validity = match array.data_type() {
        DataType::Null => retained.buffer(Buffer::from_vec(vec![0_u8; array.len().div_ceil(8)])),
        _ => retained.validity(array.nulls()),
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
                let column = array.as_struct().column_by_name(name).ok_or_else(|| wrong_column(path))?;
                nested(column, kind, &format!("{path}.{name}"), retained, out)?;
            }
            Ok(())
        }
        (DataType::List(_), SparkType::Array(item, _)) => {
            let lists = array.as_list::<i32>();
            put(&[(OFFSETS, retained.buffer(lists.offsets().inner().inner().clone()))]);
            nested(lists.values(), item, path, retained, out)
        }
        (DataType::Map(..), SparkType::Map(key, value, _)) => {
            let maps = array.as_map();
            put(&[(OFFSETS, retained.buffer(maps.offsets().inner().inner().clone()))]);
            nested(maps.keys(), key, path, retained, out)?;
            nested(maps.values(), value, path, retained, out)
        }
        (_, SparkType::Plain(_) | SparkType::Decimal(..)) => {
            let (offsets, data) = leaf_addresses(array, path, retained)?;
            put(&[(OFFSETS, offsets), (DATA, data)]);
            Ok(())
        }
        _ => Err(wrong_column(path)),
    }
}

/// Returns the addresses of the offsets (0 if there are none) and the data of an array without nested arrays.
fn leaf_addresses(array: &ArrayRef, path: &str, retained: &mut Retained) -> Result<(u64, u64)> {
    let unchanged = |data: u64, retained: &mut Retained| {
        retained.array(Arc::clone(array));
        Ok((0, data))
    };
    match array.data_type() {
        DataType::Null => Ok((0, 0)),
        DataType::Boolean => {
            let bits = array.as_boolean().values().sliced();
            Ok((0, retained.buffer(bits)))
        }
        DataType::Int8 => unchanged(data::<Int8Type>(array), retained),
        DataType::Int16 => unchanged(data::<Int16Type>(array), retained),
        DataType::Int32 => unchanged(data::<Int32Type>(array), retained),
        DataType::Int64 => unchanged(data::<Int64Type>(array), retained),
        DataType::Float32 => unchanged(data::<Float32Type>(array), retained),
        DataType::Float64 => unchanged(data::<Float64Type>(array), retained),
        DataType::Date32 => unchanged(data::<Date32Type>(array), retained),
        DataType::Time32(TimeUnit::Millisecond) => unchanged(data::<Time32MillisecondType>(array), retained),
        DataType::Time64(TimeUnit::Microsecond) => unchanged(data::<Time64MicrosecondType>(array), retained),
        DataType::Timestamp(TimeUnit::Microsecond, _) => unchanged(data::<TimestampMicrosecondType>(array), retained),
        DataType::Decimal128(..) => unchanged(data::<Decimal128Type>(array), retained),
        DataType::UInt8 => wider::<UInt8Type, _>(array, i16::from, retained),
        DataType::UInt16 => wider::<UInt16Type, _>(array, i32::from, retained),
        DataType::UInt32 => wider::<UInt32Type, _>(array, i64::from, retained),
        DataType::UInt64 => wider::<UInt64Type, _>(array, i128::from, retained),
        // Rounds down, as Spark does when it converts nanoseconds.
        DataType::Timestamp(TimeUnit::Nanosecond, _) => {
            wider::<TimestampNanosecondType, _>(array, |time| time.div_euclid(1000), retained)
        }
        DataType::Timestamp(TimeUnit::Millisecond, _) => {
            micros(array.as_primitive::<TimestampMillisecondType>(), 1000, path, retained)
        }
        DataType::Timestamp(TimeUnit::Second, _) => {
            micros(array.as_primitive::<TimestampSecondType>(), 1_000_000, path, retained)
        }
        DataType::Utf8 => {
            let values = array.as_string::<i32>();
            let addresses = (address(values.value_offsets()), address(values.value_data()));
            retained.array(Arc::clone(array));
            Ok(addresses)
        }
        DataType::Binary => {
            let values = array.as_binary::<i32>();
            let addresses = (address(values.value_offsets()), address(values.value_data()));
            retained.array(Arc::clone(array));
            Ok(addresses)
        }
        DataType::FixedSizeBinary(width) => {
            let values = array.as_fixed_size_binary();
            let offsets = (0..=array.len()).map(|row| i32::try_from(row).ok()?.checked_mul(*width));
            let offsets: Option<Vec<i32>> = offsets.collect();
            let offsets = retained.buffer(Buffer::from_vec(offsets.ok_or_else(|| wrong_column(path))?));
            let data = address(values.value_data());
            retained.array(Arc::clone(array));
            Ok((offsets, data))
        }
        _ => Err(wrong_column(path)),
    }
}

fn data<T: ArrowPrimitiveType>(array: &ArrayRef) -> u64 {
    address(array.as_primitive::<T>().values())
}

fn wider<T: ArrowPrimitiveType, W: ArrowNativeType>(
    array: &ArrayRef,
    widen: impl Fn(T::Native) -> W,
    retained: &mut Retained,
) -> Result<(u64, u64)> {
    let values: Vec<W> = array.as_primitive::<T>().values().iter().map(|value| widen(*value)).collect();
    Ok((0, retained.buffer(Buffer::from_vec(values))))
}

fn micros<T: ArrowPrimitiveType<Native = i64>>(
    times: &PrimitiveArray<T>,
    unit: i64,
    path: &str,
    retained: &mut Retained,
) -> Result<(u64, u64)> {
    let mut micros = Vec::with_capacity(times.len());
    for (row, time) in times.values().iter().enumerate() {
        micros.push(match time.checked_mul(unit) {
            Some(micros) => micros,
            // The value of a null row is never read, so any value can be stored.
            None if times.is_null(row) => 0,
            None => {
                return Err(Failure::bad_value(format!("field {path}: the time {time} is outside of Spark's range")));
            }
        });
    }
    Ok((0, retained.buffer(Buffer::from_vec(micros))))
}

#[cfg(test)]
#[path = "nested_tests.rs"]
mod tests;
