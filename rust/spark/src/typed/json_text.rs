//! Encoding of a column as JSON texts that a schema allows.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryArray, LargeBinaryArray, RecordBatch};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, Field};
use samsarrow_arrow::value_encoding::FieldRules;
use samsarrow_arrow::{EncodeError as ArrowEncodeError, ValueColumns, ValueFormat, ValueWriter};
use samsarrow_values::error::BadValue;
use samsarrow_values::json::{self, is_full_time, is_json, is_omitted};
use samsarrow_values::{Decoder, EncodeError, Framing, Options, SchemaError, SchemaId, ValueError, framing};

use super::written::invalid;
use crate::error::{Error, Result};

/// Maximum number of bytes that are written at once. Only the last value may exceed this limit.
const MAX_WRITTEN: usize = 1 << 20;
const COLUMN: &str = "value";

/// Encoder that writes rows as JSON after a frame. A null member is left out if the schema allows it to be missing, but
/// not to be null.
#[derive(Debug)]
pub(super) struct JsonTextEncoder {
    schema: json::Schema,
    /// Bytes before each value.
    frame: Vec<u8>,
    /// Decoder of framed values. If the types do not guarantee that values fit the schema, they are decoded as a check.
    reader: Decoder,
    always_fits: bool,
    /// Nullable top-level fields that are required by the schema.
    required: Vec<String>,
}

impl JsonTextEncoder {
    /// Checks the type of the column against the schema.
    ///
    /// # Errors
    /// Fails if the column has fields that the schema does not have, or bytes.
    pub(super) fn new(
        data_type: &DataType,
        schema: json::Schema,
        framing: Framing,
        id: Option<SchemaId>,
    ) -> Result<JsonTextEncoder> {
        if let Some(path) = bytes_in(data_type, "") {
            let column = if path.is_empty() { "the column".to_owned() } else { format!("column {path}") };
            return Err(Error::configuration(format!(
                "{column} has bytes, which JSON does not support: convert them to text (base64)"
            )));
        }
        let frame = match id {
            Some(id) => framing::prefix(framing, Some(id)),
            None => Ok(Vec::new()),
        };
        let frame = frame.map_err(|error| Error::configuration(error.to_string()))?;
        let reader = Decoder::json(&schema, &Options { framing, ..Options::default() }).map_err(invalid)?;
        let target = reader.data_type();
        if let DataType::Struct(fields) = data_type {
            let has = |name: &str| matches!(target, DataType::Struct(fields) if fields.find(name).is_some());
            if let Some(field) = fields.iter().find(|field| !has(field.name())) {
                let text = format!("the schema has no field for column '{}': drop the column", field.name());
                return Err(Error::configuration(text));
            }
        }
        let (always_fits, required) = (always_fits(data_type, target), required(data_type, target));
        Ok(JsonTextEncoder { schema, frame, reader, always_fits, required })
    }

    /// Encodes the rows of a column, in several arrays.
    ///
    /// # Errors
    /// Fails if a row does not fit the schema.
    pub(super) fn encode(&mut self, column: &ArrayRef) -> Result<Vec<BinaryArray>, EncodeError> {
        json::check_finite(column).map_err(|bad| EncodeError::Bad(Box::new(bad)))?;
        let fields = column.as_struct_opt();
        let has_nulls = |name: &String| {
            fields.and_then(|fields| fields.column_by_name(name)).is_some_and(|field| field.null_count() > 0)
        };
        let fits = self.always_fits && !self.required.iter().any(has_nulls);
        let batch = RecordBatch::try_from_iter_with_nullable([(COLUMN, Arc::clone(column), true)]).map_err(other)?;
        let rules = FieldRules { is_omitted, is_json, is_full_time };
        let writer = ValueWriter::new(&batch, &ValueColumns::One(COLUMN.to_owned()), ValueFormat::Json);
        let mut writer =
            writer.and_then(|writer| writer.following(self.schema.field(), rules)).map_err(encode_error)?;
        let mut done = Vec::new();
        while let Some((rows, texts)) = writer.next(MAX_WRITTEN).map_err(encode_error)? {
            let texts = self.framed(&texts, rows.start)?;
            if !fits {
                self.check(&texts, rows.start)?;
            }
            done.push(texts);
        }
        Ok(done)
    }

    /// Returns the texts with the frame before each of them. `start` is the row of the first text.
    fn framed(&self, texts: &LargeBinaryArray, start: usize) -> Result<BinaryArray, EncodeError> {
        let most = texts.value_data().len() + texts.len() * self.frame.len();
        if i32::try_from(most).is_err() {
            // Only the last text is that long.
            let row = start + texts.len().saturating_sub(1);
            return Err(bad(row, String::new(), "the value is longer than 2 GiB".to_owned()));
        }
        let (mut data, mut offsets) = (Vec::with_capacity(most), Vec::with_capacity(texts.len() + 1));
        offsets.push(0_i32);
        for text in texts {
            if let Some(text) = text {
                data.extend_from_slice(&self.frame);
                data.extend_from_slice(text);
            }
            // The length was checked above.
            offsets.push(data.len() as i32);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        BinaryArray::try_new(offsets, Buffer::from_vec(data), texts.nulls().cloned()).map_err(other)
    }

    fn check(&mut self, texts: &BinaryArray, start: usize) -> Result<(), EncodeError> {
        let mut result = Ok(());
        for (row, text) in texts.iter().enumerate() {
            let mut pushed = self.reader.push(text, None);
            if pushed == Err(ValueError::Full) {
                self.reader.finish().map_err(other)?;
                pushed = self.reader.push(text, None);
            }
            result = match pushed {
                Ok(()) => continue,
                Err(ValueError::Bad(value)) => Err(bad(start + row, value.path, value.reason)),
                Err(full) => Err(bad(start + row, String::new(), full.to_string())),
            };
            break;
        }
        // Drops the decoded rows.
        self.reader.finish().map_err(other)?;
        result
    }
}

fn bad(row: usize, path: String, reason: String) -> EncodeError {
    EncodeError::Bad(Box::new(BadValue { row, schema: None, path, reason }))
}

fn other(error: impl std::fmt::Display) -> EncodeError {
    EncodeError::Schema(SchemaError::new("", error.to_string()))
}

fn encode_error(error: ArrowEncodeError) -> EncodeError {
    match error {
        ArrowEncodeError::Value { row, path, what } => bad(row, path, what),
        error => other(error),
    }
}

/// Returns true if every JSON text of type `kind` can be read as `target`, except for nulls of top-level fields.
fn always_fits(kind: &DataType, target: &DataType) -> bool {
    let (DataType::Struct(fields), DataType::Struct(targets)) = (kind, target) else {
        return field_fits(&Field::new("", kind.clone(), true), &Field::new("", target.clone(), true));
    };
    let is_unique = |field: &Field| fields.iter().filter(|other| other.name() == field.name()).count() == 1;
    fields.iter().all(|field| is_unique(field))
        && targets.iter().all(|target| match fields.find(target.name()) {
            Some((_, field)) => field_fits(&Field::clone(field).with_nullable(target.is_nullable()), target),
            None => target.is_nullable(),
        })
}

/// Returns the nullable top-level fields of `kind` that are not nullable in `target`.
fn required(kind: &DataType, target: &DataType) -> Vec<String> {
    let (DataType::Struct(fields), DataType::Struct(targets)) = (kind, target) else { return Vec::new() };
    let is_required = |name: &str| targets.find(name).is_some_and(|(_, field)| !field.is_nullable());
    fields
        .iter()
        .filter(|field| field.is_nullable() && is_required(field.name()))
        .map(|field| field.name().clone())
        .collect()
}

/// Returns true if every value of `field` can be read as `target`, false if this depends on the value.
fn field_fits(field: &Field, target: &Field) -> bool {
    if field.is_nullable() && !target.is_nullable() {
        return false;
    }
    let (kind, into) = (field.data_type(), target.data_type());
    match (kind, into) {
        (DataType::Struct(_), DataType::Struct(_)) => always_fits(kind, into) && required(kind, into).is_empty(),
        (DataType::List(item), DataType::List(target)) => field_fits(item, target),
        (DataType::Map(entries, _), DataType::Map(targets, _)) => match (entries.data_type(), targets.data_type()) {
            (DataType::Struct(pair), DataType::Struct(target)) => match (&pair[..], &target[..]) {
                ([key, item], [_, target]) => *key.data_type() == DataType::Utf8 && field_fits(item, target),
                _ => false,
            },
            _ => false,
        },
        (_, _) if kind.is_integer() && into.is_integer() => {
            let narrower = kind.primitive_width() < into.primitive_width();
            kind == into || (narrower && (!kind.is_signed_integer() || into.is_signed_integer()))
        }
        (DataType::Utf8, DataType::Utf8) => true,
        (DataType::Float32 | DataType::Float64, DataType::Float64) => true,
        (_, DataType::Float64) => kind.is_integer(),
        (DataType::Boolean, DataType::Boolean) | (DataType::Float32, DataType::Float32) => true,
        _ => false,
    }
}

/// Returns the path of a column of bytes, which would be written as hexadecimal but decoded as base64.
fn bytes_in(kind: &DataType, path: &str) -> Option<String> {
    match kind {
        DataType::Struct(fields) => fields.iter().find_map(|field| {
            let name = field.name();
            bytes_in(field.data_type(), &if path.is_empty() { name.clone() } else { format!("{path}.{name}") })
        }),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) => pair.iter().find_map(|field| bytes_in(field.data_type(), path)),
            _ => None,
        },
        DataType::List(item) => bytes_in(item.data_type(), &format!("{path}[]")),
        DataType::Binary => Some(path.to_owned()),
        _ => None,
    }
}
