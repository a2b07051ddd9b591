//! Tests of messages of formats v0 and v1.

use bytes::Bytes;
use std::ops::ControlFlow;

use samsarrow_wire::batch::legacy::{Message, convert};
use samsarrow_wire::batch::patch::{set_base_offset, set_log_append_time};
use samsarrow_wire::batch::{
    Batch, BatchBuilder, BatchErrorKind, BatchOptions, Block, EncodeError, LegacyBuilder, LegacyDecompressor,
    LegacyError, LegacyOptions, MessageSet, RecordError, TimestampType, batches,
};
use samsarrow_wire::compression::{Codec, CompressionError, Compressor, Limits};
use samsarrow_wire::crc::crc32;

/// Encodes a message independently of the code under test.
fn message(
    magic: u8,
    offset: i64,
    attributes: u8,
    timestamp: i64,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) -> Vec<u8> {
    let mut body = vec![magic, attributes];
    if magic == 1 {
        body.extend_from_slice(&timestamp.to_be_bytes());
    }
    for field in [key, value] {
        body.extend_from_slice(&field.map_or(-1, |f| f.len() as i32).to_be_bytes());
        body.extend_from_slice(field.unwrap_or_default());
    }
    let mut out = offset.to_be_bytes().to_vec();
    out.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
    out.extend_from_slice(&crc32(&body).to_be_bytes());
    out.extend_from_slice(&body);
    out
}

fn all(data: &[u8]) -> Vec<Batch> {
    batches(Bytes::copy_from_slice(data)).collect::<Result<_, _>>().unwrap()
}

#[test]
fn crc32_matches_zip() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}

#[test]
fn reads_mixed_formats_by_magic_byte() {
    let mut v2 = samsarrow_wire::batch::BatchBuilder::new(BatchOptions { base_offset: 9, ..BatchOptions::default() });
    v2.append(5, None, Some(b"v"), std::iter::empty()).unwrap();
    let mut compressor = samsarrow_wire::compression::Compressor::new(Default::default(), None).unwrap();
    let data = [
        message(0, 3, 0, 0, None, Some(b"a")),
        message(1, 4, 0x08, 77, Some(b"k"), None),
        message(1, 8, 1, 70, None, Some(b"not looked into")),
        v2.finish(&mut compressor).unwrap(),
        message(0, 10, 0, 0, None, Some(b"cut off"))[..20].to_vec(),
    ]
    .concat();
    let mut iter = batches(data.clone().into());
    let found_batches: Vec<_> = iter.by_ref().map(Result::unwrap).collect();
    assert!(iter.truncated_tail());
    assert_eq!(iter.position(), data.len() - 20);
    let headers: Vec<_> = found_batches
        .iter()
        .map(|b| {
            (b.header.magic, b.header.base_offset, b.header.next_offset(), b.header.record_count, b.header.is_wrapper())
        })
        .collect();
    assert_eq!(headers, [(0, 3, 4, 1, false), (1, 4, 5, 1, false), (1, 8, 9, -1, true), (2, 9, 10, 1, false)]);
    let times: Vec<_> = found_batches.iter().map(|b| (b.header.timestamp_type(), b.header.max_timestamp)).collect();
    let (create, append) = (TimestampType::CreateTime, TimestampType::LogAppendTime);
    assert_eq!(times, [(create, -1), (append, 77), (create, 70), (create, 5)]);
    for batch in &found_batches[..3] {
        let h = &batch.header;
        assert!(!h.is_transactional() && !h.is_control() && !h.has_delete_horizon());
        assert_eq!((h.producer_id, h.producer_epoch, h.base_sequence, h.partition_leader_epoch), (-1, -1, -1, -1));
    }
    assert!(found_batches.iter().all(|b| b.check_crc().is_ok()));
}

#[test]
fn crc_covers_all_but_offset_and_length() {
    for magic in [0, 1] {
        let good = message(magic, 5, 0, 12345, Some(b"key"), Some(b"value"));
        assert!(all(&good)[0].check_crc().is_ok());
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            if let Some(Ok(batch)) = batches(bad.into()).next() {
                assert_eq!(batch.check_crc().is_ok(), at < 8, "magic {magic}, byte {at}");
            }
        }
    }
}

#[test]
fn rejects_lengths_below_minimum() {
    for (magic, min_length) in [(0, 14), (1, 22)] {
        for length in [-1, 0, 13, min_length - 1] {
            let mut data = message(magic, 5, 0, 0, None, Some(b"0123456789"));
            data[8..12].copy_from_slice(&i32::to_be_bytes(length));
            let error = batches(data.into()).next().unwrap().unwrap_err();
            assert!(matches!(error.kind, BatchErrorKind::Length { length: l } if l == length), "{magic} {length}");
        }
        assert_eq!(all(&message(magic, 5, 0, 0, None, None))[0].bytes().len(), min_length as usize + 12);
    }
}

/// Encodes a wrapper around `inner`, independently of the code under test.
fn wrapper(magic: u8, offset: i64, codec: Codec, timestamp: i64, inner: &[u8]) -> Vec<u8> {
    let mut value = Vec::new();
    Compressor::new(codec, None).unwrap().compress_for(magic as i8, inner, &mut value).unwrap();
    message(magic, offset, codec.id() as u8, timestamp, None, Some(&value))
}

/// Offset, timestamp, key, value.
type Row = (i64, i64, Option<Vec<u8>>, Option<Vec<u8>>);

fn read(data: &[u8], check_crcs: bool) -> Result<(MessageSet, Vec<Row>), BatchErrorKind> {
    let batch = batches(Bytes::copy_from_slice(data)).next().unwrap().unwrap();
    let mut messages = Vec::new();
    if batch.header.is_wrapper() {
        LegacyDecompressor::new().decompress(&batch, &mut messages, 1 << 20).map_err(|e| e.kind)?;
    } else {
        messages = data.to_vec();
    }
    let set = MessageSet::read(&batch, &messages, check_crcs).map_err(|e| e.kind)?;
    let mut rows = Vec::new();
    let mut visit = |block: &mut Block| {
        for record in block.records() {
            rows.push((
                set.header.base_offset + i64::from(record.offset_delta),
                set.header.base_timestamp + record.timestamp_delta,
                record.key(&messages).map(<[u8]>::to_vec),
                record.value(&messages).map(<[u8]>::to_vec),
            ));
        }
        ControlFlow::Continue(())
    };
    set.walk_blocks(&messages, &mut Block::new(), &mut visit).map_err(BatchErrorKind::from)?;
    assert_eq!(rows.len(), set.header.record_count as usize);
    Ok((set, rows))
}

fn rule(data: &[u8]) -> LegacyError {
    match read(data, true) {
        Err(BatchErrorKind::Legacy(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn value(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

#[test]
fn offsets_in_wrappers_are_absolute_in_v0_and_relative_in_v1() {
    // The offsets have gaps, as after compaction.
    let v0 = [message(0, 10, 0, 0, None, Some(b"a")), message(0, 15, 0, 0, Some(b"k"), None)].concat();
    let (set, rows) = read(&wrapper(0, 15, Codec::Snappy, 0, &v0), true).unwrap();
    assert_eq!(rows, [(10, -1, None, value("a")), (15, -1, value("k"), None)]);
    assert_eq!((set.header.base_offset, set.header.next_offset()), (10, 16));
    let v1 = [message(1, 0, 0, 7, None, Some(b"a")), message(1, 3, 0, -1, Some(b""), Some(b""))].concat();
    let (set, rows) = read(&wrapper(1, 103, Codec::Gzip, 7, &v1), true).unwrap();
    assert_eq!(rows, [(100, 7, None, value("a")), (103, -1, value(""), value(""))]);
    assert_eq!((set.header.base_offset, set.header.max_timestamp), (100, 7));
    // Old producers left the wrapper's offset at 0. Only the offsets inside are then valid.
    for (magic, inner) in [(0, &v0), (1, &v1)] {
        let (_, rows) = read(&wrapper(magic, 0, Codec::Gzip, 7, inner), true).unwrap();
        assert_eq!(rows[1].0, if magic == 0 { 15 } else { 3 });
        let last = rows[1].0;
        let refused = |offset| LegacyError::WrapperOffset { wrapper: offset, last };
        assert_eq!(rule(&wrapper(magic, 2, Codec::Gzip, 7, inner)), refused(2));
        if magic == 0 {
            assert_eq!(read(&wrapper(0, -1, Codec::Gzip, 7, inner), true).unwrap().1[1].0, 15);
        } else {
            assert_eq!(rule(&wrapper(1, -1, Codec::Gzip, 7, inner)), refused(-1));
        }
    }
}

#[test]
fn rejects_invalid_wrapper_contents() {
    let plain = message(1, 0, 0, 7, None, Some(b"a"));
    let nested = wrapper(1, 0, Codec::Gzip, 7, &plain);
    assert_eq!(rule(&wrapper(1, 5, Codec::Gzip, 7, &nested)), LegacyError::Nested);
    assert_eq!(rule(&message(1, 5, 1, 7, None, None)), LegacyError::NullWrapper);
    assert_eq!(rule(&wrapper(1, 5, Codec::Gzip, 7, b"")), LegacyError::EmptyWrapper);
    assert_eq!(rule(&wrapper(1, 5, Codec::Gzip, 7, &plain[..20])), LegacyError::EmptyWrapper);
    for magic in [0, 1] {
        let codec = LegacyError::Codec { magic: magic as i8, codec: Codec::Zstd };
        assert_eq!(rule(&wrapper(magic, 5, Codec::Zstd, 7, &plain)), codec);
    }
    assert!(matches!(read(&message(1, 5, 6, 7, None, Some(b"")), true), Err(BatchErrorKind::Codec { id: 6 })));
    let far = [plain.clone(), message(1, 1 << 32, 0, 7, None, None)].concat();
    assert_eq!(rule(&wrapper(1, 1 << 40, Codec::Gzip, 7, &far)), LegacyError::Offsets);
    let mut other = plain.clone();
    other[16] = 2;
    let malformed = |what| LegacyError::Field { index: 1, what };
    assert_eq!(rule(&wrapper(1, 5, Codec::Gzip, 7, &[plain.clone(), other].concat())), malformed("magic"));
    let mut short = plain.clone();
    short[8..12].copy_from_slice(&13i32.to_be_bytes());
    assert_eq!(rule(&wrapper(1, 5, Codec::Gzip, 7, &[plain.clone(), short].concat())), malformed("length"));
    // A truncated message ends the set without an error, as in the Java client.
    let cut = [&plain[..], &plain[..30]].concat();
    assert_eq!(read(&wrapper(1, 5, Codec::Gzip, 7, &cut), true).unwrap().1, [(5, 7, None, value("a"))]);
}

#[test]
fn rejects_field_lengths_out_of_bounds() {
    let good = message(1, 0, 0, 7, Some(b"key"), Some(b"value"));
    for (at, what) in [(26, "key length"), (33, "value length")] {
        for len in [-2, i32::MIN, 50, 1 << 20, i32::MAX] {
            let mut bad = good.clone();
            bad[at..at + 4].copy_from_slice(&i32::to_be_bytes(len));
            assert_eq!(rule(&bad), LegacyError::Field { index: 0, what }, "{len}");
        }
        let mut short = good.clone();
        short[at..at + 4].copy_from_slice(&i32::to_be_bytes(-1));
        assert!(matches!(rule(&short), LegacyError::Field { .. }));
    }
}

#[test]
fn start_beyond_the_data_is_an_error() {
    let data = message(1, 3, 0, 0, None, Some(b"a"));
    assert_eq!(Message::read(&data, data.len()), Ok(None));
    assert_eq!(Message::read(&data, data.len() + 1), Err("start"));
    let batch = &all(&data)[0];
    let mut set = MessageSet::read(batch, &data, true).unwrap();
    set.header.record_count = -1;
    let walked = set.walk_blocks(&data, &mut Block::new(), &mut |_| ControlFlow::Continue(()));
    assert_eq!(walked, Err(RecordError::TooFew { expected: -1, actual: 0 }));
}

#[test]
fn inner_checksums_are_verified_on_request() {
    for magic in [0, 1] {
        let mut bad = message(magic, 1, 0, 7, None, Some(b"b"));
        *bad.last_mut().unwrap() ^= 1;
        let inner = [message(magic, 0, 0, 7, None, Some(b"a")), bad].concat();
        let data = wrapper(magic, 1, Codec::Gzip, 7, &inner);
        assert!(matches!(rule(&data), LegacyError::InnerCrc { index: 1, .. }));
        assert_eq!(read(&data, false).unwrap().1[1].3, value("c"));
    }
}

/// Brokers reject such a wrapper, but the Java client reads the messages. It computes the offsets from the wrapper and
/// uses the timestamp of each message.
#[test]
fn formats_inside_may_differ_from_the_wrapper() {
    let inner = [message(0, 0, 0, 0, None, Some(b"a")), message(1, 1, 0, 8, None, Some(b"b"))].concat();
    let (_, rows) = read(&wrapper(1, 50, Codec::Gzip, 7, &inner), true).unwrap();
    assert_eq!(rows, [(49, -1, None, value("a")), (50, 8, None, value("b"))]);
    let (_, rows) = read(&wrapper(0, 50, Codec::Gzip, 7, &inner), true).unwrap();
    assert_eq!(rows, [(0, -1, None, value("a")), (1, 8, None, value("b"))]);
}

#[test]
fn compression_bomb_stops_at_max_bytes() {
    let inner = message(1, 0, 0, 7, None, Some(&vec![0; 2 << 20]));
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
        let error = read(&wrapper(1, 0, codec, 7, &inner), true).unwrap_err();
        assert!(matches!(error, BatchErrorKind::Decompress(CompressionError::TooLarge { .. })), "{error}");
    }
}

#[test]
fn compression_bomb_stops_at_max_ratio() {
    for (magic, codec) in [0, 1].into_iter().flat_map(|m| [Codec::Gzip, Codec::Snappy, Codec::Lz4].map(|c| (m, c))) {
        let inner = message(magic, 0, 0, 7, None, Some(&vec![0; 300_000]));
        let wire = wrapper(magic, 0, codec, 7, &inner);
        let decompress = |max_ratio, small| {
            let limits = Limits { max_bytes: 1 << 20, max_ratio, small };
            let mut out = Vec::new();
            LegacyDecompressor::new().decompress(&all(&wire)[0], &mut out, limits).map(|()| out.len())
        };
        let error = decompress(5, 1000).unwrap_err();
        let is_ratio_error = matches!(error.kind, BatchErrorKind::Decompress(CompressionError::Ratio { ratio: 5, .. }));
        assert!(is_ratio_error, "magic {magic}, {codec:?}: {error}");
        for (max_ratio, small) in [(2000, 0), (5, 1 << 20), (0, 0)] {
            assert_eq!(decompress(max_ratio, small).unwrap(), inner.len(), "magic {magic}, {codec:?}");
        }
    }
}

/// Each level of wrappers would multiply the expansion of the previous level, so only one level is allowed.
#[test]
fn rejects_nested_wrappers() {
    for magic in [0, 1] {
        let bomb = wrapper(magic, 0, Codec::Gzip, 7, &message(magic, 0, 0, 7, None, Some(&vec![0; 2 << 20])));
        let nested = wrapper(magic, 0, Codec::Gzip, 7, &bomb);
        assert!(matches!(rule(&nested), LegacyError::Nested));
    }
}

/// A reader could never advance past the maximum offset.
#[test]
fn rejects_maximum_offset() {
    for magic in [0, 1] {
        let data = message(magic, i64::MAX, 0, 7, None, Some(b"v"));
        let error = batches(Bytes::from(data)).next().unwrap().unwrap_err();
        assert!(matches!(error.kind, BatchErrorKind::Offsets { .. }), "{error}");
        let before = message(magic, i64::MAX - 1, 0, 7, None, Some(b"v"));
        let first = &all(&before)[0];
        assert_eq!(first.header.next_offset(), i64::MAX);
        // The message is not accepted after another message either.
        let both = [before.clone(), message(magic, i64::MAX, 0, 7, None, Some(b"v"))].concat();
        let (set, end) = MessageSet::read_run(first, &both, usize::MAX, usize::MAX, true).unwrap();
        assert_eq!((set.header.record_count, end), (1, before.len()));
    }
}

/// The header of lz4 frames has a nonstandard checksum in v0 and the standard checksum in v1.
#[test]
fn lz4_frames_have_the_checksum_of_their_format() {
    let build = |magic| {
        let mut builder = LegacyBuilder::new(LegacyOptions { magic, ..LegacyOptions::default() }).unwrap();
        builder.append(7, None, Some(b"value"), std::iter::empty()).unwrap();
        builder.finish(&mut Compressor::new(Codec::Lz4, None).unwrap()).unwrap()
    };
    let (v0, v1) = (build(0), build(1));
    let (frame0, frame1) = (&v0[26..], &v1[34..]);
    assert_eq!(frame0[..6], frame1[..6]);
    assert_ne!(frame0[6], frame1[6]);
    // In v1 the checksum after the two descriptor bytes is 0x82, a byte of their xxHash32. In v0 it also covers the
    // four bytes before them.
    assert_eq!((frame0[4..7].to_vec(), frame1[6]), (vec![0x60, 0x40, frame0[6]], 0x82));
    let swap = |wire: &[u8], at: usize, checksum: u8| {
        let mut wire = wire.to_vec();
        wire[at] = checksum;
        let crc = crc32(&wire[16..]);
        wire[12..16].copy_from_slice(&crc.to_be_bytes());
        read(&wire, true)
    };
    assert!(swap(&v0, 32, frame1[6]).is_ok(), "the right checksum is no error in v0");
    assert!(matches!(swap(&v1, 40, frame0[6]), Err(BatchErrorKind::Decompress(_))));
}

#[test]
fn set_base_offset_and_append_time_of_messages() {
    let mut builder = LegacyBuilder::new(LegacyOptions::default()).unwrap();
    for i in 0..3 {
        builder.append(i, None, Some(b"v"), std::iter::empty()).unwrap();
    }
    let mut wire = builder.finish(&mut Compressor::new(Codec::Gzip, None).unwrap()).unwrap();
    set_base_offset(&mut wire, 42, 9).unwrap();
    set_log_append_time(&mut wire, 1234).unwrap();
    assert!(all(&wire)[0].check_crc().is_ok());
    let (set, rows) = read(&wire, true).unwrap();
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [40, 41, 42]);
    assert_eq!((set.header.timestamp_type(), set.header.max_timestamp), (TimestampType::LogAppendTime, 1234));
    let mut v0 = message(0, 0, 0, 0, None, Some(b"v"));
    set_base_offset(&mut v0, 5, 9).unwrap();
    set_log_append_time(&mut v0, 1234).unwrap();
    assert_eq!(v0, message(0, 5, 0, 0, None, Some(b"v")));
    v0.push(0);
    assert!(set_base_offset(&mut v0, 6, 9).is_err(), "bytes after the message");
}

#[test]
fn convert_writes_messages() {
    let options =
        BatchOptions { base_offset: 30, producer_id: 4, producer_epoch: 0, base_sequence: 0, ..Default::default() };
    for from in Codec::ALL {
        for to in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4] {
            for magic in [0, 1] {
                let mut builder = BatchBuilder::new(options);
                for (time, text) in [(100, Some("a")), (90, None), (-1, Some(""))] {
                    builder.append(time, text.map(str::as_bytes), Some(b"value"), std::iter::empty()).unwrap();
                }
                let batch = builder.finish(&mut Compressor::new(from, None).unwrap()).unwrap();
                let wire = convert(batch.into(), magic, &mut Compressor::new(to, None).unwrap()).unwrap();
                let rows: Vec<Row> = all(&wire).iter().flat_map(|b| read(b.bytes(), true).unwrap().1).collect();
                let time = |time: i64| if magic == 0 { -1 } else { time };
                let expected = [(30, time(100), value("a")), (31, time(90), None), (32, -1, value(""))];
                let expected = expected.map(|(offset, time, key)| (offset, time, key, value("value")));
                assert_eq!(rows, expected, "{from:?} to {to:?}, magic {magic}");
                assert!(all(&wire).iter().all(|b| b.header.magic == magic && b.check_crc().is_ok()));
            }
        }
    }
}

#[test]
fn convert_rejects_headers_and_transactions() {
    let none = || Compressor::new(Codec::None, None).unwrap();
    let build = |transactional, headers: &[(&[u8], Option<&[u8]>)]| {
        let mut builder = BatchBuilder::new(BatchOptions { transactional, ..BatchOptions::default() });
        builder.append(1, None, Some(b"v"), headers.iter().copied()).unwrap();
        Bytes::from(builder.finish(&mut none()).unwrap())
    };
    let plain = build(false, &[]);
    assert!(matches!(convert(build(false, &[(b"h", None)]), 1, &mut none()), Err(EncodeError::Headers { magic: 1 })));
    assert!(matches!(convert(build(true, &[]), 0, &mut none()), Err(EncodeError::Transactional { magic: 0 })));
    assert!(matches!(convert(plain.clone(), 2, &mut none()), Err(EncodeError::Magic { magic: 2 })));
    let mut zstd = Compressor::new(Codec::Zstd, None).unwrap();
    let error = convert(plain.clone(), 1, &mut zstd).unwrap_err();
    assert!(matches!(error, EncodeError::Legacy(LegacyError::Codec { magic: 1, codec: Codec::Zstd })));
    for bad in [Bytes::new(), plain.slice(..65), message(1, 0, 0, 0, None, None).into()] {
        assert!(matches!(convert(bad, 1, &mut none()), Err(EncodeError::NotABatch(_))));
    }
}
