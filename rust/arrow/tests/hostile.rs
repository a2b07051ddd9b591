//! Decoding of damaged batches: the decoder returns an error or a result, and never panics, hangs or allocates an
//! excessive amount of memory.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
// The counting allocator is unsafe code.
#![allow(unsafe_code)]
use std::alloc::{GlobalAlloc, Layout as Memory, System};
use std::cell::Cell;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BinaryArray, RecordBatch, TimestampMillisecondArray};
use bytes::Bytes;
use proptest::prelude::*;
use samsarrow_arrow::{Columns, DecodeOptions, Decoder, EncodeOptions, Layout, Window, decode_batches, encode_batches};
use samsarrow_wire::compression::Codec;

struct Counting;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    let _ = LIVE.try_with(|live| {
        live.set(live.get() + bytes);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live.get())));
    });
}

// SAFETY: forwards all calls to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, memory: Memory) -> *mut u8 {
        count(memory.size() as isize);
        // SAFETY: the caller guarantees the allocator's contract.
        unsafe { System.alloc(memory) }
    }

    unsafe fn dealloc(&self, at: *mut u8, memory: Memory) {
        count(-(memory.size() as isize));
        // SAFETY: the caller guarantees the allocator's contract.
        unsafe { System.dealloc(at, memory) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the peak memory use during `run`, in addition to the memory used before.
fn peak(run: impl FnOnce()) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    run();
    usize::try_from(PEAK.get() - before).unwrap()
}

fn table(rows: usize) -> RecordBatch {
    let value = BinaryArray::from_iter((0..rows).map(|i| (i % 9 > 0).then(|| vec![i as u8; 60 + i % 60])));
    let key = BinaryArray::from_iter((0..rows).map(|i| (i % 2 > 0).then(|| i.to_le_bytes())));
    let time = TimestampMillisecondArray::from_iter((0..rows).map(|i| (i % 5 > 0).then_some(i as i64 * 1000)));
    let columns: [(&str, ArrayRef); 3] = [("key", Arc::new(key)), ("value", Arc::new(value)), ("t", Arc::new(time))];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn wire(rows: usize, codec: Codec) -> Vec<u8> {
    wire_of(rows, codec, 2)
}

fn wire_of(rows: usize, codec: Codec, magic: i8) -> Vec<u8> {
    let columns = Columns { timestamp: Some("t".into()), ..Columns::default() };
    encode_batches(&table(rows), &columns, &EncodeOptions { codec, magic, ..EncodeOptions::default() }).unwrap()
}

/// Returns all supported combinations of message format and codec.
fn kinds() -> Vec<(i8, Codec)> {
    let old = [0, 1].into_iter().flat_map(|magic| codecs().map(|codec| (magic, codec)));
    old.filter(|(_, codec)| *codec != Codec::Zstd).chain(codecs().map(|codec| (2, codec))).collect()
}

/// Memory limit for codec contexts (mostly zstd), blocks and minimum buffers, in bytes.
const CONSTANT: usize = 1 << 20;

fn decode(data: &Bytes, layout: Layout, check_crcs: bool) {
    let options = DecodeOptions {
        layout,
        check_crcs,
        include_headers: true,
        include_leader_epoch: true,
        max_decompressed_bytes: 1 << 16,
        ..DecodeOptions::default()
    };
    if let Ok(batch) = decode_batches(data.clone(), options) {
        for column in batch.columns() {
            column.to_data().validate_full().unwrap();
        }
    }
}

fn decode_within_bounds(data: &Bytes, layout: Layout, check_crcs: bool) {
    let used = peak(|| decode(data, layout, check_crcs));
    assert!(used <= 4 * data.len() + CONSTANT, "{used} bytes for {} ({layout:?})", data.len());
}

fn decode_all_ways(data: Vec<u8>) {
    let data = Bytes::from(data);
    for layout in [Layout::Binary, Layout::View] {
        for check_crcs in [false, true] {
            decode_within_bounds(&data, layout, check_crcs);
        }
    }
}

#[test]
fn truncated_batches() {
    for (magic, codec) in kinds() {
        let data = wire_of(30, codec, magic);
        for len in 0..data.len() {
            decode_all_ways(data[..len].to_vec());
        }
    }
}

fn codecs() -> [Codec; 5] {
    [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd]
}

#[test]
fn mutated_batches() {
    let mut seed = 11u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    for (magic, codec) in kinds() {
        let data = wire_of(30, codec, magic);
        for i in 0..4_000 {
            let mut damaged = data.clone();
            // Damage the header more often than the rest.
            let head = if magic == 2 { 61 } else { 34 };
            let at = if next() % 3 == 0 { next() % head } else { next() % data.len() };
            damaged[at] = next() as u8;
            // Most runs do not verify the checksum, because verification rejects nearly all damaged batches
            // immediately.
            decode_within_bounds(&damaged.into(), if i % 2 == 0 { Layout::Binary } else { Layout::View }, i % 8 == 7);
        }
    }
}

#[test]
fn excessive_record_count_allocates_little() {
    let mut data = wire(20_000, Codec::None);
    let max_count = ((data.len() - 61) / 7) as i32;
    data[57..61].copy_from_slice(&max_count.to_be_bytes());
    let data = Bytes::from(data);
    for layout in [Layout::Binary, Layout::View] {
        decode_within_bounds(&data, layout, false);
    }
}

/// Decoding a large response in small steps only needs the memory of one step.
#[test]
fn memory_per_step_is_bounded() {
    let options = EncodeOptions { batch_size: 16 * 1024, ..EncodeOptions::default() };
    let mut rest = Bytes::from(encode_batches(&table(100_000), &Columns::default(), &options).unwrap());
    assert!(rest.len() > 8 << 20);
    for layout in [Layout::Binary, Layout::View] {
        let mut decoder = Decoder::new(DecodeOptions { layout, max_bytes: 1 << 18, ..DecodeOptions::default() });
        let topic = Arc::from("t");
        let used = peak(|| {
            let appended = decoder.append(&topic, 0, rest.clone(), Window::from(0)).unwrap();
            assert!(appended.full);
            let batch = decoder.finish().unwrap();
            assert!(batch.get_array_memory_size() < 1 << 20 || layout == Layout::View);
            rest = rest.slice(appended.consumed..);
        });
        assert!(used < 1 << 20, "{used} bytes for a step of 256 KiB ({layout:?})");
    }
}

/// Wrappers whose contents were damaged before they were compressed, so that the checksum of the wrapper is valid.
#[test]
fn damaged_wrapper_contents() {
    let mut seed = 5u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    for magic in [0u8, 1] {
        let inner = wire_of(20, Codec::None, magic as i8);
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
            let mut compressor = samsarrow_wire::compression::Compressor::new(codec, None).unwrap();
            for i in 0..4_000 {
                let mut damaged = inner.clone();
                for _ in 0..=i % 3 {
                    // Damage the first messages more often than the rest.
                    let at = if next() % 2 == 0 { next() % 200 } else { next() % inner.len() };
                    damaged[at] = [0, 0x7f, 0x80, 0xff, next() as u8][next() % 5];
                }
                damaged.truncate(if i % 7 == 0 { next() % inner.len() } else { inner.len() });
                let mut value = Vec::new();
                compressor.compress_for(magic as i8, &damaged, &mut value).unwrap();
                let mut body = vec![magic, codec.id() as u8];
                body.extend_from_slice(&[0; 8][..8 * usize::from(magic)]);
                body.extend_from_slice(&(-1i32).to_be_bytes());
                body.extend_from_slice(&(value.len() as i32).to_be_bytes());
                body.extend_from_slice(&value);
                let mut data = [0, 19, i64::MAX, -1][next() % 4].to_be_bytes().to_vec();
                data.extend_from_slice(&(body.len() as i32 + 4).to_be_bytes());
                data.extend_from_slice(&samsarrow_wire::crc::crc32(&body).to_be_bytes());
                data.extend_from_slice(&body);
                let data = Bytes::from(data);
                let layout = if i % 2 == 0 { Layout::Binary } else { Layout::View };
                // The messages need more memory than their compressed size.
                let used = peak(|| decode(&data, layout, i % 4 == 0));
                assert!(
                    used <= 4 * (data.len() + inner.len()) + CONSTANT,
                    "{used} bytes for {} ({layout:?})",
                    data.len()
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn valid_header_with_arbitrary_payload(body in prop::collection::vec(any::<u8>(), 0..600), count in 0i32..200, codec in 0u8..8) {
        let mut data = wire(1, Codec::None);
        data.truncate(61);
        data.extend_from_slice(&body);
        let length = (data.len() - 12) as i32;
        data[8..12].copy_from_slice(&length.to_be_bytes());
        data[22] = codec;
        data[23..27].copy_from_slice(&i32::MAX.to_be_bytes());
        data[57..61].copy_from_slice(&count.to_be_bytes());
        decode_all_ways(data);
    }
}

/// A batch of a few kilobytes that decompresses to much more than a valid batch is rejected, although the decompressed
/// size is below the absolute limit.
#[test]
fn rejects_compression_bomb_by_ratio() {
    let value = BinaryArray::from_iter_values([vec![0; 100 << 20]]);
    let table = RecordBatch::try_from_iter([("value", Arc::new(value) as ArrayRef)]).unwrap();
    let options = EncodeOptions { codec: Codec::Zstd, ..EncodeOptions::default() };
    let bomb = Bytes::from(encode_batches(&table, &Columns::default(), &options).unwrap());
    drop(table);
    for layout in [Layout::Binary, Layout::View] {
        let decode = |max_decompressed_ratio| {
            decode_batches(bomb.clone(), DecodeOptions { layout, max_decompressed_ratio, ..DecodeOptions::default() })
        };
        let used = peak(|| {
            let error = decode(DecodeOptions::default().max_decompressed_ratio).unwrap_err();
            assert!(error.cause.is_corrupt() && error.to_string().contains("over 2000 to 1"), "{error}");
            assert_eq!(error.option(), Some("max.decompressed.ratio"));
        });
        // The limit covers a buffer of 64 MiB, and the smaller buffer that was copied to it.
        assert!(used < 100 << 20, "{used} bytes ({layout:?})");
        for allowed in [0, 100_000] {
            assert_eq!(decode(allowed).unwrap().num_rows(), 1, "{layout:?}");
        }
    }
}
