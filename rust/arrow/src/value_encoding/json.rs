//! Values as JSON.

use std::fmt::Write;
use std::sync::{Arc, Mutex, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowDictionaryKeyType, ArrowTimestampType, Float16Type, Float32Type, Float64Type, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray, UnionArray, downcast_dictionary_array};
use arrow_buffer::{ArrowNativeType, OffsetBuffer};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_json::writer::{Encoder, EncoderFactory, EncoderOptions, NullableEncoder, make_encoder};
use arrow_schema::{ArrowError, DataType, FieldRef, TimeUnit};
use samsarrow_wire::sync::lock;

use super::Values;
use super::json_marks::{JsonEncoding, is_omitted, json_encoding};
use crate::encode::EncodeError;
use crate::text_format::json::string;

pub(super) fn write(field: &FieldRef, rows: &ArrayRef, max_bytes: usize, out: &mut Values) -> Result<(), EncodeError> {
    let failure = Failure::default();
    let overrides = EncoderOverrides { failure: failure.clone() };
    // Null members are written unless the schema marks them as omitted, so that readers without the schema see the members.
    let options = EncoderOptions::default().with_explicit_nulls(true).with_encoder_factory(Arc::new(overrides));
    let mut encoder = make_encoder(field, rows.as_ref(), &options)?;
    let nulls = rows.logical_nulls();
    for row in 0..rows.len() {
        if out.is_full(max_bytes) {
            break;
        }
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            out.null();
            continue;
        }
        encoder.encode(row, &mut out.bytes);
        match failure.take() {
            None => (),
            Some((None, what)) => return Err(EncodeError::Row { row, what }),
            Some((Some(path), what)) => return Err(EncodeError::Value { row, path, what }),
        }
        out.close();
    }
    Ok(())
}

/// The first error within a row, with its path if known. It is stored here, because encoders cannot return errors.
#[derive(Debug, Clone, Default)]
struct Failure(Arc<Mutex<Option<Reason>>>);

/// The path of the field, if known, and a description of the error.
type Reason = (Option<String>, String);

impl Failure {
    fn set(&self, what: String) {
        lock(&self.0).get_or_insert((None, what));
    }

    fn set_at(&self, path: &str, what: String) {
        lock(&self.0).get_or_insert((Some(path.to_owned()), what));
    }

    fn take(&self) -> Option<Reason> {
        lock(&self.0).take()
    }
}

/// Creates encoders for types that Arrow's encoders do not support, or write incorrectly.
#[derive(Debug)]
struct EncoderOverrides {
    failure: Failure,
}

impl EncoderFactory for EncoderOverrides {
    fn make_default_encoder<'a>(
        &self,
        field: &'a FieldRef,
        array: &'a dyn Array,
        options: &'a EncoderOptions,
    ) -> Result<Option<NullableEncoder<'a>>, ArrowError> {
        let nulls = array.nulls().cloned();
        let encoder: Box<dyn Encoder + 'a> = match array.data_type() {
            DataType::Dictionary(..) => downcast_dictionary_array! {
                array => Box::new(Dictionary { array, values: make_encoder(field, array.values(), options)? }),
                _ => return Ok(None)
            },
            DataType::Union(fields, _) => {
                let array = array.as_union();
                let mut children: Vec<Option<NullableEncoder<'a>>> = Vec::new();
                for (id, field) in fields.iter() {
                    let index = usize::try_from(id)
                        .map_err(|_| ArrowError::JsonError(format!("a union cannot have the type id {id}")))?;
                    children.resize_with(children.len().max(index + 1), || None);
                    if let Some(child) = children.get_mut(index) {
                        *child = Some(make_encoder(field, array.child(id), options)?);
                    }
                }
                Box::new(Union { array, children, failure: self.failure.clone() })
            }
            DataType::Struct(fields) if let Some((encoding, path)) = json_encoding(fields) => {
                let column = array.as_struct().column(0);
                match encoding {
                    JsonEncoding::Json => Box::new(JsonText { column, path, failure: self.failure.clone() }),
                    JsonEncoding::FullTime => Box::new(FullTime { time: make_encoder(field, column, options)? }),
                }
            }
            DataType::Struct(fields) if fields.iter().any(|field| is_omitted(field)) => {
                let columns = fields.iter().zip(array.as_struct().columns());
                let members = columns.map(|(field, column)| Member::new(field, column, options));
                Box::new(Struct { members: members.collect::<Result<_, _>>()? })
            }
            DataType::Map(..) => {
                let map = array.as_map();
                match map.keys().data_type() {
                    DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => return Ok(None),
                    kind if kind.is_nested() && !matches!(kind, DataType::Dictionary(..)) => {
                        return Err(ArrowError::JsonError(format!("the keys of a map cannot be {kind}")));
                    }
                    _ => Box::new(Map {
                        offsets: map.offsets(),
                        keys: make_encoder(field, map.keys(), options)?,
                        values: make_encoder(field, map.values(), options)?,
                        failure: self.failure.clone(),
                        key: Vec::new(),
                    }),
                }
            }
            DataType::Float16 | DataType::Float32 | DataType::Float64 if !all_finite(array) => {
                let numbers = make_encoder(field, array, PLAIN.get_or_init(EncoderOptions::default))?;
                Box::new(Numbers { array, name: field.name(), numbers, failure: self.failure.clone() })
            }
            DataType::Timestamp(unit, Some(_)) => match unit {
                TimeUnit::Second => self.instants::<TimestampSecondType>(array),
                TimeUnit::Millisecond => self.instants::<TimestampMillisecondType>(array),
                TimeUnit::Microsecond => self.instants::<TimestampMicrosecondType>(array),
                TimeUnit::Nanosecond => self.instants::<TimestampNanosecondType>(array),
            },
            kind if kind.is_temporal() => {
                let formatter = ArrayFormatter::try_new(array, &FormatOptions::new().with_display_error(false))?;
                Box::new(Formatted { formatter, failure: self.failure.clone(), text: String::new() })
            }
            _ => return Ok(None),
        };
        Ok(Some(NullableEncoder::new(encoder, nulls)))
    }
}

impl EncoderOverrides {
    fn instants<'a, T: ArrowTimestampType>(&self, array: &'a dyn Array) -> Box<dyn Encoder + 'a> {
        Box::new(Instant { array: array.as_primitive::<T>(), failure: self.failure.clone(), text: String::new() })
    }
}

fn encode_or_null(encoder: &mut NullableEncoder<'_>, row: usize, out: &mut Vec<u8>) {
    if encoder.is_null(row) {
        out.extend_from_slice(b"null");
    } else {
        encoder.encode(row, out);
    }
}

/// Options without encoder overrides, for columns of numbers.
static PLAIN: OnceLock<EncoderOptions> = OnceLock::new();

/// Returns true if all numbers of a column are finite, including numbers in null rows.
fn all_finite(array: &dyn Array) -> bool {
    match array.data_type() {
        DataType::Float16 => array.as_primitive::<Float16Type>().values().iter().all(|value| value.is_finite()),
        DataType::Float32 => array.as_primitive::<Float32Type>().values().iter().all(|value| value.is_finite()),
        _ => array.as_primitive::<Float64Type>().values().iter().all(|value| value.is_finite()),
    }
}

/// Returns a floating-point number of a column.
fn number(array: &dyn Array, row: usize) -> f64 {
    match array.data_type() {
        DataType::Float16 => array.as_primitive::<Float16Type>().value(row).into(),
        DataType::Float32 => array.as_primitive::<Float32Type>().value(row).into(),
        _ => array.as_primitive::<Float64Type>().value(row),
    }
}

/// Encodes floating-point numbers. NaN and infinities are errors, because JSON does not have them, and Arrow's encoder
/// would write null.
struct Numbers<'a> {
    array: &'a dyn Array,
    name: &'a str,
    numbers: NullableEncoder<'a>,
    failure: Failure,
}

impl Encoder for Numbers<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let value = number(self.array, row);
        if value.is_finite() {
            self.numbers.encode(row, out);
        } else {
            let text = format!("{value} is not a number of JSON: replace it with null or text");
            self.failure.set_at(self.name, text);
        }
    }
}

/// Embeds strings that contain JSON, unchanged.
struct JsonText<'a> {
    column: &'a ArrayRef,
    path: &'a str,
    failure: Failure,
}

impl Encoder for JsonText<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let text = match self.column.data_type() {
            DataType::Utf8 => self.column.as_string::<i32>().value(row),
            DataType::LargeUtf8 => self.column.as_string::<i64>().value(row),
            _ => self.column.as_string_view().value(row),
        };
        match serde_json::from_str::<serde::de::IgnoredAny>(text) {
            Ok(_) => out.extend_from_slice(text.as_bytes()),
            Err(error) => self.failure.set_at(self.path, format!("the text is not JSON: {error}")),
        }
    }
}

/// Encodes times of day with the UTC offset `Z`.
struct FullTime<'a> {
    time: NullableEncoder<'a>,
}

impl Encoder for FullTime<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        self.time.encode(row, out);
        if out.pop_if(|last| *last == b'"').is_some() {
            out.extend_from_slice(b"Z\"");
        }
    }
}

/// Encodes dictionaries. A dictionary key may refer to a null, which Arrow's encoder would write as a value.
struct Dictionary<'a, K: ArrowDictionaryKeyType> {
    array: &'a DictionaryArray<K>,
    values: NullableEncoder<'a>,
}

impl<K: ArrowDictionaryKeyType> Encoder for Dictionary<'_, K> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        encode_or_null(&mut self.values, self.array.keys().value(row).as_usize(), out);
    }
}

/// Encodes a union as the value of its current type, without the name of the type.
struct Union<'a> {
    array: &'a UnionArray,
    /// Encoders of the union's types, indexed by type id.
    children: Vec<Option<NullableEncoder<'a>>>,
    failure: Failure,
}

impl Encoder for Union<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let id = usize::try_from(self.array.type_id(row)).unwrap_or(usize::MAX);
        match self.children.get_mut(id) {
            Some(Some(child)) => encode_or_null(child, self.array.value_offset(row), out),
            _ => self.failure.set(format!("a union has no column for its type id {}", self.array.type_id(row))),
        }
    }
}

/// Encodes a struct with members that are omitted when they are null.
struct Struct<'a> {
    members: Vec<Member<'a>>,
}

struct Member<'a> {
    /// The member's name as a JSON string, followed by a colon.
    name: Vec<u8>,
    value: NullableEncoder<'a>,
    omitted: bool,
}

impl<'a> Member<'a> {
    fn new(field: &'a FieldRef, column: &'a ArrayRef, options: &'a EncoderOptions) -> Result<Member<'a>, ArrowError> {
        let mut name = Vec::new();
        string(field.name(), &mut name);
        name.push(b':');
        Ok(Member { name, value: make_encoder(field, column, options)?, omitted: is_omitted(field) })
    }
}

impl Encoder for Struct<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        out.push(b'{');
        let start = out.len();
        for member in &mut self.members {
            let end = out.len();
            if end > start {
                out.push(b',');
            }
            out.extend_from_slice(&member.name);
            encode_or_null(&mut member.value, row, out);
            // Checks the written text instead of the array, because a dictionary can have nulls in its values, and a
            // union in its children. Only a null ends with `:null`, because strings end with a quotation mark.
            if member.omitted && out.ends_with(b":null") {
                out.truncate(end);
            }
        }
        out.push(b'}');
    }
}

/// Encodes a map whose keys are not strings. The keys are converted to strings.
struct Map<'a> {
    offsets: &'a OffsetBuffer<i32>,
    keys: NullableEncoder<'a>,
    values: NullableEncoder<'a>,
    failure: Failure,
    key: Vec<u8>,
}

impl Encoder for Map<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        let at = |row: usize| self.offsets.get(row).map_or(0, |offset| offset.as_usize());
        let (start, end) = (at(row), at(row + 1));
        out.push(b'{');
        for entry in start..end {
            if entry > start {
                out.push(b',');
            }
            self.key.clear();
            encode_or_null(&mut self.keys, entry, &mut self.key);
            if self.key == b"null" {
                self.failure.set("a key of a map is null, which json cannot hold".to_owned());
            }
            if self.key.first() == Some(&b'"') {
                out.extend_from_slice(&self.key);
            } else {
                out.push(b'"');
                out.extend_from_slice(&self.key);
                out.push(b'"');
            }
            out.push(b':');
            encode_or_null(&mut self.values, entry, out);
        }
        out.push(b'}');
    }
}

/// Encodes timestamps with a time zone, in UTC, so that no time zone database is needed.
struct Instant<'a, T: ArrowTimestampType> {
    array: &'a PrimitiveArray<T>,
    failure: Failure,
    text: String,
}

impl<T: ArrowTimestampType> Encoder for Instant<'_, T> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        self.text.clear();
        match self.array.value_as_datetime(row) {
            // The debug format of the date and time is ISO 8601.
            Some(when) => drop(write!(self.text, "\"{when:?}Z\"")),
            None => self
                .failure
                .set(format!("timestamp {} is out of the range that can be written as text", self.array.value(row))),
        }
        out.extend_from_slice(self.text.as_bytes());
    }
}

/// Encodes other dates, times, durations and intervals. If a value is out of range, Arrow's encoder would write an
/// error message in its place.
struct Formatted<'a> {
    formatter: ArrayFormatter<'a>,
    failure: Failure,
    text: String,
}

impl Encoder for Formatted<'_> {
    fn encode(&mut self, row: usize, out: &mut Vec<u8>) {
        self.text.clear();
        self.text.push('"');
        if let Err(error) = self.formatter.value(row).write(&mut self.text) {
            self.failure.set(error.to_string());
        }
        self.text.push('"');
        out.extend_from_slice(self.text.as_bytes());
    }
}
