//! Rows from batch headers equal rows from decoded records.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch};
use bytes::Bytes;
use samsarrow_arrow::{
    AbortedTransaction, AbortedTransactions, Columns, DecodeOptions, Decoder, EncodeOptions, Layout, Projection,
    Window, decode_batches, encode_batches,
};
use samsarrow_wire::batch::patch::{set_log_append_time, set_producer};
use samsarrow_wire::batch::{BatchBuilder, BatchErrorKind, BatchOptions, HEADER_LEN};
use samsarrow_wire::compression::{Codec, Compressor};

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];
const ROWS: i64 = 5;

/// Encodes a batch of [`ROWS`] records.
fn batch(base_offset: i64, magic: i8, codec: Codec, producer_id: i64) -> Vec<u8> {
    let value: ArrayRef = Arc::new(BinaryArray::from_iter_values((0..ROWS).map(|_| [7; 50])));
    let time: ArrayRef = Arc::new(Int64Array::from_iter_values((base_offset..).take(ROWS as usize)));
    let data = RecordBatch::try_from_iter([("value", value), ("t", time)]).unwrap();
    let columns = Columns { timestamp: Some("t".into()), ..Columns::default() };
    let transactional = producer_id >= 0;
    let options = EncodeOptions { base_offset, magic, codec, producer_id, transactional, ..EncodeOptions::default() };
    encode_batches(&data, &columns, &options).unwrap()
}

/// Encodes a batch like a compacted batch, with the same number of records but twice the range of offsets.
fn compacted(base_offset: i64, codec: Codec) -> Vec<u8> {
    let mut data = batch(base_offset, 2, codec, -1);
    promise(&mut data, 2 * ROWS as i32 - 1, ROWS as i32);
    data
}

/// Overwrites the last offset delta and the number of records, and updates the checksum.
fn promise(batch: &mut [u8], last_offset_delta: i32, records: i32) {
    batch[23..27].copy_from_slice(&last_offset_delta.to_be_bytes());
    batch[57..61].copy_from_slice(&records.to_be_bytes());
    set_producer(batch, -1, -1, -1).unwrap();
}

fn marker(base_offset: i64, producer_id: i64, control_type: u8) -> Vec<u8> {
    let options =
        BatchOptions { base_offset, producer_id, transactional: true, control: true, ..BatchOptions::default() };
    let mut builder = BatchBuilder::new(options);
    builder.append(7, Some(&[0, 0, 0, control_type]), Some(&[0; 6]), std::iter::empty()).unwrap();
    builder.finish(&mut Compressor::new(Codec::None, None).unwrap()).unwrap()
}

/// Returns a log with all formats and codecs, gaps in the offsets, transactions of producers 1 (aborted) and 2, and
/// batches with append times.
fn log() -> Bytes {
    let mut log = Vec::new();
    let mut offset = 0;
    let mut add = |bytes: Vec<u8>, offsets: i64| {
        log.extend(bytes);
        offset += offsets;
        offset
    };
    let mut at = 0;
    for codec in CODECS {
        for magic in [0, 1, 2] {
            if magic == 2 || codec != Codec::Zstd {
                at = add(batch(at, magic, codec, -1), ROWS);
            }
        }
        at = add(compacted(at, codec), 2 * ROWS);
        at = add(batch(at, 2, codec, 1), ROWS);
        at = add(batch(at, 2, codec, 2), ROWS);
        at = add(marker(at, 1, 0), 1);
        at = add(marker(at, 2, 1), 1);
        let mut appended = batch(at, 2, codec, -1);
        set_log_append_time(&mut appended, 1234).unwrap();
        at = add(appended, ROWS);
    }
    log.into()
}

fn aborted() -> AbortedTransactions {
    // Aborted transactions of one producer. Each begins after the end marker of the previous transaction.
    AbortedTransactions::new((0..CODECS.len() as i64).map(|i| AbortedTransaction { producer_id: 1, first_offset: i }))
}

/// Decodes the records of `log` within the offset bounds, `max_rows` rows at a time.
fn read(options: &DecodeOptions, bounds: (i64, i64), max_rows: usize, committed: bool) -> Vec<RecordBatch> {
    let mut decoder = Decoder::new(options.clone());
    let (mut rest, mut filter, mut from, mut actual) = (log(), aborted(), bounds.0, Vec::new());
    loop {
        let aborted = committed.then_some(&mut filter);
        let window = Window { from_offset: from, until_offset: Some(bounds.1), max_rows: Some(max_rows), aborted };
        let appended = decoder.append(&Arc::from("t"), 3, rest.clone(), window).unwrap();
        actual.push(decoder.finish().unwrap());
        (from, rest) = (appended.next_offset, rest.slice(appended.consumed..));
        if !appended.row_limit && !appended.full {
            return actual;
        }
    }
}

/// Returns offset, partition, timestamp type and leader epoch of each row.
fn metadata_of(batches: &[RecordBatch]) -> Vec<(i64, i32, Option<i8>, i32)> {
    let mut rows = Vec::new();
    for batch in batches {
        batch.columns().iter().for_each(|column| column.to_data().validate_full().unwrap());
        let (offsets, partitions) =
            (batch["offset"].as_primitive::<Int64Type>(), batch["partition"].as_primitive::<Int32Type>());
        let (types, epochs) =
            (batch["timestamp_type"].as_primitive::<Int8Type>(), batch["leader_epoch"].as_primitive::<Int32Type>());
        rows.extend((0..batch.num_rows()).map(|row| {
            let kind = types.is_valid(row).then(|| types.value(row));
            (offsets.value(row), partitions.value(row), kind, epochs.value(row))
        }));
    }
    rows
}

#[test]
fn header_only_rows_equal_decoded_rows() {
    for layout in [Layout::Binary, Layout::View] {
        let decoding = DecodeOptions { layout, include_leader_epoch: true, ..DecodeOptions::default() };
        let counting = DecodeOptions { projection: Projection::NONE, ..decoding.clone() };
        for max_bytes in [64, usize::MAX] {
            for (from, until) in [(0, i64::MAX), (2, 77), (23, 24), (48, 131), (90, 90), (180, 400)] {
                for (max_rows, committed) in [(usize::MAX, true), (usize::MAX, false), (3, true), (1, false)] {
                    let limit = |options: &DecodeOptions| DecodeOptions { max_bytes, ..options.clone() };
                    let expected = read(&limit(&decoding), (from, until), max_rows, committed);
                    let actual = read(&limit(&counting), (from, until), max_rows, committed);
                    let case = format!("{from} to {until}, {max_rows} rows, committed: {committed}");
                    assert_eq!(metadata_of(&actual), metadata_of(&expected), "{layout:?} {max_bytes} {case}");
                    for batch in &actual {
                        for name in ["key", "value", "timestamp"] {
                            assert_eq!(batch[name].null_count(), batch.num_rows());
                        }
                    }
                }
            }
        }
        assert!(metadata_of(&read(&decoding, (0, i64::MAX), usize::MAX, true)).len() > 100);
    }
}

#[test]
fn unprojected_records_are_not_parsed() {
    for codec in CODECS {
        let mut data = batch(0, 2, codec, -1);
        data[HEADER_LEN..].fill(0xff);
        // The batch is damaged before its checksum is computed, so the checksum is valid.
        set_producer(&mut data, -1, -1, -1).unwrap();
        let rows = |data: &[u8], projection, include_headers| {
            let options = DecodeOptions { projection, include_headers, ..DecodeOptions::default() };
            decode_batches(Bytes::copy_from_slice(data), options).map(|batch| batch.num_rows())
        };
        assert_eq!(rows(&data, Projection::NONE, false).unwrap(), ROWS as usize, "{codec:?}");
        // The records are decoded for columns that are not in the batch header: headers and create times, but not
        // append times.
        assert!(rows(&data, Projection::NONE, true).is_err());
        let timed = Projection { timestamps: true, ..Projection::NONE };
        assert!(rows(&data, timed, false).is_err());
        set_log_append_time(&mut data, 77).unwrap();
        let options = DecodeOptions { projection: timed, ..DecodeOptions::default() };
        let actual = decode_batches(Bytes::copy_from_slice(&data), options).unwrap();
        assert_eq!(actual["timestamp"].as_primitive::<TimestampMillisecondType>().values(), &[77; ROWS as usize]);
        // The checksum is verified even if the records are not decoded.
        *data.last_mut().unwrap() ^= 1;
        let error = decode_batches(data.into(), DecodeOptions { projection: timed, ..DecodeOptions::default() });
        assert!(error.unwrap_err().to_string().contains("CRC"), "{codec:?}");
    }
}

#[test]
fn rejects_header_with_excessive_record_count() {
    for codec in CODECS {
        for records in [1 << 25, i32::MAX] {
            let mut data = batch(0, 2, codec, -1);
            promise(&mut data, records - 1, records);
            let options = DecodeOptions { projection: Projection::NONE, ..DecodeOptions::default() };
            let error = decode_batches(data.into(), options).unwrap_err();
            let samsarrow_arrow::DecodeCause::Batch(error) = error.cause else { panic!("{error}") };
            assert!(matches!(error.kind, BatchErrorKind::Record(_)), "{codec:?}: {error}");
        }
    }
}
