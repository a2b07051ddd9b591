//! Decoding and encoding of formats v0 and v1, alone and mixed with v2.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch};
use bytes::Bytes;
use proptest::prelude::*;
use samsarrow_arrow::{
    Appended, Columns, DecodeOptions, Decoder, EncodeError, EncodeOptions, Layout, Window, decode_batches,
    encode_batches,
};
use samsarrow_wire::batch::patch::set_log_append_time;
use samsarrow_wire::batch::{LegacyBuilder, LegacyOptions, batches};
use samsarrow_wire::compression::{Codec, Compressor};

const LAYOUTS: [Layout; 2] = [Layout::Binary, Layout::View];
const CODECS: [Codec; 4] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4];

/// A row: offset, timestamp, timestamp type, key and value.
type Row = (i64, Option<i64>, Option<i8>, Option<Vec<u8>>, Option<Vec<u8>>);

fn rows(batch: &RecordBatch) -> Vec<Row> {
    for column in batch.columns() {
        column.to_data().validate_full().unwrap();
    }
    let bytes = |name: &str, row| {
        let column = &batch[name];
        column.is_valid(row).then(|| match column.as_binary_opt::<i32>() {
            Some(values) => values.value(row).to_vec(),
            None => column.as_binary_view().value(row).to_vec(),
        })
    };
    let times = batch["timestamp"].as_primitive::<TimestampMillisecondType>();
    let types = batch["timestamp_type"].as_primitive::<Int8Type>();
    (0..batch.num_rows())
        .map(|row| {
            (
                batch["offset"].as_primitive::<Int64Type>().value(row),
                times.is_valid(row).then(|| times.value(row)),
                types.is_valid(row).then(|| types.value(row)),
                bytes("key", row),
                bytes("value", row),
            )
        })
        .collect()
}

fn decode(wire: &[u8], layout: Layout) -> Vec<Row> {
    let options = DecodeOptions { layout, ..DecodeOptions::default() };
    rows(&decode_batches(Bytes::copy_from_slice(wire), options).unwrap())
}

/// Key, value, timestamp.
type InputRow = (Option<Vec<u8>>, Option<Vec<u8>>, Option<i64>);

fn table(rows: &[InputRow]) -> RecordBatch {
    let key: ArrayRef = Arc::new(BinaryArray::from_iter(rows.iter().map(|row| row.0.clone())));
    let value: ArrayRef = Arc::new(BinaryArray::from_iter(rows.iter().map(|row| row.1.clone())));
    let time: ArrayRef = Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.2)));
    RecordBatch::try_from_iter([("key", key), ("value", value), ("t", time)]).unwrap()
}

fn timed() -> Columns {
    Columns { timestamp: Some("t".into()), ..Columns::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn round_trip(
        input in prop::collection::vec(
            (
                prop::option::of(prop::collection::vec(any::<u8>(), 0..40)),
                prop::option::of(prop::collection::vec(any::<u8>(), 0..200)),
                prop::option::of(0..i64::MAX),
            ),
            0..40,
        ),
        magic in 0i8..=1,
        codec in prop::sample::select(&CODECS),
        base_offset in prop_oneof![Just(0), 1..1000i64, (1i64 << 40)..(1 << 41)],
        batch_size in prop_oneof![Just(1usize), 30..2000usize, Just(1 << 20)],
    ) {
        let options = EncodeOptions { magic, codec, base_offset, batch_size, ..EncodeOptions::default() };
        let wire = encode_batches(&table(&input), &timed(), &options).unwrap();
        let expected: Vec<Row> = input
            .into_iter()
            .zip(base_offset..)
            .map(|((key, value, time), offset)| {
                let time = time.filter(|_| magic == 1);
                (offset, time, (magic == 1).then_some(0), key, value)
            })
            .collect();
        for layout in LAYOUTS {
            prop_assert_eq!(&decode(&wire, layout), &expected);
        }
        let mut next = base_offset;
        for batch in batches(wire.into()) {
            let batch = batch.unwrap();
            prop_assert!(batch.check_crc().is_ok());
            prop_assert_eq!(batch.header.magic, magic);
            prop_assert_eq!(batch.header.is_wrapper(), codec != Codec::None);
            next = batch.header.next_offset();
        }
        prop_assert_eq!(next, base_offset + expected.len() as i64);
    }
}

/// Encodes thirty records, five per batch, in all formats and codecs.
fn mixture() -> Vec<u8> {
    let kinds =
        [(0, Codec::Gzip), (1, Codec::None), (1, Codec::Snappy), (2, Codec::Lz4), (0, Codec::None), (1, Codec::Lz4)];
    let part = |((magic, codec), base_offset): ((i8, Codec), i64)| {
        let input: Vec<_> = (base_offset..base_offset + 5).map(|i| (None, Some(value(i)), Some(i * 10))).collect();
        let options = EncodeOptions { magic, codec, base_offset, ..EncodeOptions::default() };
        encode_batches(&table(&input), &timed(), &options).unwrap()
    };
    kinds.into_iter().zip((0..).step_by(5)).flat_map(part).collect()
}

fn value(offset: i64) -> Vec<u8> {
    format!("the value at {offset}, which is no short one").into_bytes()
}

fn offsets(batch: &RecordBatch) -> Vec<i64> {
    let rows = rows(batch);
    for (offset, time, kind, _, bytes) in &rows {
        assert_eq!(bytes.as_ref(), Some(&value(*offset)));
        let of_v0 = matches!(offset, 0..5 | 20..25);
        assert_eq!((*time, *kind), if of_v0 { (None, None) } else { (Some(offset * 10), Some(0)) }, "{offset}");
    }
    rows.iter().map(|row| row.0).collect()
}

fn append(decoder: &mut Decoder, data: Bytes, window: Window<'_>) -> Appended {
    decoder.append(&Arc::from("t"), 0, data, window).unwrap()
}

fn decoder(layout: Layout) -> Decoder {
    Decoder::new(DecodeOptions { layout, ..DecodeOptions::default() })
}

#[test]
fn windows_start_and_end_within_wrappers() {
    let data = Bytes::from(mixture());
    for layout in LAYOUTS {
        for from in 0..31 {
            for until in from..32 {
                let mut decoder = decoder(layout);
                let window = Window { until_offset: Some(until), ..Window::from(from) };
                let appended = append(&mut decoder, data.clone(), window);
                assert_eq!(offsets(&decoder.finish().unwrap()), (from..until.min(30)).collect::<Vec<_>>());
                assert_eq!(appended.next_offset, until.min(30).max(from), "{from} to {until}");
                assert_eq!(appended.reached_until, until < 30, "{from} to {until}");
            }
        }
    }
}

#[test]
fn continues_after_row_and_byte_limits() {
    for layout in LAYOUTS {
        for (max_rows, max_bytes) in (1..32).map(|rows| (rows, usize::MAX)).chain([(1000, 1), (3, 300), (1000, 400)]) {
            let options = DecodeOptions { layout, max_bytes: max_bytes.min(i32::MAX as usize), ..Default::default() };
            let mut decoder = Decoder::new(options);
            let (mut data, mut from, mut all) = (Bytes::from(mixture()), 0, Vec::new());
            loop {
                let window = Window { max_rows: Some(max_rows), ..Window::from(from) };
                let appended = append(&mut decoder, data.clone(), window);
                let batch = decoder.finish().unwrap();
                assert!(batch.num_rows() <= max_rows && batch.num_rows() == appended.rows);
                all.extend(offsets(&batch));
                (data, from) = (data.slice(appended.consumed..), appended.next_offset);
                assert_eq!(from, all.last().unwrap() + 1);
                if !appended.row_limit && !appended.full {
                    break;
                }
            }
            assert_eq!(all, (0..30).collect::<Vec<_>>(), "{max_rows} rows, {max_bytes} bytes");
        }
    }
}

/// For any prefix of a response, the complete messages and batches are returned, and the truncation is reported.
#[test]
fn truncated_input_returns_complete_entries() {
    let data = Bytes::from(mixture());
    let ends: Vec<(usize, i64)> = batches(data.clone())
        .map(|batch| {
            let batch = batch.unwrap();
            (batch.position + batch.bytes().len(), batch.header.next_offset())
        })
        .collect();
    for layout in LAYOUTS {
        for cut in 0..=data.len() {
            let mut decoder = decoder(layout);
            let appended = append(&mut decoder, data.slice(..cut), Window::from(0));
            let (end, next) = ends.iter().rev().find(|(end, _)| *end <= cut).copied().unwrap_or((0, 0));
            assert_eq!(offsets(&decoder.finish().unwrap()), (0..next).collect::<Vec<_>>(), "cut at {cut}");
            assert_eq!((appended.consumed, appended.next_offset, appended.truncated_tail), (end, next, end < cut));
        }
    }
}

#[test]
fn append_time_of_wrapper_applies_to_its_messages() {
    for codec in CODECS {
        let input: Vec<_> = (0..3).map(|i| (None, Some(vec![i]), Some(100 + i64::from(i)))).collect();
        let options = EncodeOptions { magic: 1, codec, base_offset: 7, ..EncodeOptions::default() };
        let wire = encode_batches(&table(&input), &timed(), &options).unwrap();
        let mut stamped = Vec::new();
        for batch in batches(wire.into()) {
            let batch = batch.unwrap();
            assert_eq!(
                batch.header.max_timestamp,
                if codec == Codec::None { 93 + batch.header.base_offset } else { 102 }
            );
            let mut bytes = batch.bytes().to_vec();
            set_log_append_time(&mut bytes, 5555).unwrap();
            stamped.extend_from_slice(&bytes);
        }
        for layout in LAYOUTS {
            let expected: Vec<Row> =
                (0..3u8).map(|i| (7 + i64::from(i), Some(5555), Some(1), None, Some(vec![i]))).collect();
            assert_eq!(decode(&stamped, layout), expected, "{codec:?}");
        }
    }
}

/// Old versions of librdkafka wrote wrappers with offset 0. A fetch position within such a wrapper must not skip the
/// wrapper.
#[test]
fn wrapper_with_offset_zero_is_readable_from_any_offset() {
    for magic in [0, 1] {
        let mut builder = LegacyBuilder::new(LegacyOptions { magic, ..LegacyOptions::default() }).unwrap();
        for i in 0..4 {
            builder.append(i, None, Some(&[i as u8]), std::iter::empty()).unwrap();
        }
        let mut wire = builder.finish(&mut Compressor::new(Codec::Gzip, None).unwrap()).unwrap();
        wire[..8].copy_from_slice(&0i64.to_be_bytes());
        for layout in LAYOUTS {
            for from in 0..5 {
                let mut decoder = decoder(layout);
                let appended = append(&mut decoder, wire.clone().into(), Window::from(from));
                let actual: Vec<_> = rows(&decoder.finish().unwrap()).iter().map(|row| row.0).collect();
                assert_eq!(actual, (from..4).collect::<Vec<_>>());
                assert_eq!(appended.next_offset, 4);
            }
        }
    }
}

#[test]
fn rejects_features_missing_in_old_formats() {
    let data = table(&[(None, Some(vec![1]), None)]);
    for magic in [0, 1] {
        let plain = EncodeOptions { magic, ..EncodeOptions::default() };
        for options in [
            EncodeOptions { transactional: true, ..plain.clone() },
            EncodeOptions { producer_id: 5, ..plain.clone() },
            EncodeOptions { partition_leader_epoch: 0, ..plain.clone() },
        ] {
            let error = encode_batches(&data, &timed(), &options).unwrap_err();
            assert!(matches!(error, EncodeError::OldFormat { magic: m, .. } if m == magic), "{error}");
        }
        let zstd = EncodeOptions { codec: Codec::Zstd, ..plain };
        let text = encode_batches(&data, &timed(), &zstd).unwrap_err().to_string();
        assert!(text.contains("zstd") && text.contains(&format!("magic {magic}")), "{text}");
    }
    for magic in [-1, 3, 127] {
        let options = EncodeOptions { magic, ..EncodeOptions::default() };
        assert!(
            matches!(encode_batches(&data, &timed(), &options), Err(EncodeError::Magic { magic: m }) if m == magic)
        );
    }
}

/// Encodes ten uncompressed messages of at least 30 bytes, and returns the start of each.
fn plain(magic: i8) -> (Vec<u8>, Vec<usize>) {
    let input: Vec<_> = (0..10).map(|i| (None, Some(value(i)), Some(i * 10))).collect();
    let wire = encode_batches(&table(&input), &timed(), &EncodeOptions { magic, ..EncodeOptions::default() }).unwrap();
    let starts = batches(wire.clone().into()).map(|batch| batch.unwrap().position).collect();
    (wire, starts)
}

/// Decoding messages in runs must not change the rows before an invalid message.
#[test]
fn keeps_rows_before_invalid_message() {
    for (magic, layout) in [(0, Layout::Binary), (1, Layout::View), (1, Layout::Binary)] {
        let (wire, starts) = plain(magic);
        for (number, start) in starts.iter().enumerate() {
            // Positions to damage in a message: the last byte of its value, the length of the value, and the magic.
            let end = starts.get(number + 1).unwrap_or(&wire.len()) - 1;
            let length = start + if magic == 0 { 22 } else { 30 };
            for (at, found_without_check) in [(end, true), (length, false), (start + 16, false)] {
                for check_crcs in [true, false] {
                    let mut bad = wire.clone();
                    bad[at] ^= 0x40;
                    let options = DecodeOptions { layout, check_crcs, ..DecodeOptions::default() };
                    let mut decoder = Decoder::new(options);
                    let result = decoder.append(&Arc::from("t"), 0, bad.into(), Window::from(0));
                    let actual = rows(&decoder.finish().unwrap());
                    if !check_crcs && found_without_check {
                        assert_eq!((result.unwrap().next_offset, actual.len()), (10, 10));
                        continue;
                    }
                    let error = result.unwrap_err();
                    assert_eq!((error.offset, error.appended.rows, actual.len()), (number as i64, number, number));
                    assert_eq!(error.appended.consumed, *start);
                    assert!(error.to_string().contains(&format!("at byte {start}")), "{error}");
                }
            }
        }
    }
}

#[test]
fn runs_end_at_different_messages() {
    // Different append times.
    let (wire, starts) = plain(1);
    let mut stamped = wire.clone();
    for (number, start) in starts.iter().enumerate() {
        let end = *starts.get(number + 1).unwrap_or(&wire.len());
        if number % 3 > 0 {
            set_log_append_time(&mut stamped[*start..end], 5000 + number as i64 / 3).unwrap();
        }
    }
    for layout in LAYOUTS {
        for (i, row) in decode(&stamped, layout).into_iter().enumerate() {
            let i = i as i64;
            let time = if i % 3 > 0 { (5000 + i / 3, 1) } else { (i * 10, 0) };
            assert_eq!(row, (i, Some(time.0), Some(time.1), None, Some(value(i))));
        }
    }
    // The offsets descend or are far apart.
    for offsets in [[0, 0, 5, 4], [9, 1 << 40, 3, i64::from(i32::MAX)], [5, 5 + i64::from(i32::MAX), 1 << 62, 0]] {
        let mut odd = wire[..starts[4]].to_vec();
        for (start, offset) in starts.iter().zip(offsets) {
            odd[*start..start + 8].copy_from_slice(&i64::to_be_bytes(offset));
        }
        for layout in LAYOUTS {
            let actual: Vec<_> = decode(&odd, layout).iter().map(|row| row.0).collect();
            assert_eq!(actual, offsets);
        }
    }
}
