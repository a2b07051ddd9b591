//! JSON form of messages, with Kafka's own camelCase names. Kafka's tools print this form, and other clients use it for
//! test data. As in Kafka, bytes are encoded as padded base64, and UUIDs as URL-safe base64 without padding.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::Message;
use super::types::{Cx, Hidden, Uuid};

/// A message that has a JSON form.
pub trait JsonMessage: Message {
    /// Returns the fields that exist in `version`. Tagged fields are included only if they differ from their defaults.
    fn to_json(&self, version: i16) -> Value;
    /// Parses a message. Missing fields get their defaults. Fails if a field is unknown.
    fn from_json(version: i16, json: &Value) -> Result<Self, JsonError>;
}

/// Error for JSON that does not match the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct JsonError {
    /// `Struct.field`.
    pub field: &'static str,
    /// Description of the problem.
    pub problem: String,
}

impl JsonError {
    fn new(problem: impl Into<String>) -> Self {
        Self { field: "", problem: problem.into() }
    }

    fn expected(what: &str, found: &Value) -> Self {
        Self::new(format!("expected {what}, found {found}"))
    }

    pub(crate) fn within(mut self, field: &'static str) -> Self {
        if self.field.is_empty() {
            self.field = field;
        }
        self
    }
}

/// A type with a JSON form.
pub(crate) trait Json: Sized {
    fn to_json(&self, cx: Cx) -> Value;
    fn from_json(cx: Cx, json: &Value) -> Result<Self, JsonError>;
}

/// Converts a field name to Kafka's JSON name, for example `group_id` to `groupId`.
pub(crate) fn camel_case(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    for (i, word) in name.split('_').filter(|word| !word.is_empty()).enumerate() {
        let mut letters = word.chars();
        if let Some(first) = letters.next() {
            camel.push(if i == 0 { first } else { first.to_ascii_uppercase() });
        }
        camel.extend(letters);
    }
    camel
}

/// Returns the fields of a JSON object by name.
pub(crate) fn fields<'a>(name: &'static str, json: &'a Value) -> Result<BTreeMap<String, &'a Value>, JsonError> {
    let object = json.as_object().ok_or_else(|| JsonError::expected("an object", json).within(name))?;
    Ok(object.iter().map(|(name, value)| (name.clone(), value)).collect())
}

const UNKNOWN: &str = "_unknownTaggedFields";

/// Adds the unknown tagged fields as a list of tags and bytes, because their names are unknown.
pub(crate) fn put_unknown(object: &mut Map<String, Value>, unknown: &[(u32, Bytes)]) {
    if !unknown.is_empty() {
        let pairs = unknown.iter().map(|(tag, data)| json!([tag, base64(data, STANDARD, true)])).collect();
        object.insert(UNKNOWN.to_owned(), pairs);
    }
}

/// Removes and decodes the list that `put_unknown` writes.
pub(crate) fn take_unknown(object: &mut BTreeMap<String, &Value>) -> Result<Vec<(u32, Bytes)>, JsonError> {
    let Some(json) = object.remove(UNKNOWN) else { return Ok(Vec::new()) };
    let pair = |pair: &Value| {
        let tag = u32::try_from(pair.get(0)?.as_u64()?).ok()?;
        Some((tag, from_base64(pair.get(1)?.as_str()?, STANDARD)?.into()))
    };
    let pairs = json.as_array().and_then(|pairs| pairs.iter().map(pair).collect());
    pairs.ok_or_else(|| JsonError::expected("pairs of tag and base64", json))
}

/// Returns an error if `left` is not empty, because the message does not have these fields.
pub(crate) fn reject_unknown_fields(name: &'static str, left: &BTreeMap<String, &Value>) -> Result<(), JsonError> {
    match left.keys().next() {
        None => Ok(()),
        Some(unknown) => Err(JsonError::new(format!("there is no field {unknown}")).within(name)),
    }
}

macro_rules! numbers {
    ($($type:ty),*) => {$(
        impl Json for $type {
            fn to_json(&self, _: Cx) -> Value {
                (*self).into()
            }
            fn from_json(_: Cx, json: &Value) -> Result<Self, JsonError> {
                let number = json.as_i64().and_then(|number| Self::try_from(number).ok());
                number.ok_or_else(|| JsonError::expected(stringify!($type), json))
            }
        }
    )*};
}

numbers!(i8, i16, u16, i32, i64);

impl Json for f64 {
    fn to_json(&self, _: Cx) -> Value {
        (*self).into()
    }
    fn from_json(_: Cx, json: &Value) -> Result<Self, JsonError> {
        json.as_f64().ok_or_else(|| JsonError::expected("f64", json))
    }
}

impl Json for bool {
    fn to_json(&self, _: Cx) -> Value {
        (*self).into()
    }
    fn from_json(_: Cx, json: &Value) -> Result<Self, JsonError> {
        json.as_bool().ok_or_else(|| JsonError::expected("true or false", json))
    }
}

impl Json for String {
    fn to_json(&self, _: Cx) -> Value {
        self.clone().into()
    }
    fn from_json(_: Cx, json: &Value) -> Result<Self, JsonError> {
        json.as_str().map(str::to_owned).ok_or_else(|| JsonError::expected("text", json))
    }
}

impl Json for Bytes {
    fn to_json(&self, _: Cx) -> Value {
        base64(self, STANDARD, true).into()
    }
    fn from_json(_: Cx, json: &Value) -> Result<Self, JsonError> {
        let bytes = json.as_str().and_then(|text| from_base64(text, STANDARD));
        bytes.map(Bytes::from).ok_or_else(|| JsonError::expected("base64", json))
    }
}

impl Json for Hidden {
    fn to_json(&self, cx: Cx) -> Value {
        self.0.to_json(cx)
    }
    fn from_json(cx: Cx, json: &Value) -> Result<Self, JsonError> {
        Bytes::from_json(cx, json).map(Hidden)
    }
}

impl Json for Uuid {
    fn to_json(&self, _: Cx) -> Value {
        base64(&self.0, URL, false).into()
    }
    fn from_json(_: Cx, json: &Value) -> Result<Self, JsonError> {
        let bytes = json.as_str().and_then(|text| from_base64(text, URL));
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Uuid).ok_or_else(|| JsonError::expected("a UUID", json))
    }
}

impl<T: Json> Json for Vec<T> {
    fn to_json(&self, cx: Cx) -> Value {
        self.iter().map(|element| element.to_json(cx)).collect()
    }
    fn from_json(cx: Cx, json: &Value) -> Result<Self, JsonError> {
        let elements = json.as_array().ok_or_else(|| JsonError::expected("an array", json))?;
        elements.iter().map(|element| T::from_json(cx, element)).collect()
    }
}

impl<T: Json> Json for Option<T> {
    fn to_json(&self, cx: Cx) -> Value {
        self.as_ref().map_or(Value::Null, |value| value.to_json(cx))
    }
    fn from_json(cx: Cx, json: &Value) -> Result<Self, JsonError> {
        if json.is_null() { Ok(None) } else { T::from_json(cx, json).map(Some) }
    }
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

fn base64(bytes: &[u8], alphabet: &[u8; 64], padded: bool) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for i in 0..4 {
            if i <= chunk.len() {
                let letter = alphabet.get((bits >> (18 - 6 * i)) as usize & 63).copied().unwrap_or_default();
                text.push(char::from(letter));
            } else if padded {
                text.push('=');
            }
        }
    }
    text
}

fn from_base64(text: &str, alphabet: &[u8; 64]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for chunk in text.trim_end_matches('=').as_bytes().chunks(4) {
        let mut bits = 0u32;
        for letter in chunk {
            bits = bits << 6 | alphabet.iter().position(|other| other == letter)? as u32;
        }
        bits <<= 6 * (4 - chunk.len());
        bytes.extend_from_slice(bits.to_be_bytes().get(1..chunk.len())?);
    }
    Some(bytes)
}
