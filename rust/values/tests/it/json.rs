//! Types and decoders for tests of JSON values.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::cast::AsArray;
use arrow_schema::{DataType, Field};
use samsarrow_values::json::Schema;
use samsarrow_values::{Decoder, Options};

use crate::{bare, decode, push};

pub(crate) fn struct_of(fields: Vec<Field>) -> DataType {
    DataType::Struct(fields.into())
}

/// Returns a nullable field.
pub(crate) fn field(name: &str, kind: DataType) -> Field {
    Field::new(name, kind, true)
}

pub(crate) fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(field("item", item)))
}

pub(crate) fn map(value: DataType) -> DataType {
    let entries = struct_of(vec![Field::new("key", DataType::Utf8, false), field("value", value)]);
    DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
}

/// Returns a field for values of any kind, which are stored as JSON text.
pub(crate) fn any(name: &str) -> Field {
    field(name, DataType::Utf8).with_metadata([("ARROW:extension:name", "arrow.json")])
}

/// Returns a decoder for values without frames.
pub(crate) fn decoder(kind: &DataType) -> Decoder {
    Decoder::json(&Schema::from_arrow(kind.clone()), &bare()).unwrap()
}

pub(crate) fn projecting_decoder(kind: &DataType, fields: &[&str]) -> Decoder {
    let fields = Some(fields.iter().map(|&field| field.to_owned()).collect());
    Decoder::json(&Schema::from_arrow(kind.clone()), &Options { fields, ..bare() }).unwrap()
}

/// Decodes a valid value.
pub(crate) fn decode_one(kind: &DataType, text: &str) -> ArrayRef {
    let (array, bad) = decode(&mut decoder(kind), [Some(text.as_bytes())]);
    assert_eq!(bad, [], "{text}");
    array
}

/// Returns the path and reason of the error for a bad value.
pub(crate) fn decode_error(kind: &DataType, value: &[u8]) -> (String, String) {
    match push(&mut decoder(kind), Some(value)) {
        Err(bad) => (bad.path, bad.reason),
        Ok(()) => panic!("{} is taken for {kind}", String::from_utf8_lossy(value)),
    }
}

/// Decodes a JSON string into a string column, and returns the result.
pub(crate) fn string(text: &str) -> String {
    decode_one(&DataType::Utf8, text).as_string::<i32>().value(0).to_owned()
}
