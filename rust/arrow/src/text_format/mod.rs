//! Text formats of decoded rows: lines of values, JSON objects with metadata, and lossless envelopes.

mod csv;
pub(crate) mod json;
mod scan;
mod template;
mod time;

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch};

use crate::encode::{BytesColumn, EncodeError, HeaderRow, HeadersReader, no_such_column, wrong_type};

pub use csv::CsvText;
pub use template::{Template, TemplateError};

/// Format of a row.
#[derive(Debug, Clone)]
pub enum LineFormat {
    /// The value and a newline. If the value is null, only the newline.
    Value,
    /// The values without separators.
    Raw,
    /// One JSON object per line, with metadata, headers, key and value, and the number of deliveries if the rows are of a
    /// share group. Key and value are written as text. A value that is a JSON object or array is embedded. Bytes that are
    /// not UTF-8 are written in base64 as `key_base64` and `value_base64`.
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

/// Rows of one batch as text, which is written in parts, so that a part is still in the cache when it is passed on.
#[derive(Debug)]
pub struct Text {
    rows: Rows,
    /// Number of rows that have been written.
    written: usize,
}

impl Text {
    /// Creates the text of a batch with the columns of [`batch_schema`](crate::schema::batch_schema).
    ///
    /// # Errors
    /// Fails if a column is missing or has a different type.
    pub fn new(batch: &RecordBatch) -> Result<Text, EncodeError> {
        Ok(Text { rows: Rows::new(batch)?, written: 0 })
    }

    /// Writes further rows, until the output has at least `limit` bytes or all rows are written. Returns false if there
    /// were no more rows.
    pub fn write(&mut self, format: &LineFormat, limit: usize, out: &mut Vec<u8>) -> bool {
        let before = self.written;
        let until_limit = |out: &Vec<u8>| out.len() < limit;
        let rows = &self.rows;
        let mut next = before..rows.len;
        match format {
            LineFormat::Value => rows.values(&mut next, until_limit, out, true),
            LineFormat::Raw => rows.values(&mut next, until_limit, out, false),
            LineFormat::Ndjson => rows.objects(&mut next, until_limit, out, false),
            LineFormat::JsonItems => rows.objects(&mut next, until_limit, out, true),
            LineFormat::Envelope => rows.envelopes(&mut next, until_limit, out),
            LineFormat::Template(template) => {
                while until_limit(out)
                    && let Some(row) = next.next()
                {
                    template.write(rows, row, out);
                }
            }
        }
        self.written = next.start;
        self.written > before
    }
}

/// The columns of a batch that are written.
#[derive(Debug)]
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

    fn values(&self, rows: &mut Range<usize>, until_limit: impl Fn(&Vec<u8>) -> bool, out: &mut Vec<u8>, lines: bool) {
        while until_limit(out)
            && let Some(row) = rows.next()
        {
            out.extend_from_slice(self.value.get(row).unwrap_or_default());
            if lines {
                out.push(b'\n');
            }
        }
    }

    /// Writes `{"topic":…,"partition":…,"offset":…`, the start of each object.
    #[inline]
    fn object_start<'a>(&'a self, row: usize, start: &mut ObjectStart<'a>, out: &mut Vec<u8>) {
        start.write(self.topic.get(row), valid(&self.partition, row), out);
        number(valid(&self.offset, row), out);
    }

    fn objects(&self, rows: &mut Range<usize>, until_limit: impl Fn(&Vec<u8>) -> bool, out: &mut Vec<u8>, items: bool) {
        let (mut start, mut times) = (ObjectStart::default(), time::IsoWriter::default());
        while until_limit(out)
            && let Some(row) = rows.next()
        {
            if items {
                out.extend_from_slice(b",\n");
            }
            self.object_start(row, &mut start, out);
            if self.delivery_count.is_some() {
                out.extend_from_slice(b",\"delivery_count\":");
                number(self.delivery_count(row), out);
            }
            out.extend_from_slice(b",\"timestamp\":");
            match valid(&self.timestamp, row) {
                Some(ms) => {
                    out.push(b'"');
                    times.write(ms, out);
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

    fn envelopes(&self, rows: &mut Range<usize>, until_limit: impl Fn(&Vec<u8>) -> bool, out: &mut Vec<u8>) {
        let mut start = ObjectStart::default();
        while until_limit(out)
            && let Some(row) = rows.next()
        {
            self.object_start(row, &mut start, out);
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

/// Text of topic and partition, kept from row to row, because most rows of a batch are of the same partition.
#[derive(Default)]
struct ObjectStart<'a> {
    topic: Option<&'a [u8]>,
    partition: Option<i32>,
    text: Vec<u8>,
}

impl<'a> ObjectStart<'a> {
    #[inline]
    fn write(&mut self, topic: Option<&'a [u8]>, partition: Option<i32>, out: &mut Vec<u8>) {
        if self.text.is_empty() || self.topic != topic || self.partition != partition {
            (self.topic, self.partition) = (topic, partition);
            self.text.clear();
            self.text.extend_from_slice(b"{\"topic\":");
            json::text_or_null(topic, &mut self.text);
            self.text.extend_from_slice(b",\"partition\":");
            number(partition.map(i64::from), &mut self.text);
            self.text.extend_from_slice(b",\"offset\":");
        }
        out.extend_from_slice(&self.text);
    }
}

/// Writes a decimal number, or `null`.
#[inline]
fn number(value: Option<i64>, out: &mut Vec<u8>) {
    let Some(value) = value else { return out.extend_from_slice(b"null") };
    let (mut left, mut text, mut at) = (value.unsigned_abs(), [b'0'; 20], 20);
    // An i64 has at most 19 digits, which leaves one byte for the sign.
    while left > 0 || at == text.len() {
        at -= 1;
        text[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
    if value < 0 {
        at -= 1;
        text[at] = b'-';
    }
    out.extend_from_slice(text.get(at..).unwrap_or_default());
}

#[cfg(test)]
mod tests;
