//! Produce v0 to v2 and Fetch v0 to v3. Messages of format v0 and v1 are stored and returned unchanged.

use std::ops::ControlFlow;

use crate::common::*;
use bytes::Bytes;
use samsarrow_wire::batch::{
    Batch, Block, LegacyBuilder, LegacyDecompressor, LegacyOptions, MessageSet, TimestampType, batches,
};
use samsarrow_wire::compression::{Codec, Compressor};
use samsarrow_wire::crc::crc32;
use samsarrow_wire::error_code::ErrorCode;
use samsarrow_wire::messages::create_topics::{CreatableTopic, CreatableTopicConfig};
use samsarrow_wire::messages::list_offsets::{ListOffsetsPartition, ListOffsetsTopic};
use samsarrow_wire::messages::{CreateTopicsRequest, ListOffsetsRequest};

const CODECS: [Codec; 4] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4];

/// Encodes messages like a client, with offsets from 0 on.
fn messages(magic: i8, codec: Codec, values: &[&str]) -> Bytes {
    let options = LegacyOptions { magic, max_bytes: usize::MAX, ..LegacyOptions::default() };
    let mut builder = LegacyBuilder::new(options).unwrap();
    for (time, value) in (100..).zip(values) {
        builder.append(time, None, Some(value.as_bytes()), std::iter::empty()).unwrap();
    }
    builder.finish(&mut Compressor::new(codec, None).unwrap()).unwrap().into()
}

/// Verifies the checksums, and returns the offset, timestamp and value of every record.
fn rows(data: &Bytes) -> Vec<(i64, i64, String)> {
    let mut rows = Vec::new();
    for batch in batches(data.clone()) {
        let batch = batch.unwrap();
        batch.check_crc().unwrap();
        let (inner, set) = open(&batch);
        let append_time = set.header.timestamp_type() == TimestampType::LogAppendTime;
        let mut visit = |block: &mut Block| {
            for record in block.records() {
                let time = set.header.base_timestamp + record.timestamp_delta;
                let value = String::from_utf8(record.value(&inner).unwrap().to_vec()).unwrap();
                let offset = set.header.base_offset + i64::from(record.offset_delta);
                rows.push((offset, if append_time { set.header.max_timestamp } else { time }, value));
            }
            ControlFlow::Continue(())
        };
        set.walk_blocks(&inner, &mut Block::new(), &mut visit).unwrap();
    }
    rows
}

fn open(batch: &Batch) -> (Vec<u8>, MessageSet) {
    let mut inner = batch.bytes().to_vec();
    if batch.header.is_wrapper() {
        inner.clear();
        LegacyDecompressor::new().decompress(batch, &mut inner, 1 << 20).unwrap();
    }
    let set = MessageSet::read(batch, &inner, true).unwrap();
    (inner, set)
}

async fn produce(client: &mut Client, version: i16, data: &Bytes) -> (i16, i64) {
    let response = client.call(version, &produce_request("t", 0, data, -1)).await;
    let response = &response.responses[0].partition_responses[0];
    (response.error_code, response.base_offset)
}

async fn fetch(client: &mut Client, version: i16, offset: i64, max_bytes: i32) -> Bytes {
    let mut request = fetch_request("t", &[(0, offset)]);
    request.topics[0].partitions[0].partition_max_bytes = max_bytes;
    let mut response = client.call(version, &request).await;
    let result = response.responses.remove(0).partitions.remove(0);
    assert_eq!((result.partition_index, result.error_code), (0, 0));
    result.records.unwrap()
}

#[tokio::test]
async fn old_formats_round_trip() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let mut expected = Vec::new();
    for version in 0..=2 {
        for magic in [0, 1] {
            for codec in CODECS {
                let base = i64::try_from(expected.len()).unwrap();
                let sent = messages(magic, codec, &["a", "b", "c"]);
                assert_eq!(produce(&mut client, version, &sent).await, (0, base));
                let time = |i| if magic == 0 { -1 } else { 100 + i };
                expected.extend((0..).zip(["a", "b", "c"]).map(|(i, v)| (base + i, time(i), v.to_owned())));
                // The inner offsets of a v1 wrapper are relative, so only the offset of the wrapper changes.
                let stored = fetch(&mut client, 4, base, 1 << 20).await;
                assert_eq!(stored[16], u8::try_from(magic).unwrap());
                if magic == 1 && codec != Codec::None {
                    assert_eq!(stored[8..], sent[8..]);
                }
            }
        }
    }
    let end = broker.end_offset("t", 0).unwrap();
    assert_eq!(end, 72);
    for version in 0..=12 {
        assert_eq!(rows(&fetch(&mut client, version, 0, 1 << 20).await), expected, "Fetch v{version}");
    }
    // A fetch from an offset within a wrapper returns the whole wrapper.
    for (offset, first) in [(1, 1), (4, 3), (5, 3), (13, 13), (16, 15)] {
        assert_eq!(rows(&fetch(&mut client, 2, offset, 1 << 20).await)[0].0, first);
    }
    broker.shutdown().await;
}

/// Before KIP-74 all limits are hard, and the last batch may be truncated. Since KIP-74 the first batch is returned in
/// full, and no batch is truncated.
#[tokio::test]
async fn old_fetch_versions_cut_to_the_byte() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    for (magic, codec) in [(0, Codec::None), (1, Codec::Gzip), (1, Codec::None)] {
        assert_eq!(produce(&mut client, 2, &messages(magic, codec, &["one", "two"])).await.0, 0);
    }
    let all = fetch(&mut client, 2, 0, 1 << 20).await;
    let mut ends = vec![0];
    ends.extend(batches(all.clone()).map(|batch| batch.unwrap()).map(|b| b.position + b.bytes().len()));
    assert_eq!(ends.len(), 6);
    for size in 0..=all.len() + 1 {
        for version in [0, 1, 2, 3, 11] {
            let cut = fetch(&mut client, version, 0, i32::try_from(size).unwrap()).await;
            let whole = ends.iter().rev().find(|end| **end <= size).unwrap().max(&ends[1]);
            let expected = if version < 3 { size.min(all.len()) } else { *whole };
            assert_eq!(cut, all[..expected], "Fetch v{version}, {size} bytes");
        }
    }
    broker.shutdown().await;
}

/// Inner offsets are rewritten if they are not consecutive. Old versions of librdkafka set all inner offsets to 0.
#[tokio::test]
async fn wrappers_with_odd_inner_offsets_are_rebuilt() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let mut base = 0;
    for magic in [0, 1] {
        for offsets in [[0, 0, 0], [5, 7, 9], [2, 1, 0]] {
            let mut inner = messages(magic, Codec::None, &["a", "b", "c"]).to_vec();
            let size = inner.len() / 3;
            for (message, offset) in inner.chunks_mut(size).zip(offsets) {
                message[..8].copy_from_slice(&i64::to_be_bytes(offset));
            }
            let sent = wrap(magic, 0, &inner);
            assert_eq!(produce(&mut client, 2, &sent).await, (0, base));
            let result = rows(&fetch(&mut client, 2, base, 1 << 20).await);
            let values: Vec<_> = result.iter().map(|(offset, _, value)| (*offset - base, value.as_str())).collect();
            assert_eq!(values, [(0, "a"), (1, "b"), (2, "c")], "magic {magic}, {offsets:?}");
            base += 3;
        }
    }
    broker.shutdown().await;
}

/// Builds a gzip wrapper message whose decompressed value is `inner`, which need not be valid.
fn wrap(magic: i8, offset: i64, inner: &[u8]) -> Bytes {
    let mut value = Vec::new();
    Compressor::new(Codec::Gzip, None).unwrap().compress(inner, &mut value).unwrap();
    let mut body = vec![magic.cast_unsigned(), 1];
    body.extend_from_slice(if magic == 0 { &[] } else { &[0; 8] });
    body.extend_from_slice(&(-1_i32).to_be_bytes());
    body.extend_from_slice(&i32::try_from(value.len()).unwrap().to_be_bytes());
    body.extend_from_slice(&value);
    let mut out = offset.to_be_bytes().to_vec();
    out.extend_from_slice(&i32::try_from(body.len() + 4).unwrap().to_be_bytes());
    out.extend_from_slice(&crc32(&body).to_be_bytes());
    out.extend_from_slice(&body);
    out.into()
}

/// Replaces one byte of a message and updates the checksum.
fn patched(data: &Bytes, at: usize, byte: u8) -> Bytes {
    let mut data = data.to_vec();
    data[at] = byte;
    let crc = crc32(&data[16..]);
    data[12..16].copy_from_slice(&crc.to_be_bytes());
    data.into()
}

#[tokio::test]
async fn rejects_invalid_messages() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    let plain = messages(1, Codec::None, &["value"]);
    let wrapper = messages(1, Codec::Gzip, &["a", "b"]);
    let mut flipped = plain.to_vec();
    flipped[30] ^= 1;
    let mut short = plain.to_vec();
    short[8..12].copy_from_slice(&3_i32.to_be_bytes());
    let mixed = [&messages(1, Codec::None, &["a"])[..], &messages(0, Codec::None, &["b"])[..]].concat();
    let bad: [(&str, Bytes, ErrorCode); 13] = [
        ("nothing", Bytes::new(), ErrorCode::INVALID_RECORD),
        ("a flipped bit", flipped.into(), ErrorCode::CORRUPT_MESSAGE),
        ("a length below a message's", short.into(), ErrorCode::CORRUPT_MESSAGE),
        ("a cut message", plain.slice(..plain.len() - 1), ErrorCode::INVALID_RECORD),
        ("two wrappers", [&wrapper[..], &wrapper[..]].concat().into(), ErrorCode::INVALID_RECORD),
        ("a wrapper and a message", [&wrapper[..], &plain[..]].concat().into(), ErrorCode::INVALID_RECORD),
        ("a wrapper in a wrapper", wrap(1, 0, &wrapper), ErrorCode::INVALID_RECORD),
        ("an empty wrapper", wrap(0, 0, b""), ErrorCode::INVALID_RECORD),
        ("two formats in a wrapper", wrap(1, 1, &mixed), ErrorCode::INVALID_RECORD),
        ("an unknown codec", patched(&plain, 17, 5), ErrorCode::UNSUPPORTED_COMPRESSION_TYPE),
        ("zstd", patched(&plain, 17, 4), ErrorCode::UNSUPPORTED_COMPRESSION_TYPE),
        ("LogAppendTime", patched(&plain, 17, 8), ErrorCode::INVALID_TIMESTAMP),
        ("a batch", batch_of(&[1], 3, NO_PRODUCER), ErrorCode::INVALID_RECORD),
    ];
    for (case, data, code) in bad {
        assert_eq!(produce(&mut client, 2, &data).await, (code.code(), -1), "{case}");
    }
    let large = messages(0, Codec::None, &[&"x".repeat(1_100_000)]);
    assert_eq!(produce(&mut client, 1, &large).await.0, ErrorCode::MESSAGE_TOO_LARGE.code());
    assert_eq!(produce(&mut client, 3, &plain).await.0, ErrorCode::INVALID_RECORD.code(), "v3 carries batches only");
    assert_eq!(broker.end_offset("t", 0), Some(0));
    broker.shutdown().await;
}

#[tokio::test]
async fn timestamps_in_old_formats() {
    let broker = broker(1, &[("t", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    for (magic, codec) in [(0, Codec::Gzip), (1, Codec::None), (1, Codec::Lz4)] {
        assert_eq!(produce(&mut client, 2, &messages(magic, codec, &["a", "b", "c"])).await.0, 0);
    }
    for (time, expected) in [(0, (3, 100)), (101, (4, 101)), (102, (5, 102)), (103, (-1, -1)), (-3, (5, 102))] {
        let partition = ListOffsetsPartition { timestamp: time, ..Default::default() };
        let topic = ListOffsetsTopic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
        let request = ListOffsetsRequest { topics: vec![topic], ..Default::default() };
        let result = &client.call(7, &request).await.topics[0].partitions[0];
        assert_eq!((result.offset, result.timestamp), expected, "{time}");
    }
    let config = CreatableTopicConfig {
        name: "message.timestamp.type".to_owned(),
        value: Some("LogAppendTime".to_owned()),
        ..Default::default()
    };
    let topic = CreatableTopic {
        name: "stamped".to_owned(),
        num_partitions: 1,
        replication_factor: 1,
        configs: vec![config],
        ..Default::default()
    };
    client.call(5, &CreateTopicsRequest { topics: vec![topic], timeout_ms: 1000, ..Default::default() }).await;
    for (magic, codec) in [(0, Codec::None), (1, Codec::None), (1, Codec::Snappy)] {
        let request = produce_request("stamped", 0, &messages(magic, codec, &["a", "b"]), -1);
        let response = client.call(2, &request).await.responses.remove(0).partition_responses.remove(0);
        assert!(response.error_code == 0 && response.log_append_time_ms > 1_700_000_000_000);
        let stored = client.fetch("stamped", 0, response.base_offset).await.records.unwrap();
        let expected = if magic == 0 { -1 } else { response.log_append_time_ms };
        assert!(rows(&stored).iter().all(|row| row.1 == expected), "magic {magic}, {codec:?}");
    }
    broker.shutdown().await;
}

#[tokio::test]
async fn load_keeps_data_unchanged() {
    let broker = broker(1, &[("t", 1), ("damaged", 1)]).await;
    let mut client = Client::connect(&broker, 0).await;
    // The data has gaps before the first batch and between batches, several formats, and a truncated message at the
    // end.
    let mut first = messages(1, Codec::Gzip, &["a", "b"]).to_vec();
    first[..8].copy_from_slice(&11_i64.to_be_bytes());
    let mut second = batch_of(&[1, 2, 3], 3, NO_PRODUCER).to_vec();
    second[..8].copy_from_slice(&20_i64.to_be_bytes());
    let log = Bytes::from([&first[..], &second[..], &first[..9]].concat());
    broker.load("t", 0, &log).unwrap();
    assert_eq!(broker.end_offset("t", 0), Some(23));
    for (offset, from) in [(0, 0), (10, 0), (11, 0), (12, first.len()), (22, first.len())] {
        assert_eq!(client.fetch("t", 0, offset).await.records.unwrap(), log.slice(from..), "{offset}");
    }
    broker.load("damaged", 0, &Bytes::from_static(&[7; 40])).unwrap();
    assert_eq!(client.fetch("damaged", 0, 0).await.records.unwrap(), [7; 40][..]);
    assert!(broker.load("nowhere", 0, &log).is_err());
    broker.shutdown().await;
}
