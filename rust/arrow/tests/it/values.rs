//! Encoding of values in steps of bounded size, for any rows.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, DictionaryArray, Int64Array, RecordBatch, StringArray, TimestampSecondArray};
use samsarrow_arrow::encode::EncodeError;
use samsarrow_arrow::value_encoding::{ValueColumns, ValueFormat, ValueWriter};

fn table(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, array)| (name, array, true))).unwrap()
}

fn of(name: &str) -> ValueColumns {
    ValueColumns::One(name.to_owned())
}

/// Returns values of 1 to 2,000 bytes. The small values come first, so that all size estimates are wrong.
fn uneven() -> RecordBatch {
    let sizes = (0..3000).map(|row| if row < 2000 { row % 3 } else { 500 + row % 1500 });
    let texts = sizes.enumerate().map(|(row, size)| (row % 7 != 3).then(|| "x".repeat(size)));
    table(vec![("n", Arc::new(Int64Array::from_iter(0..3000))), ("text", Arc::new(texts.collect::<StringArray>()))])
}

fn parts(data: &RecordBatch, columns: &ValueColumns, format: ValueFormat, max: usize) -> Vec<Vec<Option<Vec<u8>>>> {
    let mut writer = ValueWriter::new(data, columns, format).unwrap();
    let (mut parts, mut next) = (Vec::new(), 0);
    while let Some((range, values)) = writer.next(max).unwrap() {
        assert_eq!((range.start, range.len()), (next, values.len()));
        assert!(!range.is_empty());
        next = range.end;
        parts.push(values.iter().map(|value| value.map(<[u8]>::to_vec)).collect());
    }
    assert_eq!(next, data.num_rows());
    parts
}

#[test]
fn parts_are_bounded_and_complete() {
    let data = uneven();
    let both = ValueColumns::Struct(vec!["n".to_owned(), "text".to_owned()]);
    for (format, columns) in
        [(ValueFormat::Json, of("text")), (ValueFormat::Json, both), (ValueFormat::Ipc, of("text"))]
    {
        let expected = parts(&data, &columns, format, usize::MAX).concat();
        for max in [1, 100, 10_000, 1_000_000] {
            let actual = parts(&data, &columns, format, max);
            for part in &actual {
                let size = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
                let (bytes, last) = (part.iter().map(size).sum::<usize>(), part.iter().map(size).max().unwrap());
                assert!(bytes < max + last.max(1), "{bytes} of {max}");
            }
            // There are at most about three times as many steps as necessary, and a few more because the row sizes are
            // not known in advance.
            let total = expected.iter().flatten().map(Vec::len).sum::<usize>();
            assert!(actual.len() <= 3 * (total / max) + expected.len() / 64 + 64, "{} parts of {max}", actual.len());
            assert_eq!(actual.concat(), expected);
        }
    }
}

#[test]
fn null_is_a_null_value() {
    let coded: DictionaryArray<arrow_array::types::Int8Type> = vec![Some("a"), None].into_iter().collect();
    let data = table(vec![("v", Arc::new(coded))]);
    assert_eq!(parts(&data, &of("v"), ValueFormat::Json, 1).concat(), [Some(b"\"a\"".to_vec()), None]);
    let [ipc, none] = &parts(&data, &of("v"), ValueFormat::Ipc, 1000)[0][..] else { unreachable!() };
    assert!(ipc.as_ref().is_some_and(|bytes| bytes.starts_with(&[0xff; 4])) && none.is_none());
}

#[test]
fn error_has_the_row_index() {
    let mut times: Vec<i64> = vec![0; 1000];
    times[777] = i64::MAX;
    let data = table(vec![("at", Arc::new(TimestampSecondArray::from(times)))]);
    let mut writer = ValueWriter::new(&data, &of("at"), ValueFormat::Json).unwrap();
    let failed = loop {
        match writer.next(100) {
            Ok(part) => assert!(part.is_some()),
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, EncodeError::Row { row: 777, .. }), "{failed}");
}
