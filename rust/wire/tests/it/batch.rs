//! Tests of building, iterating, patching and damaging batches.

use std::ops::ControlFlow;

use bytes::{Bytes, BytesMut};
use kafka_protocol::records as oracle;
use proptest::prelude::*;
use samsarrow_wire::batch::patch::{set_base_offset, set_log_append_time, set_producer};
use samsarrow_wire::batch::{
    AbortedTransaction, AbortedTransactions, Append, Batch, BatchBuilder, BatchErrorKind, BatchOptions, EndMarker,
    HEADER_LEN, RawRecord, RecordError, RecordVisitor, TimestampType, batches, spans, walk,
};
use samsarrow_wire::compression::{Codec, Compressor, Decompressor};

type HeaderList = Vec<(Vec<u8>, Option<Vec<u8>>)>;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Owned {
    offset: i64,
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: HeaderList,
}

#[derive(Default)]
struct Collect {
    base_offset: i64,
    base_timestamp: i64,
    records: Vec<Owned>,
}

impl RecordVisitor for Collect {
    fn record(&mut self, data: &[u8], record: &RawRecord) -> ControlFlow<()> {
        self.records.push(Owned {
            offset: self.base_offset + i64::from(record.offset_delta),
            timestamp: self.base_timestamp.wrapping_add(record.timestamp_delta),
            key: record.key(data).map(<[u8]>::to_vec),
            value: record.value(data).map(<[u8]>::to_vec),
            headers: record.headers(data).map(|(k, v)| (k.to_vec(), v.map(<[u8]>::to_vec))).collect(),
        });
        ControlFlow::Continue(())
    }
}

fn records_of(batch: &Batch) -> Result<Vec<Owned>, RecordError> {
    let codec = Codec::from_attributes(batch.header.attributes).unwrap();
    let mut records = batch.payload().to_vec();
    if codec != Codec::None {
        let mut out = Vec::new();
        Decompressor::new().decompress(codec, &records, &mut out, 1 << 24).unwrap();
        records = out;
    }
    let mut collect = Collect {
        base_offset: batch.header.base_offset,
        base_timestamp: batch.header.base_timestamp,
        records: Vec::new(),
    };
    walk(&records, batch.header.record_count, &mut collect)?;
    Ok(collect.records)
}

fn build(records: &[Owned], codec: Codec, options: BatchOptions) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchOptions { max_bytes: usize::MAX, ..options });
    for (i, r) in records.iter().enumerate() {
        let headers = r.headers.iter().map(|(k, v)| (k.as_slice(), v.as_deref()));
        let appended = builder.append(r.timestamp, r.key.as_deref(), r.value.as_deref(), headers).unwrap();
        assert_eq!(appended, Append::Added(i as i32));
    }
    builder.finish(&mut Compressor::new(codec, None).unwrap()).unwrap()
}

fn only(data: &[u8]) -> Batch {
    let mut iter = batches(Bytes::copy_from_slice(data));
    let batch = iter.next().unwrap().unwrap();
    assert!(iter.next().is_none() && !iter.truncated_tail());
    batch
}

fn sample(count: i64) -> Vec<Owned> {
    (0..count)
        .map(|i| Owned {
            offset: i,
            timestamp: 1_700_000_000_000 + i * 7_000_000,
            key: (i % 3 == 0).then(|| format!("key-{i}").into_bytes()),
            value: (i % 5 != 4).then(|| vec![i as u8; (i as usize * 37) % 300]),
            headers: (0..i % 3).map(|h| (b"name".to_vec(), (h == 0).then(|| b"v".to_vec()))).collect(),
        })
        .collect()
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        9 => prop::collection::vec(any::<u8>(), 0..max.min(80)),
        1 => prop::collection::vec(any::<u8>(), 0..max),
    ]
}

fn any_records() -> impl Strategy<Value = Vec<Owned>> {
    let timestamp = prop_oneof![0..1_000_000i64, any::<i64>(), Just(-1)];
    let headers = prop::collection::vec((bytes(100), prop::option::of(bytes(100))), 0..4);
    let record = (timestamp, prop::option::of(bytes(200)), prop::option::of(bytes(20_000)), headers);
    prop::collection::vec(record, 1..40).prop_map(|records| {
        let number = |(i, (timestamp, key, value, headers))| Owned { offset: i as i64, timestamp, key, value, headers };
        records.into_iter().enumerate().map(number).collect()
    })
}

proptest! {
    #[test]
    fn built_batches_round_trip(records in any_records(), codec in 0i16..5) {
        let codec = Codec::from_attributes(codec).unwrap();
        let batch = only(&build(&records, codec, BatchOptions::default()));
        batch.check_crc().unwrap();
        prop_assert_eq!(batch.header.next_offset(), records.len() as i64);
        prop_assert_eq!(batch.header.max_timestamp, records.iter().map(|r| r.timestamp).max().unwrap().max(-1));
        prop_assert_eq!(records_of(&batch).unwrap(), records);
    }

    #[test]
    fn arbitrary_bytes_never_panic(data in bytes(5000), count in any::<i32>()) {
        for count in [count, count & 0x3ff, (data.len() / 7) as i32] {
            let _ = walk(&data, count, &mut Collect::default());
        }
    }
}

#[test]
fn walks_more_records_than_a_block() {
    for count in [255, 256, 257, 512, 3000] {
        let records = sample(count);
        assert_eq!(records_of(&only(&build(&records, Codec::None, BatchOptions::default()))).unwrap(), records);
    }
}

/// Decodes our bytes with kafka-protocol. Repeated header names are left out, because kafka-protocol loses them.
#[test]
fn kafka_protocol_decodes_our_batches() {
    let mut records = sample(300);
    for record in &mut records {
        record.headers.truncate(1);
    }
    let options = BatchOptions { producer_id: 77, producer_epoch: 3, base_sequence: 9, ..BatchOptions::default() };
    let mut wire = build(&records, Codec::None, options);
    set_base_offset(&mut wire, 1000, 5).unwrap();
    let set = oracle::RecordBatchDecoder::decode(&mut Bytes::from(wire)).unwrap();
    assert_eq!(set.records.len(), records.len());
    for (i, (theirs, ours)) in set.records.iter().zip(&records).enumerate() {
        assert_eq!((theirs.offset, theirs.timestamp), (1000 + ours.offset, ours.timestamp));
        assert_eq!((theirs.producer_id, theirs.producer_epoch, theirs.sequence), (77, 3, 9 + i as i32));
        assert_eq!(theirs.partition_leader_epoch, 5);
        assert_eq!(theirs.key.as_deref(), ours.key.as_deref());
        assert_eq!(theirs.value.as_deref(), ours.value.as_deref());
        let headers: HeaderList =
            theirs.headers.iter().map(|(k, v)| (k.as_bytes().to_vec(), v.as_ref().map(|v| v.to_vec()))).collect();
        assert_eq!(headers, ours.headers);
    }
}

#[test]
fn walks_batches_of_kafka_protocol() {
    let records = sample(300);
    let theirs: Vec<_> = records
        .iter()
        .map(|r| oracle::Record {
            transactional: true,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: 2,
            producer_id: 5,
            producer_epoch: 1,
            timestamp_type: oracle::TimestampType::Creation,
            offset: r.offset,
            sequence: r.offset as i32,
            timestamp: r.timestamp,
            key: r.key.clone().map(Bytes::from),
            value: r.value.clone().map(Bytes::from),
            headers: Default::default(),
        })
        .collect();
    let mut wire = BytesMut::new();
    let options = oracle::RecordEncodeOptions { version: 2, compression: oracle::Compression::None };
    oracle::RecordBatchEncoder::encode(&mut wire, &theirs, &options).unwrap();
    let batch = only(&wire);
    batch.check_crc().unwrap();
    assert!(batch.header.is_transactional() && !batch.header.is_control());
    let without_headers: Vec<_> = records.into_iter().map(|r| Owned { headers: vec![], ..r }).collect();
    assert_eq!(records_of(&batch).unwrap(), without_headers);
}

#[test]
fn patches_producer_offset_and_append_time() {
    let mut wire = build(&sample(10), Codec::None, BatchOptions::default());
    set_producer(&mut wire, 1 << 40, 7, i32::MAX).unwrap();
    let batch = only(&wire);
    batch.check_crc().unwrap();
    let h = &batch.header;
    assert_eq!((h.producer_id, h.producer_epoch, h.base_sequence), (1 << 40, 7, i32::MAX));

    set_base_offset(&mut wire, 1 << 50, 12).unwrap();
    set_log_append_time(&mut wire, 99).unwrap();
    let batch = only(&wire);
    batch.check_crc().unwrap();
    assert_eq!((batch.header.next_offset(), batch.header.partition_leader_epoch), ((1 << 50) + 10, 12));
    assert_eq!((batch.header.timestamp_type(), batch.header.max_timestamp), (TimestampType::LogAppendTime, 99));
    assert_eq!(records_of(&batch).unwrap().len(), 10);

    assert!(set_producer(&mut wire[..HEADER_LEN - 1], 1, 1, 1).is_err());
    assert!(set_producer(&mut wire[..HEADER_LEN], 1, 1, 1).is_err());
    wire[16] = 1;
    assert!(set_producer(&mut wire, 1, 1, 1).is_err());
}

#[test]
fn max_bytes_applies_after_the_first_record() {
    let mut builder = BatchBuilder::new(BatchOptions { max_bytes: 300, ..BatchOptions::default() });
    let mut none = Compressor::new(Codec::None, None).unwrap();
    let add = |builder: &mut BatchBuilder, len: usize| {
        builder.append(5, None, Some(&vec![1; len]), std::iter::empty()).unwrap()
    };
    assert_eq!(add(&mut builder, 1000), Append::Added(0));
    assert_eq!(add(&mut builder, 0), Append::Full);
    assert_eq!(only(&builder.finish(&mut none).unwrap()).header.record_count, 1);
    let mut count = 0;
    while let Append::Added(_) = add(&mut builder, 20) {
        count += 1;
    }
    let size = builder.size();
    let wire = builder.finish(&mut none).unwrap();
    assert!(builder.is_empty() && builder.size() == HEADER_LEN);
    assert_eq!((wire.len(), only(&wire).header.record_count), (size, count));
    assert!(size <= 300 && size + 27 > 300, "{size} bytes of 300");
}

#[test]
fn spans_are_those_of_batches() {
    let one = build(&sample(3), Codec::None, BatchOptions::default());
    let mut corrupt = [one.clone(), one.clone(), one.clone()].concat();
    corrupt[2 * one.len() + 16] = 9;
    for data in [one.clone(), [one.clone(), one.clone()].concat(), corrupt, Vec::new()] {
        for len in 0..=data.len() {
            let part = &data[..len];
            let (mut whole, mut heads) = (batches(Bytes::copy_from_slice(part)), spans(part));
            loop {
                let (batch, span) = (whole.next(), heads.next());
                assert_eq!(whole.position(), heads.position());
                match (batch, span) {
                    (Some(Ok(batch)), Some(Ok(span))) => {
                        assert_eq!((&batch.header, batch.position), (&span.header, span.position));
                        assert_eq!(batch.bytes(), &part[span.position..span.position + span.len]);
                    }
                    (Some(Err(batch)), Some(Err(span))) => assert_eq!(batch.to_string(), span.to_string()),
                    (batch, span) => {
                        assert!(batch.is_none() && span.is_none(), "{len} bytes");
                        break;
                    }
                }
            }
        }
    }
}

#[test]
fn any_prefix_is_a_truncated_tail() {
    let one = build(&sample(5), Codec::None, BatchOptions::default());
    let mut two = one.clone();
    two.extend_from_slice(&one);
    for len in 0..two.len() {
        let mut iter = batches(Bytes::copy_from_slice(&two[..len]));
        let complete = iter.by_ref().map(|b| records_of(&b.unwrap()).unwrap().len()).sum::<usize>();
        assert_eq!(complete, if len >= one.len() { 5 } else { 0 }, "{len} bytes");
        assert_eq!(iter.truncated_tail(), len % one.len() != 0, "{len} bytes");
    }
}

#[test]
fn crc_detects_every_changed_byte() {
    let wire = build(&sample(12), Codec::None, BatchOptions::default());
    let mut seed = 7u64;
    for at in 0..wire.len() {
        for _ in 0..24 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut damaged = wire.clone();
            damaged[at] ^= ((seed >> 33) as u8).max(1);
            for batch in batches(Bytes::from(damaged)).map_while(Result::ok) {
                // The checksum does not cover the base offset, the length, the leader epoch and the magic. A shorter
                // length is detected; a longer length leads to a truncated tail.
                let outside = at < 8 || (12..16).contains(&at);
                assert_eq!(batch.check_crc().is_ok(), outside, "byte {at}");
                let codec_known = Codec::from_attributes(batch.header.attributes) == Ok(Codec::None);
                if codec_known {
                    let _ = records_of(&batch);
                }
            }
        }
    }
}

#[test]
fn skip_to_beyond_the_data_is_an_error() {
    let data = build(&sample(3), Codec::None, BatchOptions::default());
    let mut iter = batches(Bytes::from(data.clone()));
    iter.skip_to(data.len());
    assert!(iter.next().is_none());
    let mut iter = batches(Bytes::from(data.clone()));
    iter.skip_to(data.len() + 1);
    let error = iter.next().unwrap().unwrap_err();
    assert!(matches!(error.kind, BatchErrorKind::Beyond { len } if len == data.len()), "{error}");
    assert!(iter.next().is_none());
}

#[test]
fn rejects_wrong_record_counts() {
    let mut wire = build(&sample(3), Codec::None, BatchOptions::default());
    for (count, expected) in
        [(2, "TooMany"), (4, "TooFew"), (-1, "TooFew"), (i32::MAX, "TooFew"), (1_000_000, "TooFew")]
    {
        wire[57..61].copy_from_slice(&i32::to_be_bytes(count));
        let error = records_of(&only(&wire)).unwrap_err();
        assert!(format!("{error:?}").starts_with(expected), "{count}: {error:?}");
    }
}

#[test]
fn rejects_invalid_lengths_magic_and_offsets() {
    let good = build(&sample(3), Codec::None, BatchOptions::default());
    let kind = |at: usize, bytes: &[u8]| {
        let mut wire = good.clone();
        wire[at..at + bytes.len()].copy_from_slice(bytes);
        batches(Bytes::from(wire)).next().unwrap().unwrap_err()
    };
    assert!(matches!(kind(8, &i32::to_be_bytes(-5)).kind, BatchErrorKind::Length { length: -5 }));
    assert!(matches!(kind(8, &i32::to_be_bytes(48)).kind, BatchErrorKind::Length { length: 48 }));
    assert!(matches!(kind(16, &[3]).kind, BatchErrorKind::UnknownMagic { magic: 3 }));
    assert!(matches!(kind(23, &i32::to_be_bytes(-2)).kind, BatchErrorKind::Offsets { last_offset_delta: -2 }));
    assert!(matches!(kind(0, &i64::MAX.to_be_bytes()).kind, BatchErrorKind::Offsets { .. }));
}

#[test]
fn aborted_transactions_filter_tracks_batches() {
    let aborted = |producer_id, first_offset| AbortedTransaction { producer_id, first_offset };
    // The list is not sorted. Some brokers other than Apache Kafka return such lists.
    let mut filter = AbortedTransactions::new([aborted(1, 50), aborted(2, 10), aborted(1, 20)]);
    assert!(!filter.is_aborted(1, 5));
    assert!(filter.is_aborted(2, 15) && filter.is_aborted(2, 15));
    assert!(filter.is_aborted(1, 25));
    filter.end(1, 30);
    assert!(!filter.is_aborted(1, 40), "committed after the abort");
    assert!(filter.is_aborted(2, 40), "still open");
    filter.end(2, 45);
    filter.end(3, 46); // a marker without a transaction
    assert!(filter.is_aborted(1, 55) && !filter.is_aborted(2, 56));
}

#[test]
fn end_markers_match_broker_bytes() {
    for (committed, kind) in [(true, 1), (false, 0)] {
        let marker = EndMarker { producer_id: 7, producer_epoch: 3, committed, coordinator_epoch: 0x0102_0304 };
        let bytes = marker.encode(1_700_000_000_000).unwrap();
        let batch = batches(bytes.clone().into()).next().unwrap().unwrap();
        batch.check_crc().unwrap();
        let header = &batch.header;
        assert!(header.is_control() && header.is_transactional());
        assert_eq!((header.base_sequence, header.record_count, header.last_offset_delta), (-1, 1, 0));
        assert_eq!((header.base_timestamp, header.max_timestamp), (1_700_000_000_000, 1_700_000_000_000));
        // The bytes are the same as in a Kafka log: length 16, no attributes, deltas 0, a key of 4 bytes, a value of 6
        // bytes, no headers.
        assert_eq!(&bytes[61..], [0x20, 0, 0, 0, 8, 0, 0, 0, kind, 12, 0, 0, 1, 2, 3, 4, 0]);
        assert_eq!(EndMarker::read(&batch), Some(marker));
        // `read` rejects batches that are not end markers: a data batch, and a control record of another type.
        for (at, byte) in [(22, 0x10), (69, 2)] {
            let mut other = bytes.clone();
            other[at] = byte;
            let batch = batches(other.into()).next().unwrap().unwrap();
            assert_eq!(EndMarker::read(&batch), None, "{at}");
        }
    }
}
