//! Order-independent digest of rows.
use arrow_array::RecordBatch;
use twox_hash::XxHash64;

use crate::encode::{BytesColumn, Columns, EncodeError, RowReader};

/// Marker that is hashed for a null. No length of a field is equal to this number.
const NULL: u64 = 0x9E37_79B9_7F4A_7C15;

/// Returns the sum of the hashes of all rows. The hash of a row covers its topic, partition, key, value and headers,
/// except for columns that do not exist. To combine several batches, add their digests, wrapping on overflow.
///
/// The topic of the rows is `topic` or, if that is `None`, the value of the column `topic`. The digest must not change
/// between releases, because it is stored at the broker.
pub fn digest(data: &RecordBatch, topic: Option<&str>) -> Result<u64, EncodeError> {
    let partition = data.column_by_name("partition").map(|_| "partition".to_owned());
    let rows = RowReader::new(data, &Columns { partition, ..Columns::default() })?;
    let topics = match (topic, data.column_by_name("topic")) {
        (None, Some(column)) => BytesColumn::new("topic", "topic", column)?,
        _ => BytesColumn::Null,
    };
    let of_row = |row| {
        let name = topic.map(str::as_bytes).or_else(|| topics.get(row));
        let partition = rows.partition(row).map(i32::to_le_bytes);
        let fields = [name, partition.as_ref().map(<[u8; 4]>::as_slice), rows.key(row), rows.value(row)];
        let hash = fields.into_iter().fold(0, add);
        rows.headers(row).fold(hash, |hash, (key, value)| add(add(hash, Some(key)), value))
    };
    Ok((0..rows.rows()).map(of_row).fold(0, u64::wrapping_add))
}

/// Adds a field to the hash. XXH64 includes the length of the field.
fn add(hash: u64, field: Option<&[u8]>) -> u64 {
    match field {
        Some(bytes) => XxHash64::oneshot(hash, bytes),
        None => hash.rotate_left(17) ^ NULL,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::builder::{BinaryBuilder, ListBuilder, StringBuilder, StructBuilder};
    use arrow_array::{ArrayRef, BinaryArray, Int32Array, LargeStringArray, StringArray};
    use arrow_schema::{DataType, Field, Fields};

    use super::*;

    type Row<'a> = (&'a str, Option<i32>, Option<&'a str>, Option<&'a str>);

    fn of(rows: &[Row<'_>]) -> u64 {
        let columns: [(&str, ArrayRef); 4] = [
            ("topic", Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.0)))),
            ("partition", Arc::new(Int32Array::from_iter(rows.iter().map(|row| row.1)))),
            ("key", Arc::new(LargeStringArray::from_iter(rows.iter().map(|row| row.2)))),
            ("value", Arc::new(StringArray::from_iter(rows.iter().map(|row| row.3)))),
        ];
        digest(&RecordBatch::try_from_iter(columns).unwrap(), None).unwrap()
    }

    #[test]
    fn digest_ignores_order_and_batches() {
        let (a, b): (Row<'_>, Row<'_>) = (("t", Some(1), Some("k"), Some("v")), ("u", None, None, Some("w")));
        assert_eq!(of(&[a, b]), of(&[b, a]));
        assert_eq!(of(&[a, b]), of(&[a]).wrapping_add(of(&[b])));
        assert_ne!(of(&[a, a]), of(&[b, b]));
        // These digests must not change, because they are stored at brokers.
        assert_eq!(of(&[a, b]), 0xAE06_E048_83F3_E0AB);
    }

    #[test]
    fn digest_covers_every_column() {
        let row: Row<'_> = ("t", Some(1), Some("k"), Some("v"));
        let others: [Row<'_>; 9] = [
            ("u", Some(1), Some("k"), Some("v")),
            ("t", Some(2), Some("k"), Some("v")),
            ("t", None, Some("k"), Some("v")),
            ("t", Some(1), Some("v"), Some("k")),
            ("t", Some(1), Some("kv"), Some("")),
            ("t", Some(1), Some(""), Some("kv")),
            ("t", Some(1), None, Some("v")),
            ("t", Some(1), Some("k"), None),
            ("t", Some(1), None, None),
        ];
        for other in others {
            assert_ne!(of(&[row]), of(&[other]), "{other:?}");
        }
        // The two pairs of rows have the same keys and values, but each key has a different value.
        let (a, b): (Row<'_>, Row<'_>) = (("t", None, Some("k1"), Some("v1")), ("t", None, Some("k2"), Some("v2")));
        let (c, d): (Row<'_>, Row<'_>) = (("t", None, Some("k1"), Some("v2")), ("t", None, Some("k2"), Some("v1")));
        assert_ne!(of(&[a, b]), of(&[c, d]));
    }

    #[test]
    fn digest_covers_headers_and_a_constant_topic() {
        let of = |headers: Option<&[(&str, Option<&str>)]>, topic| {
            let fields = Fields::from(vec![
                Field::new("key", DataType::Utf8, true),
                Field::new("value", DataType::Binary, true),
            ]);
            let pair = StructBuilder::new(fields, vec![Box::new(StringBuilder::new()), Box::new(BinaryBuilder::new())]);
            let mut list = ListBuilder::new(pair);
            for (key, value) in headers.unwrap_or_default() {
                let pair = list.values();
                pair.field_builder::<StringBuilder>(0).unwrap().append_value(key);
                pair.field_builder::<BinaryBuilder>(1).unwrap().append_option(value.map(str::as_bytes));
                pair.append(true);
            }
            list.append(headers.is_some());
            let value: ArrayRef = Arc::new(BinaryArray::from_vec(vec![b"v"]));
            let columns: [(&str, ArrayRef); 2] = [("value", value), ("headers", Arc::new(list.finish()))];
            digest(&RecordBatch::try_from_iter(columns).unwrap(), topic).unwrap()
        };
        let (a, b) = (("a", Some("1")), ("b", None));
        assert_eq!(of(None, None), of(Some(&[]), None));
        let all = [of(None, None), of(Some(&[a]), None), of(Some(&[a, b]), None), of(Some(&[b, a]), None)];
        let others = [of(Some(&[("a", None)]), None), of(None, Some("t")), of(None, Some("u"))];
        let different: std::collections::BTreeSet<u64> = all.into_iter().chain(others).collect();
        assert_eq!(different.len(), 7);
    }
}
