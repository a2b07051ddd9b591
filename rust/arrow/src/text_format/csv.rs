//! Rows as lines of CSV (RFC 4180).

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMillisecondType, UInt8Type, UInt16Type, UInt32Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, TimeUnit};

use super::time::IsoWriter;
use super::{number, valid};
use crate::encode::{BytesColumn, EncodeError, wrong_type};

/// Rows of one batch as lines of CSV, which are written in parts.
#[derive(Debug)]
pub struct CsvText {
    columns: Vec<Column>,
    rows: usize,
    written: usize,
}

/// A column in the form in which it is written. Nulls are written as no characters.
#[derive(Debug)]
enum Column {
    /// Text in quotes, of string columns.
    Quoted(BytesColumn),
    /// Text without quotes, of binary columns, whose caller has formatted their values.
    Bare(BytesColumn),
    Int8(PrimitiveArray<Int8Type>),
    Int16(PrimitiveArray<Int16Type>),
    Int32(PrimitiveArray<Int32Type>),
    Int64(PrimitiveArray<Int64Type>),
    UInt8(PrimitiveArray<UInt8Type>),
    UInt16(PrimitiveArray<UInt16Type>),
    UInt32(PrimitiveArray<UInt32Type>),
    /// Times in UTC, with the text of the last second.
    Time(PrimitiveArray<TimestampMillisecondType>, IsoWriter),
}

impl CsvText {
    /// Creates the lines of a batch whose columns are strings, integers except for uint64, timestamps in milliseconds
    /// and UTC, and binary columns with values that are written unchanged.
    ///
    /// # Errors
    /// Fails if a column has another type.
    pub fn new(batch: &RecordBatch) -> Result<CsvText, EncodeError> {
        let fields = batch.schema();
        let columns =
            fields.fields().iter().zip(batch.columns()).map(|(field, array)| Column::new(field.name(), array));
        Ok(CsvText { columns: columns.collect::<Result<_, _>>()?, rows: batch.num_rows(), written: 0 })
    }

    /// Writes further rows, until the output has at least `limit` bytes or all rows are written. Returns false if there
    /// were no more rows.
    pub fn write(&mut self, limit: usize, out: &mut Vec<u8>) -> bool {
        let before = self.written;
        while out.len() < limit && self.written < self.rows {
            for (at, column) in self.columns.iter_mut().enumerate() {
                if at > 0 {
                    out.push(b',');
                }
                column.write(self.written, out);
            }
            out.push(b'\n');
            self.written += 1;
        }
        self.written > before
    }
}

impl Column {
    fn new(name: &str, array: &ArrayRef) -> Result<Column, EncodeError> {
        let bytes = || BytesColumn::new("column", name, array);
        Ok(match array.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Column::Quoted(bytes()?),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Column::Bare(bytes()?),
            DataType::Int8 => Column::Int8(array.as_primitive().clone()),
            DataType::Int16 => Column::Int16(array.as_primitive().clone()),
            DataType::Int32 => Column::Int32(array.as_primitive().clone()),
            DataType::Int64 => Column::Int64(array.as_primitive().clone()),
            DataType::UInt8 => Column::UInt8(array.as_primitive().clone()),
            DataType::UInt16 => Column::UInt16(array.as_primitive().clone()),
            DataType::UInt32 => Column::UInt32(array.as_primitive().clone()),
            DataType::Timestamp(TimeUnit::Millisecond, Some(zone)) if zone.as_ref() == "UTC" => {
                Column::Time(array.as_primitive().clone(), IsoWriter::of_csv())
            }
            _ => return Err(wrong_type("column", name, array, "string, integer, timestamp[ms, UTC] or binary")),
        })
    }

    #[inline]
    fn write(&mut self, row: usize, out: &mut Vec<u8>) {
        match self {
            Column::Quoted(column) => column.get(row).into_iter().for_each(|bytes| quoted(bytes, out)),
            Column::Bare(column) => out.extend_from_slice(column.get(row).unwrap_or_default()),
            Column::Int8(array) => integer(array, row, out),
            Column::Int16(array) => integer(array, row, out),
            Column::Int32(array) => integer(array, row, out),
            Column::Int64(array) => integer(array, row, out),
            Column::UInt8(array) => integer(array, row, out),
            Column::UInt16(array) => integer(array, row, out),
            Column::UInt32(array) => integer(array, row, out),
            Column::Time(array, times) => valid(array, row).into_iter().for_each(|ms| times.write(ms, out)),
        }
    }
}

#[inline]
fn integer<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &PrimitiveArray<T>, row: usize, out: &mut Vec<u8>) {
    if let Some(value) = valid(array, row) {
        number(Some(value.into()), out);
    }
}

/// Writes text in quotes, with each quote doubled.
#[inline]
fn quoted(bytes: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    // The output is filled with quotes, so that only the position depends on the byte: text such as JSON has a quote in
    // every tenth byte, where a branch would be mispredicted.
    out.resize(start + 2 * bytes.len() + 2, b'"');
    let mut at = start + 1;
    for &byte in bytes {
        if let Some(target) = out.get_mut(at) {
            *target = byte;
        }
        at += 1 + usize::from(byte == b'"');
    }
    out.truncate(at + 1);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{BinaryArray, Float64Array, Int32Array, StringArray, TimestampMillisecondArray};
    use proptest::prelude::*;

    use super::*;

    fn text(columns: Vec<(&str, ArrayRef)>, limit: usize) -> String {
        let mut text = CsvText::new(&RecordBatch::try_from_iter(columns).unwrap()).unwrap();
        let mut all = Vec::new();
        loop {
            let mut part = Vec::new();
            if !text.write(limit, &mut part) {
                return String::from_utf8(all).unwrap();
            }
            all.extend(part);
        }
    }

    #[test]
    fn each_type_has_its_form() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("text", Arc::new(StringArray::from(vec![Some("a\"b\n,"), Some(""), None]))),
            ("bare", Arc::new(BinaryArray::from(vec![Some(&b"1.5"[..]), None, Some(b"true")]))),
            ("number", Arc::new(Int32Array::from(vec![Some(-7), None, Some(i32::MIN)]))),
            (
                "time",
                Arc::new(
                    TimestampMillisecondArray::from(vec![Some(1_793_527_200_123), None, Some(0)]).with_timezone("UTC"),
                ),
            ),
        ];
        let expected =
            "\"a\"\"b\n,\",1.5,-7,2026-11-01 10:00:00.123Z\n\"\",,,\n,true,-2147483648,1970-01-01 00:00:00.000Z\n";
        assert_eq!(text(columns.clone(), 1), expected);
        assert_eq!(text(columns, 1 << 20), expected);
    }

    #[test]
    fn rejects_other_types() {
        let batch =
            RecordBatch::try_from_iter([("price", Arc::new(Float64Array::from(vec![1.5])) as ArrayRef)]).unwrap();
        let error = CsvText::new(&batch).unwrap_err().to_string();
        assert!(error.contains("price") && error.contains("Float64"), "{error}");
    }

    proptest! {
        #[test]
        fn quotes_are_doubled(text in "[a\"\u{e4}\n,]{0,40}") {
            let mut out = Vec::new();
            quoted(text.as_bytes(), &mut out);
            prop_assert_eq!(String::from_utf8(out).unwrap(), format!("\"{}\"", text.replace('"', "\"\"")));
        }
    }
}
