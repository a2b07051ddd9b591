//! Windows, limits, transactions and errors of `Decoder::append`.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch};
use bytes::Bytes;
use samsarrow_arrow::{
    AbortedTransaction, AbortedTransactions, Columns, DecodeCause, DecodeOptions, Decoder, EncodeOptions, Layout,
    Window, decode_batches, encode_batches, memory_of,
};
use samsarrow_wire::batch::patch::{set_log_append_time, set_producer};
use samsarrow_wire::batch::{BatchBuilder, BatchErrorKind, BatchOptions, ControlType};
use samsarrow_wire::compression::{Codec, Compressor};

const LAYOUTS: [Layout; 2] = [Layout::Binary, Layout::View];

/// Encodes batches of five records each; offsets start at 0.
fn wire(batches: i64) -> Vec<u8> {
    (0..batches).flat_map(|i| batch(i * 5, -1, false)).collect()
}

fn batch(base_offset: i64, producer_id: i64, transactional: bool) -> Vec<u8> {
    let value: ArrayRef = Arc::new(BinaryArray::from_iter_values((0..5).map(|i| format!("value {}", base_offset + i))));
    let data = RecordBatch::try_from_iter([("value", value)]).unwrap();
    let options = EncodeOptions { base_offset, producer_id, transactional, ..EncodeOptions::default() };
    encode_batches(&data, &Columns::default(), &options).unwrap()
}

fn marker(base_offset: i64, producer_id: i64, control_type: u8) -> Vec<u8> {
    let options =
        BatchOptions { base_offset, producer_id, transactional: true, control: true, ..BatchOptions::default() };
    let mut builder = BatchBuilder::new(options);
    builder.append(7, Some(&[0, 0, 0, control_type]), Some(&[0; 6]), std::iter::empty()).unwrap();
    builder.finish(&mut Compressor::new(Codec::None, None).unwrap()).unwrap()
}

fn offsets(batch: &RecordBatch) -> Vec<i64> {
    let offsets = batch["offset"].as_primitive::<Int64Type>().values().to_vec();
    for (row, offset) in offsets.iter().enumerate() {
        let value = match batch["value"].as_binary_opt::<i32>() {
            Some(values) => values.value(row),
            None => batch["value"].as_binary_view().value(row),
        };
        assert_eq!(value, format!("value {offset}").as_bytes());
    }
    offsets
}

fn decoder(layout: Layout) -> Decoder {
    Decoder::new(DecodeOptions { layout, ..DecodeOptions::default() })
}

fn topic() -> Arc<str> {
    Arc::from("t")
}

#[test]
fn window_starts_and_ends_within_batches() {
    for layout in LAYOUTS {
        for from in 0..15 {
            for until in from..16 {
                let mut decoder = decoder(layout);
                let window = Window { until_offset: Some(until), ..Window::from(from) };
                let appended = decoder.append(&topic(), 0, wire(3).into(), window).unwrap();
                assert_eq!(offsets(&decoder.finish().unwrap()), (from..until.min(15)).collect::<Vec<_>>());
                assert_eq!(appended.next_offset, until.min(15).max(from));
                assert_eq!(appended.reached_until, until < 15, "{from} to {until}");
            }
        }
    }
}

#[test]
fn continues_after_row_limit() {
    for layout in LAYOUTS {
        for max_rows in 1..17 {
            let mut data = Bytes::from(wire(3));
            let mut decoder = decoder(layout);
            let (mut seen, mut next) = (vec![], 0);
            loop {
                let window = Window { max_rows: Some(max_rows), ..Window::from(next) };
                let appended = decoder.append(&topic(), 0, data.clone(), window).unwrap();
                let rows = offsets(&decoder.finish().unwrap());
                assert_eq!(rows.len(), appended.rows);
                assert!(appended.rows <= max_rows);
                seen.extend(rows);
                next = appended.next_offset;
                data = data.slice(appended.consumed..);
                if !appended.row_limit {
                    break;
                }
            }
            assert_eq!(seen, (0..15).collect::<Vec<_>>(), "{max_rows} rows at a time");
            assert_eq!((next, data.len()), (15, 0));
        }
    }
}

#[test]
fn continues_after_full_columns() {
    for layout in LAYOUTS {
        let mut data = Bytes::from(wire(4));
        let options = DecodeOptions { layout, max_bytes: 150, ..DecodeOptions::default() };
        let mut decoder = Decoder::new(options.clone());
        let (mut seen, mut next, mut steps) = (vec![], 0, 0);
        loop {
            let appended = decoder.append(&topic(), 0, data.clone(), Window::from(next)).unwrap();
            assert!(decoder.bytes() <= 150);
            seen.extend(offsets(&decoder.finish().unwrap()));
            next = appended.next_offset;
            data = data.slice(appended.consumed..);
            steps += 1;
            if !appended.full {
                break;
            }
        }
        assert_eq!(seen, (0..20).collect::<Vec<_>>());
        assert_eq!(steps, 2);
        // All batches together do not fit. The error contains the position at which to split the data.
        let data = Bytes::from(wire(4));
        let error = decode_batches(data.clone(), options.clone()).unwrap_err();
        let DecodeCause::Full { limit: 150, consumed } = error.cause else { panic!("{error}") };
        assert!(!error.cause.is_corrupt() && error.to_string().contains(&format!("{consumed} bytes of the data")));
        let parts = [data.slice(..consumed), data.slice(consumed..)];
        let rows = parts.map(|part| offsets(&decode_batches(part, options.clone()).unwrap()));
        assert_eq!(rows.concat(), (0..20).collect::<Vec<_>>());
    }
}

/// If all values are stored within their views, the fetched bytes are not kept in memory.
#[test]
fn short_values_do_not_keep_the_fetched_bytes() {
    for (len, kept) in [(12, false), (13, true)] {
        for codec in [Codec::None, Codec::Zstd] {
            let values: ArrayRef = Arc::new(BinaryArray::from_iter_values(vec![vec![b'v'; len]; 1000]));
            let table = RecordBatch::try_from_iter([("value", values)]).unwrap();
            let options = EncodeOptions { codec, ..EncodeOptions::default() };
            let data = Bytes::from(encode_batches(&table, &Columns::default(), &options).unwrap());
            let options = DecodeOptions { layout: Layout::View, ..DecodeOptions::default() };
            let decoded = decode_batches(data.clone(), options).unwrap();
            let value = decoded["value"].as_binary_view();
            assert!(value.iter().all(|value| value == Some(&vec![b'v'; len][..])));
            assert_eq!(value.data_buffers().is_empty(), !kept, "{codec:?}");
            assert_eq!(data.is_unique(), !kept || codec != Codec::None, "{len} {codec:?}");
        }
    }
}

/// Queued batches are accounted for by their memory, so columns must not grow by doubling, which would use up to twice
/// their size.
#[test]
fn columns_have_little_excess_capacity() {
    const MIB: usize = 1 << 20;
    let value = |len: usize| -> ArrayRef {
        Arc::new(BinaryArray::from_iter_values((0..3 * MIB / len).map(|i| vec![i as u8; len])))
    };
    for (len, batch_size) in [(1000, MIB), (1000, 17_000), (100, 100_000), (10_000, 100_000), (40, 17_000)] {
        let table = RecordBatch::try_from_iter([("value", value(len))]).unwrap();
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let options = EncodeOptions { codec, batch_size, ..EncodeOptions::default() };
            let data = Bytes::from(encode_batches(&table, &Columns::default(), &options).unwrap());
            // Views of uncompressed batches keep all fetched bytes in memory, so they are excluded.
            for layout in LAYOUTS.into_iter().filter(|layout| *layout == Layout::Binary || codec != Codec::None) {
                let mut decoder = Decoder::new(DecodeOptions { layout, max_bytes: MIB, ..DecodeOptions::default() });
                let appended = decoder.append(&topic(), 0, data.clone(), Window::from(0)).unwrap();
                assert!(appended.full);
                let batch = decoder.finish().unwrap();
                // Per row: 29 bytes for offset, timestamp, topic, partition and the end or view of the value, and up to
                // 16 bytes more.
                let held = batch.num_rows() * (len + 12 + 29 + 16);
                let taken = memory_of(&batch);
                assert!(taken <= held + held / 5, "{codec:?} {layout:?} {len}: {taken} bytes for {held}");
            }
        }
    }
}

#[test]
fn memory_of_counts_shared_buffers_once() {
    let pairs: Vec<_> = (0..100).map(|i| format!("no short value, the {i}th")).collect();
    let column = || -> ArrayRef { Arc::new(BinaryArray::from_iter_values(&pairs)) };
    let table = RecordBatch::try_from_iter([("key", column()), ("value", column())]).unwrap();
    let columns = Columns { key: Some("key".into()), ..Columns::default() };
    let data = Bytes::from(encode_batches(&table, &columns, &EncodeOptions::default()).unwrap());
    let len = data.len();
    let options = DecodeOptions { layout: Layout::View, ..DecodeOptions::default() };
    let taken = memory_of(&decode_batches(data, options).unwrap());
    assert!((len..len + 100 * (2 * 16 + 29) + 1024).contains(&taken), "{taken} bytes for {len}");
}

#[test]
fn truncated_tail_is_not_an_error() {
    let data = Bytes::from(wire(2));
    for len in 0..data.len() {
        let mut decoder = decoder(Layout::Binary);
        let appended = decoder.append(&topic(), 0, data.slice(..len), Window::from(0)).unwrap();
        let whole = len / (data.len() / 2);
        assert_eq!((appended.rows, appended.consumed), (5 * whole, data.len() / 2 * whole));
        assert_eq!(appended.truncated_tail, appended.consumed < len);
        assert_eq!(appended.next_offset, 5 * whole as i64);
    }
}

#[test]
fn keeps_rows_before_invalid_batch_and_decodes_next_partition() {
    for layout in LAYOUTS {
        let mut data = wire(3);
        let middle = data.len() / 2;
        data[middle] ^= 1;
        let mut decoder = decoder(layout);
        let error = decoder.append(&topic(), 3, data.clone().into(), Window::from(0)).unwrap_err();
        assert!(matches!(&error.cause, DecodeCause::Batch(e) if matches!(e.kind, BatchErrorKind::Crc { .. })));
        assert_eq!((error.partition, error.offset, error.appended.rows), (3, 5, 5));
        let text = error.to_string();
        assert!(text.starts_with("topic t, partition 3, offset 5: record batch with base offset 5"), "{text}");
        let appended = decoder.append(&topic(), 4, wire(1).into(), Window::from(0)).unwrap();
        assert_eq!((appended.rows, decoder.rows()), (5, 10));
        assert_eq!(decoder.finish().unwrap().num_rows(), 10);
    }
}

#[test]
fn failed_batch_leaves_no_rows() {
    // 300 valid records, which are more than one block, then a count that is too large by one.
    let value: ArrayRef = Arc::new(BinaryArray::from_iter((0..300).map(|i| (i % 7 > 0).then(|| vec![b'x'; i % 30]))));
    let data = RecordBatch::try_from_iter([("value", value)]).unwrap();
    let mut bad = encode_batches(&data, &Columns::default(), &EncodeOptions::default()).unwrap();
    bad[57..61].copy_from_slice(&301i32.to_be_bytes());
    for layout in LAYOUTS {
        for first in [false, true] {
            let options =
                DecodeOptions { layout, check_crcs: false, include_headers: true, ..DecodeOptions::default() };
            let mut decoder = Decoder::new(options);
            if !first {
                decoder.append(&topic(), 0, wire(1).into(), Window::from(0)).unwrap();
            }
            decoder.append(&topic(), 1, bad.clone().into(), Window::from(0)).unwrap_err();
            decoder.append(&topic(), 2, wire(2).into(), Window::from(0)).unwrap();
            let mut expected: Vec<i64> = if first { vec![] } else { (0..5).collect() };
            expected.extend(0..10);
            assert_eq!(offsets(&decoder.finish().unwrap()), expected);
        }
    }
}

#[test]
fn next_offset_advances_past_skipped_batches() {
    let data = [batch(0, -1, false), marker(5, 9, 1), batch(6, -1, false), marker(11, 9, 0)].concat();
    let mut decoder = decoder(Layout::Binary);
    let appended = decoder.append(&topic(), 0, data.clone().into(), Window::from(0)).unwrap();
    assert_eq!((appended.rows, appended.next_offset, appended.consumed), (10, 12, data.len()));
    decoder.finish().unwrap();
    // Only a marker.
    let appended = decoder.append(&topic(), 0, marker(5, 9, 1).into(), Window::from(5)).unwrap();
    assert_eq!((appended.rows, appended.next_offset), (0, 6));

    let options = DecodeOptions { include_control: true, ..DecodeOptions::default() };
    let all = decode_batches(data.into(), options).unwrap();
    assert_eq!(all.num_rows(), 12);
    let keys = all["key"].as_binary::<i32>();
    assert_eq!(ControlType::from_key(keys.value(5)), Some(ControlType::Commit));
    assert_eq!(ControlType::from_key(keys.value(11)), Some(ControlType::Abort));
}

#[test]
fn read_committed_skips_aborted_transactions() {
    let data: Bytes = [
        batch(0, 1, true), // aborted
        batch(5, 2, true), // committed
        batch(10, -1, false),
        marker(15, 1, 0),
        batch(16, 1, true), // the same producer, committed
        marker(21, 2, 1),
        marker(22, 1, 1),
        batch(23, 1, true), // aborted again
        marker(28, 1, 0),
    ]
    .concat()
    .into();
    let list = || {
        let aborted = |first_offset| AbortedTransaction { producer_id: 1, first_offset };
        AbortedTransactions::new([aborted(23), aborted(0)])
    };
    let expected: Vec<i64> = (5..15).chain(16..21).collect();
    for layout in LAYOUTS {
        // Decode in one call, and a few rows at a time with the same filter for all steps.
        for max_rows in [usize::MAX, 1, 3, 5] {
            let (mut decoder, mut filter, mut rest) = (decoder(layout), list(), data.clone());
            let (mut seen, mut next) = (vec![], 0);
            loop {
                let window = Window { max_rows: Some(max_rows), aborted: Some(&mut filter), ..Window::from(next) };
                let appended = decoder.append(&topic(), 0, rest.clone(), window).unwrap();
                seen.extend(offsets(&decoder.finish().unwrap()));
                next = appended.next_offset;
                rest = rest.slice(appended.consumed..);
                if !appended.row_limit {
                    break;
                }
            }
            assert_eq!((&seen, next), (&expected, 29));
        }
        let mut decoder = decoder(layout);
        decoder.append(&topic(), 0, data.clone(), Window::from(0)).unwrap();
        assert_eq!(decoder.finish().unwrap().num_rows(), 25, "read_uncommitted");
    }
}

#[test]
fn decodes_append_time_and_missing_timestamps() {
    for layout in LAYOUTS {
        let mut data = batch(0, -1, false);
        let decode = |data: &[u8]| {
            let options = DecodeOptions { layout, ..DecodeOptions::default() };
            decode_batches(Bytes::copy_from_slice(data), options).unwrap()
        };
        let batch = decode(&data);
        assert_eq!(batch["timestamp"].null_count(), 5);
        assert_eq!(batch["timestamp_type"].as_primitive::<Int8Type>().values(), &[0; 5]);
        set_log_append_time(&mut data, 1234).unwrap();
        set_producer(&mut data, 1, 1, 1).unwrap();
        let batch = decode(&data);
        assert_eq!(batch["timestamp"].as_primitive::<TimestampMillisecondType>().values(), &[1234; 5]);
        assert_eq!(batch["timestamp"].null_count(), 0);
        assert_eq!(batch["timestamp_type"].as_primitive::<Int8Type>().values(), &[1; 5]);
    }
}

#[test]
fn rejects_offsets_outside_of_their_batch() {
    let mut data = batch(0, -1, false);
    data[23..27].copy_from_slice(&3i32.to_be_bytes());
    let options = DecodeOptions { check_crcs: false, ..DecodeOptions::default() };
    let error = decode_batches(data.into(), options).unwrap_err();
    assert!(error.to_string().contains("offset delta"), "{error}");
}

#[test]
fn invalid_utf8_in_header_keys_is_replaced_and_counted() {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    let headers: [(&[u8], Option<&[u8]>); 3] =
        [(b"good", Some(b"1")), (b"bad \xff\xfe", None), ("gut \u{e4}".as_bytes(), Some(b""))];
    builder.append(7, None, Some(b"value 0"), headers.into_iter()).unwrap();
    let data = Bytes::from(builder.finish(&mut Compressor::new(Codec::None, None).unwrap()).unwrap());
    let mut decoder = Decoder::new(DecodeOptions { include_headers: true, ..DecodeOptions::default() });
    let appended = decoder.append(&topic(), 0, data, Window::from(0)).unwrap();
    assert_eq!(appended.replaced_header_keys, 1);
    let batch = decoder.finish().unwrap();
    let list = batch["headers"].as_list::<i32>().value(0);
    let keys: Vec<_> = list.as_struct().column(0).as_string::<i32>().iter().flatten().map(str::to_owned).collect();
    assert_eq!(keys, ["good", "bad \u{fffd}\u{fffd}", "gut \u{e4}"]);
    let values: Vec<_> = list.as_struct().column(1).as_binary::<i32>().iter().map(|v| v.map(<[u8]>::len)).collect();
    assert_eq!(values, [Some(1), None, Some(0)]);
}

#[test]
fn views_keep_their_bytes_alive() {
    let texts: Vec<_> = (0..15).map(|i| format!("a value of more than twelve bytes, {i}")).collect();
    let wire = || {
        let values: ArrayRef = Arc::new(BinaryArray::from_iter_values(&texts));
        let table = RecordBatch::try_from_iter([("value", values)]).unwrap();
        Bytes::from(encode_batches(&table, &Columns::default(), &EncodeOptions::default()).unwrap())
    };
    let batch = {
        let mut decoder = decoder(Layout::View);
        decoder.append(&topic(), 0, wire(), Window::from(0)).unwrap();
        decoder.append(&topic(), 1, wire(), Window::from(12)).unwrap();
        decoder.finish().unwrap()
    };
    let value = batch["value"].as_binary_view();
    assert_eq!(value.data_buffers().len(), 2);
    let expected = texts.iter().chain(texts.iter().skip(12));
    assert!(value.iter().eq(expected.map(|text| Some(text.as_bytes()))));
    batch["value"].to_data().validate_full().unwrap();
}

/// A caller that continues after the offset of the last row must not get the same rows forever.
#[test]
fn terminates_on_descending_offsets() {
    let mut data = batch(0, -1, false);
    // Set the offset deltas, which are the fourth byte of each record, to 0, so that all records have the offset of the
    // first.
    let mut at = 61;
    while at < data.len() {
        let length = usize::from(data[at]) / 2;
        assert!(length < 64, "a length of one byte");
        data[at + 3] = 0;
        at += 1 + length;
    }
    let options = DecodeOptions { check_crcs: false, ..DecodeOptions::default() };
    let mut decoder = Decoder::new(options);
    let (mut rest, mut from, mut rows) = (Bytes::from(data), 0, 0);
    for _ in 0..5 {
        let window = Window { max_rows: Some(2), ..Window::from(from) };
        let appended = decoder.append(&topic(), 0, rest.clone(), window).unwrap();
        rows += appended.rows;
        if !appended.row_limit {
            assert_eq!((rows, appended.next_offset), (2, 5));
            return;
        }
        assert!(appended.next_offset > from, "{appended:?}");
        from = appended.next_offset;
        rest = rest.slice(appended.consumed..);
    }
    panic!("{rows} rows were given of 5");
}
