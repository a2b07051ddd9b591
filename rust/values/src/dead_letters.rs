//! Dead letters, which are records whose key or value cannot be decoded and that are sent to another topic.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray, UInt64Array};
use arrow_select::take::take_record_batch;

use crate::framing::Part;
use crate::headers::{HeadersBuilder, Pairs};

/// Beginning of the names of the headers that dead letters have in Kafka Connect (KIP-298).
const PREFIX: &str = "__connect.errors.";
/// Python's exception for a key or value that cannot be decoded.
const EXCEPTION: &str = "samsarrow.exceptions.BadValueError";

/// Returns the dead letters of a consumer's batch: key, value, headers and timestamp of the rows in `errors`. The
/// headers are extended by the position of the row and its error. The text of an error begins with `key: ` or `value: `.
///
/// # Errors
/// Fails if the batch does not have the columns of a consumer, or not these rows.
pub fn dead_letters(batch: &RecordBatch, errors: &BTreeMap<usize, String>) -> Result<RecordBatch, String> {
    let at = UInt64Array::from_iter_values(errors.keys().map(|row| *row as u64));
    let rows = take_record_batch(batch, &at).map_err(|error| error.to_string())?;
    let column = |name: &str| {
        rows.column_by_name(name).ok_or_else(|| format!("the batch has no column {name}, which dead letters need"))
    };
    let other_type = |name: &str| format!("the column {name} has another type than in a consumer's batch");
    let topics = column("topic")?.as_dictionary_opt::<Int32Type>().ok_or_else(|| other_type("topic"))?;
    let names = topics.values().as_string_opt::<i32>().ok_or_else(|| other_type("topic"))?;
    let partitions = column("partition")?.as_primitive_opt::<Int32Type>().ok_or_else(|| other_type("partition"))?;
    let offsets = column("offset")?.as_primitive_opt::<Int64Type>().ok_or_else(|| other_type("offset"))?;
    let existing = rows.column_by_name("headers").map(Pairs::of).transpose()?;
    let mut headers = HeadersBuilder::default();
    for (row, text) in errors.values().enumerate() {
        if let Some(existing) = &existing {
            headers.copy(existing, row);
        }
        let part = if text.starts_with("key: ") { Part::Key } else { Part::Value };
        let stage = format!("{}_CONVERTER", part.name().to_uppercase());
        let (partition, offset) = (partitions.value(row).to_string(), offsets.value(row).to_string());
        for (name, value) in [
            ("topic", topic(names, topics.key(row))),
            ("partition", &partition),
            ("offset", &offset),
            ("stage", &stage),
            ("exception.class.name", EXCEPTION),
            ("exception.message", text),
        ] {
            headers.append(&format!("{PREFIX}{name}"), value.as_bytes());
        }
        headers.end_row();
    }
    let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
    for name in ["key", "value", "timestamp"] {
        columns.push((name, Arc::clone(column(name)?)));
    }
    columns.push(("headers", headers.finish()?));
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, column)| (name, column, true)))
        .map_err(|error| error.to_string())
}

fn topic(names: &StringArray, key: Option<usize>) -> &str {
    key.filter(|key| *key < names.len()).map_or("", |key| names.value(key))
}
