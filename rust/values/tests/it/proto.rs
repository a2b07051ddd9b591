//! Helpers for tests of Protobuf values, which show rows as JSON.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    DurationMicrosecondType, Float32Type, Float64Type, Int32Type, Int64Type, TimestampMicrosecondType, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use samsarrow_values::Decoder;
use samsarrow_values::proto::Schema;
use serde_json::{Map, Value};

use crate::{bare, decode, push};

/// Returns a decoder for values without frames. They are messages of the first type in the file.
pub(crate) fn decoder(schema: &str) -> Decoder {
    Decoder::protobuf(&Schema::parse(schema).unwrap(), None, false, &bare()).unwrap()
}

/// Decodes values that must be valid, and returns their rows as JSON.
pub(crate) fn rows(schema: &str, values: &[&[u8]]) -> Vec<String> {
    let (array, bad) = decode(&mut decoder(schema), values.iter().copied().map(Some));
    assert_eq!(bad, []);
    shown(&array)
}

pub(crate) fn shown(array: &ArrayRef) -> Vec<String> {
    array.to_data().validate_full().unwrap();
    (0..array.len()).map(|row| json(array, row).to_string()).collect()
}

/// Returns the path and reason of the error for a bad value.
pub(crate) fn decode_error(schema: &str, value: &[u8]) -> (String, String) {
    let bad = push(&mut decoder(schema), Some(value)).unwrap_err();
    (bad.path, bad.reason)
}

fn json(array: &ArrayRef, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::UInt32 => array.as_primitive::<UInt32Type>().value(row).into(),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).into(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).into(),
        DataType::Float64 => array.as_primitive::<Float64Type>().value(row).into(),
        DataType::Timestamp(..) => array.as_primitive::<TimestampMicrosecondType>().value(row).into(),
        DataType::Duration(_) => array.as_primitive::<DurationMicrosecondType>().value(row).into(),
        DataType::Utf8 => array.as_string::<i32>().value(row).into(),
        DataType::Binary => array.as_binary::<i32>().value(row).to_vec().into(),
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|item| json(&items, item)).collect()
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            (0..entries.len()).map(|at| Value::Array(entries.columns().iter().map(|c| json(c, at)).collect())).collect()
        }
        DataType::Dictionary(..) => {
            let array = array.as_dictionary::<Int32Type>();
            json(array.values(), array.keys().value(row) as usize)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let pairs = fields.iter().zip(columns).map(|(field, column)| (field.name().clone(), json(column, row)));
            Value::Object(pairs.collect::<Map<_, _>>())
        }
        other => panic!("{other}"),
    }
}
