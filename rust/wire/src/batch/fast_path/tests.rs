//! Tests of the limits of blocks, and comparison with the general parser.

use super::*;
use crate::varint::{put_varint, put_varlong};

fn record(offset: i32, time: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> Vec<u8> {
    let mut body = vec![0];
    put_varlong(&mut body, time);
    put_varint(&mut body, offset);
    for part in [key, value] {
        put_varint(&mut body, part.map_or(-1, |part| part.len() as i32));
        body.extend_from_slice(part.unwrap_or_default());
    }
    put_varint(&mut body, 0);
    let mut record = Vec::new();
    put_varint(&mut record, body.len() as i32);
    record.extend(body);
    record
}

/// Parses `data` twice, once in blocks and once record by record, each up to the first malformed record.
fn parse_both_ways(data: &[u8]) -> (Vec<RawRecord>, Vec<RawRecord>) {
    let (mut single, mut at) = (Vec::new(), 0);
    while at < data.len() {
        let Ok(record) = read_record(data, at) else { break };
        at = record.end;
        single.push(record);
    }
    let (mut blocks, mut at, mut block) = (Vec::new(), 0, Block::new());
    while at < data.len() {
        match block.fill(data, at, BLOCK_LEN) {
            Ok(end) => at = end,
            Err((valid, _)) => {
                block.len = valid;
                at = data.len();
            }
        }
        blocks.extend(block.records());
    }
    // The positions of headers are undefined for records without headers, and the start of a null field is undefined,
    // too.
    let normalize = |records: &mut Vec<RawRecord>| {
        for record in records {
            record.headers_start = 0;
            record.end = 0;
            for (start, len) in [(&mut record.key_start, record.key_len), (&mut record.value_start, record.value_len)] {
                *start = if len < 0 { 0 } else { *start };
            }
        }
    };
    normalize(&mut single);
    normalize(&mut blocks);
    (blocks, single)
}

#[test]
fn block_respects_its_length_and_capacity() {
    let mut block = Block::new();
    let record = read_record(&record(0, 1, None, Some(b"v")), 0).unwrap();
    assert_eq!(block.record(0), None);
    for index in 0..BLOCK_LEN {
        assert!(block.push(&record));
        assert!(block.record(index).is_some() && block.record(index + 1).is_none(), "{index}");
    }
    assert!(!block.push(&record), "a record more would be lost");
    assert_eq!((block.len(), block.records().count(), block.offset_delta().len()), (BLOCK_LEN, BLOCK_LEN, BLOCK_LEN));
    block.retain(|_| false);
    assert!(block.is_empty() && block.record(0).is_none());
}

#[test]
fn fast_path_agrees_with_read_record() {
    let mut numbers = 7u32;
    let mut next = move |below: u32| {
        numbers = numbers.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (numbers >> 8) % below
    };
    for round in 0..200 {
        let (key_len, value_len) = (next(40) as usize, next(300) as usize);
        let keys = round % 2 == 0;
        let mut data = Vec::new();
        for offset in 0..next(700) as i32 {
            let odd = next(if round % 3 == 0 { 40 } else { u32::MAX }) == 0;
            let time = [0, 1, -1, 63, 64, 8191, 8192, 1 << 40][next(if round % 5 == 0 { 8 } else { 3 }) as usize];
            let key = vec![offset as u8; if odd { next(9) as usize } else { key_len }];
            let value = vec![1; value_len];
            let value = (!odd || next(2) == 0).then_some(&value[..]);
            data.extend(record(offset, time, (keys != odd).then_some(&key[..]), value));
        }
        let (blocks, single) = parse_both_ways(&data);
        assert_eq!(blocks, single, "round {round}");
        for _ in 0..20 {
            let mut bad = data.clone();
            if bad.is_empty() {
                break;
            }
            let at = next(bad.len() as u32) as usize;
            bad[at] = [0, 1, 0x7f, 0x80, 0xff][next(5) as usize];
            let (blocks, single) = parse_both_ways(&bad);
            assert_eq!(blocks, single, "round {round}, byte {at}");
            bad.truncate(at);
            let (blocks, single) = parse_both_ways(&bad);
            assert_eq!(blocks, single, "round {round}, cut at {at}");
        }
    }
}
