//! Reading of segments as Arrow batches of the requested size, with the same rows as in one batch.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use bytes::Bytes;
use proptest::prelude::*;
use samsarrow_arrow::segment::{SegmentReadError, Step};
use samsarrow_arrow::{Columns, DecodeOptions, EncodeOptions, Layout, SegmentOptions, SegmentReader, encode_batches};
use samsarrow_wire::compression::Codec;

fn part(magic: i8, codec: Codec, base_offset: i64, rows: usize) -> Vec<u8> {
    let values = (0..rows as i64).map(|i| format!("value of offset {}", base_offset + i));
    let value: ArrayRef = Arc::new(BinaryArray::from_iter_values(values));
    let data = RecordBatch::try_from_iter([("value", value)]).unwrap();
    let codec = if magic < 2 && codec == Codec::Zstd { Codec::None } else { codec };
    let options = EncodeOptions { magic, codec, base_offset, batch_size: 700, ..EncodeOptions::default() };
    encode_batches(&data, &Columns::default(), &options).unwrap()
}

fn options(layout: Layout, max_bytes: usize) -> SegmentOptions {
    SegmentOptions {
        decode: DecodeOptions { layout, max_bytes, ..DecodeOptions::default() },
        topic_partition: Some((Arc::from("t"), 7)),
        from_offset: None,
        until_offset: None,
        max_rows: None,
    }
}

/// Reads all batches, and returns the error at the end, if any.
fn read(data: &[u8], options: SegmentOptions) -> (Vec<RecordBatch>, Option<SegmentReadError>) {
    let mut reader = SegmentReader::new(Box::new(Bytes::copy_from_slice(data)), options);
    let mut batches = Vec::new();
    for _ in 0..100_000 {
        match reader.step() {
            Ok(Step::Batch(batch)) => batches.push(batch),
            Ok(Step::More) => {}
            Ok(Step::End) => return (batches, None),
            Err(error) => {
                assert!(matches!(reader.step(), Ok(Step::End)), "after an error is the end");
                return (batches, Some(error));
            }
        }
    }
    panic!("a reader does not end");
}

fn offsets(batches: &[RecordBatch]) -> Vec<i64> {
    let mut all = Vec::new();
    for batch in batches {
        let offsets = batch["offset"].as_primitive::<Int64Type>().values();
        for (row, &offset) in offsets.iter().enumerate() {
            let value = match batch["value"].as_binary_opt::<i32>() {
                Some(values) => values.value(row),
                None => batch["value"].as_binary_view().value(row),
            };
            assert_eq!(value, format!("value of offset {offset}").as_bytes());
        }
        assert_eq!(batch["partition"].null_count(), 0);
        all.extend_from_slice(offsets);
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn returns_every_row_once(
        parts in prop::collection::vec((0i8..=2, prop::sample::select(Codec::ALL.to_vec()), 1usize..120), 0..6),
        layout in prop::sample::select(vec![Layout::Binary, Layout::View]),
        max_bytes in prop::sample::select(vec![1usize, 600, 3000, 1 << 20]),
        max_rows in prop::option::of(1usize..200),
        from in prop::option::of(-5i64..400),
        until in prop::option::of(-5i64..400),
        tail in prop::sample::select(vec![&b""[..], b"\0\0\0\0", b"no batch, no batch, no batch"]),
    ) {
        let (mut data, mut expected, mut next) = (Vec::new(), Vec::new(), 0);
        for (magic, codec, rows) in parts {
            data.extend(part(magic, codec, next, rows));
            expected.extend(next..next + rows as i64);
            // Leave gaps between the offsets.
            next += rows as i64 + 3;
        }
        let good = data.len() as u64;
        data.extend_from_slice(tail);
        let mut options = options(layout, max_bytes);
        (options.max_rows, options.from_offset, options.until_offset) = (max_rows, from, until);
        let (batches, error) = read(&data, options);
        expected.retain(|offset| *offset >= from.unwrap_or(0) && until.is_none_or(|until| *offset < until));
        prop_assert_eq!(offsets(&batches), expected);
        for batch in &batches {
            prop_assert!(batch.num_rows() > 0 && max_rows.is_none_or(|most| batch.num_rows() <= most));
        }
        match error {
            None => {}
            Some(SegmentReadError::Segment(error)) => {
                prop_assert!(tail.len() > 20);
                prop_assert_eq!(error.position, good);
                if good > 0 {
                    prop_assert_eq!(error.offset, next - 3);
                }
            }
            Some(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn damaged_segments_never_panic(
        parts in prop::collection::vec((0i8..=2, prop::sample::select(Codec::ALL.to_vec()), 1usize..60), 1..4),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5),
        cut in any::<prop::sample::Index>(),
        check_crcs in any::<bool>(),
    ) {
        let mut data: Vec<u8> = parts.iter().flat_map(|&(magic, codec, rows)| part(magic, codec, 0, rows)).collect();
        for (at, byte) in damage {
            let at = at.index(data.len());
            data[at] = byte;
        }
        data.truncate(cut.index(data.len()) + 1);
        for layout in [Layout::Binary, Layout::View] {
            let mut options = options(layout, 2000);
            (options.decode.check_crcs, options.decode.include_headers) = (check_crcs, true);
            let (batches, error) = read(&data, options);
            let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
            prop_assert!(rows <= data.len());
            if let Some(SegmentReadError::Segment(error)) = error {
                prop_assert!(error.position <= data.len() as u64);
            }
        }
    }
}

#[test]
fn batch_size_is_about_the_requested_size() {
    let data = part(2, Codec::None, 0, 20_000);
    let (batches, _) = read(&data, options(Layout::Binary, 50_000));
    let sizes: Vec<_> = batches.iter().map(|batch| batch["value"].as_binary::<i32>().value_data().len()).collect();
    assert!(sizes.iter().all(|&size| size <= 50_000), "{sizes:?}");
    assert!(sizes.iter().rev().skip(1).all(|&size| size > 25_000), "{sizes:?}");
}
