//! Sources for columns of scalar types.

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalMonthDayNanoType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type,
};
use arrow_buffer::{ArrowNativeType, ScalarBuffer, i256};
use arrow_schema::{DataType, IntervalUnit, TimeUnit};

use super::bind::unfit;
use super::source::{Decimal, Scaled, Source};
use super::symbols::Symbols;
use crate::arrow_types::{self, Enums};
use crate::avro::schema::{Kind, Logical, Node};
use crate::builders::Columns;
use crate::error::SchemaError;
use crate::layout::Blobs;

const MILLIS_A_DAY: i64 = 86_400_000;

pub(super) fn leaf(node: &Node, array: &dyn Array, path: &str) -> Result<Source, SchemaError> {
    let found = match (&node.kind, node.logical) {
        (Kind::Null, _) => (*array.data_type() == DataType::Null).then_some(Source::Nothing),
        (Kind::Boolean, _) => array.as_boolean_opt().map(|array| Source::Boolean(array.values().clone())),
        (Kind::Int, None) => int(array),
        (Kind::Long, None) => long(array),
        (Kind::Float, _) => float(array),
        (Kind::Double, _) => double(array),
        (Kind::Int | Kind::Long, Some(logical)) => time(logical, array),
        (Kind::Bytes, Some(Logical::Decimal { precision, scale })) => decimal(precision, scale, None, array),
        (Kind::Fixed(_, size), Some(Logical::Decimal { precision, scale })) => {
            decimal(precision, scale, Some(*size), array)
        }
        (Kind::Fixed(..), Some(Logical::Duration)) => interval(array),
        (Kind::Fixed(..), Some(Logical::Uuid)) if Blobs::texts(array).is_some() => {
            Blobs::texts(array).map(Source::UuidBytes)
        }
        (Kind::Fixed(_, size), _) => fixed(*size, array),
        (Kind::Bytes, _) => Blobs::bytes(array).map(plain),
        (Kind::String, Some(Logical::Uuid)) if *array.data_type() == DataType::FixedSizeBinary(16) => {
            Blobs::bytes(array).map(Source::Uuid)
        }
        (Kind::String, _) => Blobs::texts(array).map(plain),
        (Kind::Enum(of), _) => Blobs::texts(array).map(|texts| Source::Symbols(Box::new((texts, Symbols::of(of))))),
        _ => None,
    };
    found.ok_or_else(|| unfit(node, array, path))
}

/// Returns true if decoding the Avro type results in exactly this Arrow type, so that no conversion is necessary.
pub(super) fn same(node: &Node, data_type: &DataType) -> bool {
    let shape = arrow_types::shape(node, Enums::Strings, &mut Columns::default());
    !matches!(node.kind, Kind::Enum(_)) && shape.is_ok_and(|shape| shape.data_type == *plainly(data_type))
}

/// Returns the Arrow type without its layout: dictionaries, large types and views become the plain type.
fn plainly(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => plainly(values),
        DataType::LargeUtf8 | DataType::Utf8View => &DataType::Utf8,
        DataType::LargeBinary | DataType::BinaryView => &DataType::Binary,
        other => other,
    }
}

/// For a dictionary of enum symbols, looks up the number of each dictionary value once, instead of in every row.
pub(super) fn numbered(values: Source, count: usize) -> Source {
    let Source::Symbols(of) = &values else { return values };
    let number = |row| of.0.get(row).ok().and_then(|symbol| of.1.number(symbol)).unwrap_or(-1);
    let numbers = (0..count).map(number).collect();
    Source::Numbers(Box::new((numbers, values)))
}

pub(super) fn logical_name(logical: Logical) -> String {
    let unit = |unit| match unit {
        TimeUnit::Second => "seconds",
        TimeUnit::Millisecond => "millis",
        TimeUnit::Microsecond => "micros",
        TimeUnit::Nanosecond => "nanos",
    };
    match logical {
        Logical::Decimal { precision, scale } => format!("decimal({precision}, {scale})"),
        Logical::Uuid => "uuid".to_owned(),
        Logical::Date => "date".to_owned(),
        Logical::Time(of) => format!("time-{}", unit(of)),
        Logical::Timestamp(of) => format!("timestamp-{}", unit(of)),
        Logical::LocalTimestamp(of) => format!("local-timestamp-{}", unit(of)),
        Logical::Duration => "duration".to_owned(),
    }
}

fn plain(of: Blobs) -> Source {
    match of {
        Blobs::Small(offsets, data) => Source::Text(offsets, data),
        other => Source::Bytes(other),
    }
}

fn values<T: ArrowPrimitiveType>(array: &dyn Array) -> ScalarBuffer<T::Native> {
    array.as_primitive::<T>().values().clone()
}

/// Converts numbers to a wider type, without loss.
fn wider<T: ArrowPrimitiveType, U: ArrowNativeType + From<T::Native>>(array: &dyn Array) -> ScalarBuffer<U> {
    array.as_primitive::<T>().values().iter().map(|&value| U::from(value)).collect()
}

fn int(array: &dyn Array) -> Option<Source> {
    Some(Source::Int(match array.data_type() {
        DataType::Int8 => wider::<Int8Type, i32>(array),
        DataType::Int16 => wider::<Int16Type, i32>(array),
        DataType::Int32 => values::<Int32Type>(array),
        DataType::UInt8 => wider::<UInt8Type, i32>(array),
        DataType::UInt16 => wider::<UInt16Type, i32>(array),
        _ => return None,
    }))
}

fn long(array: &dyn Array) -> Option<Source> {
    Some(match array.data_type() {
        DataType::Int64 => Source::Long(values::<Int64Type>(array)),
        DataType::UInt32 => Source::Long(wider::<UInt32Type, i64>(array)),
        // An int has the same encoding as the long with the same value.
        _ => return int(array),
    })
}

fn float(array: &dyn Array) -> Option<Source> {
    Some(Source::Float(match array.data_type() {
        DataType::Float32 => values::<Float32Type>(array),
        DataType::Float16 => wider::<Float16Type, f32>(array),
        DataType::Int8 => wider::<Int8Type, f32>(array),
        DataType::Int16 => wider::<Int16Type, f32>(array),
        DataType::UInt8 => wider::<UInt8Type, f32>(array),
        DataType::UInt16 => wider::<UInt16Type, f32>(array),
        _ => return None,
    }))
}

fn double(array: &dyn Array) -> Option<Source> {
    Some(Source::Double(match array.data_type() {
        DataType::Float64 => values::<Float64Type>(array),
        DataType::Float32 => wider::<Float32Type, f64>(array),
        DataType::Float16 => wider::<Float16Type, f64>(array),
        DataType::Int8 => wider::<Int8Type, f64>(array),
        DataType::Int16 => wider::<Int16Type, f64>(array),
        DataType::Int32 => wider::<Int32Type, f64>(array),
        DataType::UInt8 => wider::<UInt8Type, f64>(array),
        DataType::UInt16 => wider::<UInt16Type, f64>(array),
        DataType::UInt32 => wider::<UInt32Type, f64>(array),
        _ => return None,
    }))
}

fn time(logical: Logical, array: &dyn Array) -> Option<Source> {
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    let (unit, values) = match (logical, array.data_type()) {
        (Logical::Date, DataType::Date32) => return Some(Source::Int(values::<Date32Type>(array))),
        (Logical::Date, DataType::Date64) => {
            let values = values::<Date64Type>(array);
            return Some(Source::Scaled(Box::new(Scaled { values, times: 1, per: MILLIS_A_DAY, narrow: true })));
        }
        (Logical::Time(Millisecond), DataType::Time32(Millisecond)) => {
            return Some(Source::Int(values::<Time32MillisecondType>(array)));
        }
        (Logical::Time(unit), DataType::Time32(Millisecond)) => (unit, wider::<Time32MillisecondType, i64>(array)),
        (Logical::Time(unit), DataType::Time32(_)) => (unit, wider::<Time32SecondType, i64>(array)),
        (Logical::Time(unit), DataType::Time64(Microsecond)) => (unit, values::<Time64MicrosecondType>(array)),
        (Logical::Time(unit), DataType::Time64(_)) => (unit, values::<Time64NanosecondType>(array)),
        (Logical::Timestamp(unit), DataType::Timestamp(of, Some(_)))
        | (Logical::LocalTimestamp(unit), DataType::Timestamp(of, None)) => {
            let values = match of {
                Second => values::<TimestampSecondType>(array),
                Millisecond => values::<TimestampMillisecondType>(array),
                Microsecond => values::<TimestampMicrosecondType>(array),
                Nanosecond => values::<TimestampNanosecondType>(array),
            };
            (unit, values)
        }
        _ => return None,
    };
    let (DataType::Time32(of) | DataType::Time64(of) | DataType::Timestamp(of, _)) = array.data_type() else {
        return None;
    };
    let (from, to) = (a_second(*of), a_second(unit));
    let (times, per) = ((to / from).max(1), (from / to).max(1));
    let narrow = logical == Logical::Time(Millisecond);
    if times == per && !narrow {
        return Some(Source::Long(values));
    }
    Some(Source::Scaled(Box::new(Scaled { values, times, per, narrow })))
}

fn a_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn decimal(precision: u8, scale: i8, size: Option<usize>, array: &dyn Array) -> Option<Source> {
    let digits = u32::from(precision);
    let values = match array.data_type() {
        DataType::Decimal32(_, own) if *own == scale => wider::<Decimal32Type, i128>(array),
        DataType::Decimal64(_, own) if *own == scale => wider::<Decimal64Type, i128>(array),
        DataType::Decimal128(_, own) if *own == scale => values::<Decimal128Type>(array),
        DataType::Decimal256(_, own) if *own == scale => {
            let values = values::<Decimal256Type>(array);
            let beyond = i256::from_i128(10).checked_pow(digits);
            return Some(Source::WideDecimal(Box::new(Decimal { values, size, precision, beyond })));
        }
        _ => return None,
    };
    let beyond = 10_i128.checked_pow(digits);
    Some(Source::Decimal(Box::new(Decimal { values, size, precision, beyond })))
}

fn interval(array: &dyn Array) -> Option<Source> {
    match array.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            Some(Source::Duration(values::<IntervalMonthDayNanoType>(array)))
        }
        _ => None,
    }
}

/// Binds a binary column to a fixed. If the column has a variable length, the length is checked in each row.
fn fixed(size: usize, array: &dyn Array) -> Option<Source> {
    match array.data_type() {
        DataType::FixedSizeBinary(own) if usize::try_from(*own) != Ok(size) => None,
        _ => Blobs::bytes(array).map(|blobs| Source::Fixed(Box::new((blobs, size)))),
    }
}
