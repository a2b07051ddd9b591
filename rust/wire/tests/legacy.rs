//! Messages of the formats v0 and v1.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use bytes::Bytes;
use samsarrow_wire::batch::{Batch, BatchErrorKind, BatchOptions, TimestampType, batches};
use samsarrow_wire::crc::crc32;

/// A message, made here by the book: nothing of what is tested takes part.
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
fn the_checksum_is_that_of_zip() {
    assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
}

#[test]
fn formats_follow_each_other_by_magic_byte() {
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
    let found: Vec<_> = iter.by_ref().map(Result::unwrap).collect();
    assert!(iter.truncated_tail());
    assert_eq!(iter.position(), data.len() - 20);
    let told: Vec<_> = found
        .iter()
        .map(|b| {
            (b.header.magic, b.header.base_offset, b.header.next_offset(), b.header.record_count, b.header.is_wrapper())
        })
        .collect();
    assert_eq!(told, [(0, 3, 4, 1, false), (1, 4, 5, 1, false), (1, 8, 9, -1, true), (2, 9, 10, 1, false)]);
    let times: Vec<_> = found.iter().map(|b| (b.header.timestamp_type(), b.header.max_timestamp)).collect();
    let (create, append) = (TimestampType::CreateTime, TimestampType::LogAppendTime);
    assert_eq!(times, [(create, -1), (append, 77), (create, 70), (create, 5)]);
    for batch in &found[..3] {
        let h = &batch.header;
        assert!(!h.is_transactional() && !h.is_control() && !h.has_delete_horizon());
        assert_eq!((h.producer_id, h.producer_epoch, h.base_sequence, h.partition_leader_epoch), (-1, -1, -1, -1));
    }
    assert!(found.iter().all(|b| b.check_crc().is_ok()));
}

#[test]
fn the_checksum_covers_all_but_offset_and_length() {
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
fn lengths_below_a_message_are_refused() {
    for (magic, least) in [(0, 14), (1, 22)] {
        for length in [-1, 0, 13, least - 1] {
            let mut data = message(magic, 5, 0, 0, None, Some(b"0123456789"));
            data[8..12].copy_from_slice(&i32::to_be_bytes(length));
            let error = batches(data.into()).next().unwrap().unwrap_err();
            assert!(matches!(error.kind, BatchErrorKind::Length { length: l } if l == length), "{magic} {length}");
        }
        assert_eq!(all(&message(magic, 5, 0, 0, None, None))[0].bytes().len(), least as usize + 12);
    }
}
