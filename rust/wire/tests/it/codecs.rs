//! Tests with data that other implementations compressed (Python's gzip, lz4, zstandard and cramjam), both intact and
//! damaged.

use samsarrow_wire::compression::{Codec, CompressionError, Compressor, Decompressor};

/// One case per line, with the name, the codec, the input and the compressed bytes as hex.
const FOREIGN: &str = include_str!("codecs_foreign.txt");

fn plain(size: &str) -> Vec<u8> {
    let small = b"{\"id\":1,\"name\":\"samsarrow\",\"ok\":true}".repeat(3);
    match size {
        "small" => small,
        "large" => small.repeat(700),
        other => panic!("input {other}"),
    }
}

struct Case {
    name: &'static str,
    codec: Codec,
    plain: Vec<u8>,
    compressed: Vec<u8>,
}

fn foreign() -> Vec<Case> {
    let cases = FOREIGN.lines().map(|line| {
        let [name, codec, size, hex] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let byte = |i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
        let compressed = (0..hex.len()).step_by(2).map(byte).collect();
        Case { name, codec: Codec::from_name(codec).unwrap(), plain: plain(size), compressed }
    });
    cases.collect()
}

#[test]
fn decompresses_data_of_other_implementations() {
    let cases = foreign();
    assert_eq!(cases.len(), 16);
    let mut decompressor = Decompressor::new();
    for Case { name, codec, plain, compressed } in cases {
        let mut out = Vec::new();
        let result = decompressor.decompress(codec, &compressed, &mut out, plain.len());
        assert_eq!(result, Ok(()), "{name}");
        assert!(out == plain, "{name}");
        let cap = plain.len() - 1;
        let result = decompressor.decompress(codec, &compressed, &mut Vec::new(), cap);
        assert_eq!(result, Err(CompressionError::TooLarge { codec, cap }), "{name}");
    }
}

#[test]
fn verifies_lz4_checksums() {
    let case = foreign().into_iter().find(|case| case.name == "python_lz4_linked_64k_checksums").unwrap();
    let refusal = |at: usize| {
        let mut damaged = case.compressed.clone();
        damaged[at] ^= 1;
        let error = Decompressor::new().decompress(Codec::Lz4, &damaged, &mut Vec::new(), 1 << 20).unwrap_err();
        error.to_string()
    };
    // Sizes of the frame's fields: magic 4, flags 1, block size 1, content size 8, header checksum 1, block length 4.
    assert!(refusal(14).contains("checksum of the frame's header"), "{}", refusal(14));
    assert!(refusal(25).contains("checksum of a block"), "{}", refusal(25));
    assert!(refusal(case.compressed.len() - 1).contains("checksum of the content"));
    // Change the content size and correct the header checksum.
    let mut damaged = case.compressed.clone();
    damaged[6] ^= 1;
    damaged[14] = (twox_hash::XxHash32::oneshot(0, &damaged[4..14]) >> 8) as u8;
    let error = Decompressor::new().decompress(Codec::Lz4, &damaged, &mut Vec::new(), 1 << 20).unwrap_err();
    assert!(error.to_string().contains("another number of bytes"), "{error}");
}

#[test]
fn legacy_lz4_header_checksum_is_opt_in() {
    let case = foreign().into_iter().find(|case| case.name == "python_lz4_independent_hc").unwrap();
    let mut old = case.compressed;
    old[6] = (twox_hash::XxHash32::oneshot(0, &old[..6]) >> 8) as u8;
    let mut out = Vec::new();
    let error = Decompressor::new().decompress(Codec::Lz4, &old, &mut out, 1 << 20).unwrap_err();
    assert!(error.to_string().contains("checksum of the frame's header"), "{error}");
    out.clear();
    Decompressor::new().with_legacy_lz4().decompress(Codec::Lz4, &old, &mut out, 1 << 20).unwrap();
    assert!(out == case.plain);
    // Any other wrong checksum is still rejected.
    old[6] ^= 1;
    Decompressor::new().with_legacy_lz4().decompress(Codec::Lz4, &old, &mut out, 1 << 20).unwrap_err();
}

#[test]
fn truncated_foreign_data_terminates() {
    let mut decompressor = Decompressor::new();
    for Case { name, codec, plain, compressed } in foreign() {
        let mut out = Vec::new();
        for len in 0..compressed.len() {
            out.clear();
            // Decompression may succeed for a prefix that ends with a frame, a member or a block.
            if decompressor.decompress(codec, &compressed[..len], &mut out, plain.len()).is_ok() {
                assert!(plain.starts_with(&out), "{name} cut at {len}");
            }
        }
    }
}

#[test]
fn mutated_foreign_data_never_panics() {
    let mut cases = foreign();
    let text: Vec<u8> = (0..3000usize).map(|i| b"abcdefghijklmnop"[(i * i / 7 + i / 300) % 16]).collect();
    for codec in Codec::ALL {
        let mut compressed = Vec::new();
        Compressor::new(codec, None).unwrap().compress(&text, &mut compressed).unwrap();
        cases.push(Case { name: codec.name(), codec, plain: text.clone(), compressed });
    }
    let mut seed = 17u64;
    let mut next = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    let mut decompressor = Decompressor::new();
    let mut refused = 0;
    for i in 0..20_000 {
        let case = &mut cases[i % 21];
        let cap = case.plain.len();
        let at = next() % case.compressed.len();
        let was = std::mem::replace(&mut case.compressed[at], next() as u8);
        let mut out = Vec::new();
        refused += usize::from(decompressor.decompress(case.codec, &case.compressed, &mut out, cap).is_err());
        assert!(out.len() <= cap + 1 && out.capacity() <= 4 * cap + 4096, "{}: {}", case.name, out.capacity());
        case.compressed[at] = was;
    }
    assert!(refused > 6_000, "only {refused} were refused");
}
