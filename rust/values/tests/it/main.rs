//! Integration tests of values: random, hostile and evolving schemas, and encoding.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test fails by panicking")]

mod encode_errors;
mod encode_round_trips;
mod hostile;
mod json;
mod json_hostile;
mod json_names;
mod json_schemas;
mod json_types;
mod primitive_serdes;
mod proto;
mod proto_encode;
mod proto_hostile;
mod proto_types;
mod random;
mod recursion;
mod resolution;
mod rollback;
mod types;

use arrow_array::ArrayRef;
use samsarrow_values::avro::Schema;
use samsarrow_values::{BadValue, Decoder, Framing, Options, ValueError};

pub(crate) fn bare() -> Options {
    Options { framing: Framing::Bare, ..Options::default() }
}

/// Returns a decoder for values without frames.
pub(crate) fn decoder(schema: &str) -> Decoder {
    Decoder::avro(&Schema::parse(schema).unwrap(), &bare()).unwrap()
}

pub(crate) fn push(decoder: &mut Decoder, value: Option<&[u8]>) -> Result<(), BadValue> {
    match decoder.push(value, None) {
        Ok(()) => Ok(()),
        Err(ValueError::Bad(bad)) => Err(*bad),
        Err(full) => panic!("{full}"),
    }
}

/// Decodes all values. Returns the array and the errors.
pub(crate) fn decode<'a>(
    decoder: &mut Decoder,
    values: impl IntoIterator<Item = Option<&'a [u8]>>,
) -> (ArrayRef, Vec<BadValue>) {
    let bad = values.into_iter().filter_map(|value| push(decoder, value).err()).collect();
    (decoder.finish().unwrap(), bad)
}

/// Returns the path and reason of the error for a bad value.
pub(crate) fn decode_error(schema: &str, value: &[u8]) -> (String, String) {
    let bad = push(&mut decoder(schema), Some(value)).unwrap_err();
    (bad.path, bad.reason)
}
