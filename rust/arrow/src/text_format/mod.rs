//! Text formats of decoded rows: lines of values, JSON objects with metadata, and lossless envelopes.

pub(crate) mod json;
mod template;
mod time;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};

use crate::encode::{BytesColumn, EncodeError, HeaderRow, HeadersReader, no_such_column, wrong_type};

pub use template::{Template, TemplateError};

/// Format of a row.
#[derive(Debug, Clone)]
pub enum LineFormat {
    /// The value and a newline. If the value is null, only the newline.
    Value,
    /// The values without separators.
    Raw,
    /// One JSON object per line, with metadata, headers, key and value, and the number of deliveries if the rows are of a
    /// share group. Key and value are written as text. A value that
    /// is a JSON object or array is embedded. Bytes that are not UTF-8 are written in base64 as `key_base64` and
    /// `value_base64`.
    Ndjson,
    /// The objects of [`LineFormat::Ndjson`], each preceded by a comma and a newline, as items of a JSON array.
    JsonItems,
    /// One JSON object per line, from which the exact record can be restored: key and value are in base64, timestamps
    /// in milliseconds.
    Envelope,
    /// A template from the user.
    Template(Template),
}

impl LineFormat {
    /// Returns the format with this name; templates have no name.
    pub fn from_name(name: &str) -> Option<LineFormat> {
        Some(match name {
            "value" => LineFormat::Value,
            "raw" => LineFormat::Raw,
            "ndjson" => LineFormat::Ndjson,
            "json" => LineFormat::JsonItems,
            "envelope" => LineFormat::Envelope,
            _ => return None,
        })
    }
}

/// Writes all rows of a batch with the columns of [`batch_schema`](crate::schema::batch_schema).
///
/// # Errors
/// Fails if a column is missing or has a different type.
pub fn render(batch: &RecordBatch, format: &LineFormat, out: &mut Vec<u8>) -> Result<(), EncodeError> {
    let rows = Rows::new(batch)?;
    out.reserve(rows.bytes_hint(format));
    match format {
        LineFormat::Value => rows.values(out, true),
        LineFormat::Raw => rows.values(out, false),
        LineFormat::Ndjson | LineFormat::JsonItems => rows.objects(out, matches!(format, LineFormat::JsonItems)),
        LineFormat::Envelope => rows.envelopes(out),
        LineFormat::Template(template) => (0..rows.len).for_each(|row| template.write(&rows, row, out)),
    }
    Ok(())
}

/// The columns of a batch that are written.
struct Rows {
    len: usize,
    key: BytesColumn,
    value: BytesColumn,
    topic: BytesColumn,
    partition: PrimitiveArray<Int32Type>,
    offset: PrimitiveArray<Int64Type>,
    timestamp: PrimitiveArray<TimestampMillisecondType>,
    timestamp_type: PrimitiveArray<Int8Type>,
    headers: Option<HeadersReader>,
    /// Number of deliveries; only rows of share groups have it.
    delivery_count: Option<PrimitiveArray<Int16Type>>,
}

impl Rows {
    fn new(batch: &RecordBatch) -> Result<Rows, EncodeError> {
        let column = |name: &'static str| batch.column_by_name(name).ok_or_else(|| no_such_column(batch, name, name));
        let bytes = |name: &'static str| BytesColumn::new(name, name, column(name)?);
        Ok(Rows {
            len: batch.num_rows(),
            key: bytes("key")?,
            value: bytes("value")?,
            topic: bytes("topic")?,
            partition: primitive("partition", column("partition")?, "int32")?,
            offset: primitive("offset", column("offset")?, "int64")?,
            timestamp: primitive("timestamp", column("timestamp")?, "timestamp[ms]")?,
            timestamp_type: primitive("timestamp_type", column("timestamp_type")?, "int8")?,
            delivery_count: batch
                .column_by_name("delivery_count")
                .map(|array| primitive("delivery_count", array, "int16"))
                .transpose()?,
            headers: batch.column_by_name("headers").map(|array| HeadersReader::new("headers", array)).transpose()?,
        })
    }

    fn delivery_count(&self, row: usize) -> Option<i64> {
        self.delivery_count.as_ref().and_then(|counts| valid(counts, row)).map(i64::from)
    }

    fn headers(&self, row: usize) -> HeaderRow<'_> {
        self.headers.as_ref().map(|headers| headers.get(row)).unwrap_or_default()
    }

    /// Returns the approximate size of the output for all rows. Columns in other layouts count as empty, so the output
    /// may have to grow, which copies it.
    fn bytes_hint(&self, format: &LineFormat) -> usize {
        let data = |column: &BytesColumn| match column {
            BytesColumn::Binary(array) => {
                array.value_offsets().last().zip(array.value_offsets().first()).map_or(0, |(b, a)| (b - a) as usize)
            }
            _ => 0,
        };
        match format {
            LineFormat::Value | LineFormat::Raw => data(&self.value) + self.len,
            LineFormat::Envelope => (data(&self.value) + data(&self.key)) * 4 / 3 + self.len * 140,
            _ => data(&self.value) + data(&self.key) + self.len * 140,
        }
    }

    fn values(&self, out: &mut Vec<u8>, lines: bool) {
        for row in 0..self.len {
            out.extend_from_slice(self.value.get(row).unwrap_or_default());
            if lines {
                out.push(b'\n');
            }
        }
    }

    /// Writes `{"topic":…,"partition":…,"offset":…`, the start of each object.
    fn object_start(&self, row: usize, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"topic\":");
        json::text_or_null(self.topic.get(row), out);
        out.extend_from_slice(b",\"partition\":");
        number(valid(&self.partition, row).map(i64::from), out);
        out.extend_from_slice(b",\"offset\":");
        number(valid(&self.offset, row), out);
    }

    fn objects(&self, out: &mut Vec<u8>, items: bool) {
        for row in 0..self.len {
            if items {
                out.extend_from_slice(b",\n");
            }
            self.object_start(row, out);
            if self.delivery_count.is_some() {
                out.extend_from_slice(b",\"delivery_count\":");
                number(self.delivery_count(row), out);
            }
            out.extend_from_slice(b",\"timestamp\":");
            match valid(&self.timestamp, row) {
                Some(ms) => {
                    out.push(b'"');
                    time::iso(ms, out);
                    out.push(b'"');
                }
                None => out.extend_from_slice(b"null"),
            }
            out.extend_from_slice(b",\"headers\":");
            self.header_pairs(row, out);
            json::member("key", self.key.get(row), json::Embed::Never, out);
            json::member("value", self.value.get(row), json::Embed::Containers, out);
            out.push(b'}');
            if !items {
                out.push(b'\n');
            }
        }
    }

    /// Writes `[["name","text"],["name",null],["name",{"base64":"…"}]]`: a list, because names may repeat.
    fn header_pairs(&self, row: usize, out: &mut Vec<u8>) {
        out.push(b'[');
        for (at, (name, value)) in self.headers(row).enumerate() {
            out.extend_from_slice(if at == 0 { b"[" } else { b",[" });
            json::text_or_null(Some(name), out);
            out.push(b',');
            match value.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
                None => out.extend_from_slice(b"null"),
                Some((_, Ok(text))) => json::string(text, out),
                Some((bytes, Err(_))) => {
                    out.extend_from_slice(b"{\"base64\":");
                    json::base64(Some(bytes), out);
                    out.push(b'}');
                }
            }
            out.push(b']');
        }
        out.push(b']');
    }

    fn envelopes(&self, out: &mut Vec<u8>) {
        for row in 0..self.len {
            self.object_start(row, out);
            out.extend_from_slice(b",\"timestamp\":");
            number(valid(&self.timestamp, row), out);
            out.extend_from_slice(b",\"timestamp_type\":");
            number(valid(&self.timestamp_type, row).map(i64::from), out);
            out.extend_from_slice(b",\"headers\":[");
            for (at, (name, value)) in self.headers(row).enumerate() {
                out.extend_from_slice(if at == 0 { b"[" } else { b",[" });
                json::text_or_null(Some(name), out);
                out.push(b',');
                json::base64(value, out);
                out.push(b']');
            }
            out.extend_from_slice(b"],\"key\":");
            json::base64(self.key.get(row), out);
            out.extend_from_slice(b",\"value\":");
            json::base64(self.value.get(row), out);
            out.extend_from_slice(b"}\n");
        }
    }
}

fn primitive<T: arrow_array::ArrowPrimitiveType>(
    name: &'static str,
    column: &ArrayRef,
    expected: &'static str,
) -> Result<PrimitiveArray<T>, EncodeError> {
    column.as_primitive_opt().cloned().ok_or_else(|| wrong_type(name, name, column, expected))
}

fn valid<T: arrow_array::ArrowPrimitiveType>(array: &PrimitiveArray<T>, row: usize) -> Option<T::Native> {
    (row < array.len() && array.is_valid(row)).then(|| array.value(row))
}

/// Writes a decimal number, or `null`.
fn number(value: Option<i64>, out: &mut Vec<u8>) {
    let Some(value) = value else { return out.extend_from_slice(b"null") };
    if value < 0 {
        out.push(b'-');
    }
    let (mut left, mut digits, mut len) = (value.unsigned_abs(), [0; 20], 0);
    for digit in &mut digits {
        *digit = b'0' + (left % 10) as u8;
        (left, len) = (left / 10, len + 1);
        if left == 0 {
            break;
        }
    }
    out.extend(digits.iter().take(len).rev());
}

#[cfg(test)]
mod tests;
