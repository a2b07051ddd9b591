//! Encoding rows in runs has the same result as encoding them one by one, for all types of columns.
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, Int64Array, LargeBinaryArray, RecordBatch,
};
use proptest::prelude::*;
use samsarrow_arrow::{Columns, EncodeOptions, RowReader, encode_batches};
use samsarrow_wire::batch::{Append, BatchBuilder, BatchOptions};
use samsarrow_wire::compression::{Codec, Compressor};

const LIMIT: usize = 9000;

/// Length of the key or value in each row; `None` for null.
type Lens = Vec<Option<usize>>;

fn column(kind: u8, lens: &Lens) -> ArrayRef {
    let rows: Vec<Option<Vec<u8>>> = lens
        .iter()
        .enumerate()
        .map(|(row, len)| len.map(|len| (0..len).map(|i| (row * 7 + i) as u8).collect()))
        .collect();
    match kind {
        0 => Arc::new(BinaryArray::from_iter(rows)),
        1 => Arc::new(LargeBinaryArray::from_iter(rows)),
        2 => Arc::new(BinaryViewArray::from_iter(rows)),
        _ => {
            let rows = rows.into_iter().map(|row| row.map(|row| [row.as_slice(), &[1; 20]].concat()[..20].to_vec()));
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(rows, 20).unwrap())
        }
    }
}

/// Returns runs of rows with equal lengths, with occasional nulls.
fn lens(max_len: usize) -> impl Strategy<Value = Lens> {
    let null = prop_oneof![6 => Just(None), 1 => (1..50usize).prop_map(Some)];
    let run = (1..90usize, prop_oneof![0..max_len, 60..68usize], null).prop_map(|(count, len, null)| -> Lens {
        (0..count).map(|row| if null.is_some_and(|every| row % every == 0) { None } else { Some(len) }).collect()
    });
    prop::collection::vec(run, 1..10).prop_map(|stretches| stretches.concat())
}

fn table() -> impl Strategy<Value = (RecordBatch, Columns)> {
    let key = prop::option::of((0..4u8, lens(40)));
    let timestamps = prop_oneof![Just(None), Just(Some((1, 1000))), Just(Some((5, 3)))];
    (key, (0..4u8, lens(300)), timestamps, 0..200usize).prop_map(|(key, (kind, lens), timestamps, skip)| {
        let rows = key.as_ref().map_or(lens.len(), |(_, keys)| keys.len().min(lens.len()));
        let mut columns = vec![("value", column(kind, &lens).slice(0, rows))];
        columns.extend(key.map(|(kind, lens)| ("key", column(kind, &lens).slice(0, rows))));
        columns.extend(timestamps.map(|(step, null): (i64, i64)| -> (&str, ArrayRef) {
            let at = |row: i64| (row % null != null - 1).then_some(1_700_000_000_000 + row * step);
            ("at", Arc::new((0..rows as i64).map(at).collect::<Int64Array>()))
        }));
        let timestamp = timestamps.map(|_| "at".to_owned());
        let named = Columns { value: Some("value".to_owned()), timestamp, ..Columns::default() };
        let nullable = columns.into_iter().map(|(name, array)| (name, array, true));
        let table = RecordBatch::try_from_iter_with_nullable(nullable).unwrap();
        let skip = skip.min(rows);
        (table.slice(skip, rows - skip), named)
    })
}

fn builder() -> BatchBuilder {
    BatchBuilder::new(BatchOptions { max_bytes: LIMIT, ..BatchOptions::default() })
}

fn one_by_one(rows: &RowReader, picked: impl Iterator<Item = usize>) -> Vec<u8> {
    let (mut builder, mut compressor) = (builder(), Compressor::new(Codec::None, None).unwrap());
    for row in picked {
        let timestamp = rows.timestamp(row).unwrap_or(7);
        while builder.append(timestamp, rows.key(row), rows.value(row), std::iter::empty()).unwrap() == Append::Full {
            close(&mut builder, &mut compressor);
        }
    }
    builder.finish(&mut compressor).unwrap()
}

/// Closes the batch. The offsets of the next batch continue from its end.
fn close(builder: &mut BatchBuilder, compressor: &mut Compressor) {
    let count = builder.count();
    builder.close(compressor).unwrap();
    builder.options_mut().base_offset += i64::from(count);
}

proptest! {
    #[test]
    fn runs_equal_single_appends((data, columns) in table()) {
        let rows = RowReader::new(&data, &columns).unwrap();
        let options = EncodeOptions { batch_size: LIMIT, default_timestamp: 7, ..EncodeOptions::default() };
        let expected = if rows.rows() == 0 { Vec::new() } else { one_by_one(&rows, 0..rows.rows()) };
        prop_assert!(encode_batches(&data, &columns, &options).unwrap() == expected);

        let picked: Vec<u32> = (0..rows.rows() as u32).filter(|row| row % 3 != 1).collect();
        let (mut builder, mut compressor) = (builder(), Compressor::new(Codec::None, None).unwrap());
        let mut taken = rows.append_picked(&mut builder, &picked, 7).unwrap();
        while taken < picked.len() {
            close(&mut builder, &mut compressor);
            taken += rows.append_picked(&mut builder, &picked[taken..], 7).unwrap();
        }
        let expected = one_by_one(&rows, picked.iter().map(|row| *row as usize));
        prop_assert!(builder.finish(&mut compressor).unwrap() == expected);
    }
}
