//! Tests of the codecs: round trips, foreign framings, limits and damage.

use proptest::prelude::*;
use samsarrow_wire::compression::{Codec, CompressionError, Compressor, Decompressor, Limits};

const REAL: [Codec; 4] = [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

fn compress(codec: Codec, level: Option<i32>, input: &[u8]) -> Vec<u8> {
    let mut out = b"kept".to_vec();
    Compressor::new(codec, level).unwrap().compress(input, &mut out).unwrap();
    assert_eq!(&out[..4], b"kept");
    out.split_off(4)
}

fn decompress(codec: Codec, input: &[u8], cap: usize) -> Result<Vec<u8>, CompressionError> {
    let mut out = b"kept".to_vec();
    Decompressor::new().decompress(codec, input, &mut out, cap)?;
    assert_eq!(&out[..4], b"kept");
    Ok(out.split_off(4))
}

fn text(len: usize) -> Vec<u8> {
    (0..len).map(|i| b"abcdefghijklmnop"[(i * i / 7 + i / 300) % 16]).collect()
}

proptest! {
    #[test]
    fn codecs_round_trip(input in prop::collection::vec(any::<u8>(), 0..3000), repeat in 1usize..100) {
        let input = input.repeat(repeat);
        for codec in Codec::ALL {
            let compressed = compress(codec, None, &input);
            prop_assert_eq!(decompress(codec, &compressed, input.len()).unwrap(), input.clone(), "{:?}", codec);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(input in prop::collection::vec(any::<u8>(), 0..300)) {
        for codec in Codec::ALL {
            if let Ok(out) = decompress(codec, &input, 10_000) {
                prop_assert!(out.len() <= 10_000);
            }
        }
    }
}

#[test]
fn max_bytes_is_exact() {
    for codec in Codec::ALL {
        for len in [1, 1000, 32 * 1024, 64 * 1024, 64 * 1024 + 1, 300_000] {
            let compressed = compress(codec, None, &text(len));
            assert_eq!(decompress(codec, &compressed, len).unwrap(), text(len), "{codec:?} {len}");
            let error = decompress(codec, &compressed, len - 1).unwrap_err();
            assert_eq!(error, CompressionError::TooLarge { codec, cap: len - 1 }, "{codec:?} {len}");
        }
    }
}

#[test]
fn compression_bomb_stops_at_max_bytes() {
    for codec in REAL {
        let bomb = compress(codec, None, &vec![0; 50_000_000]);
        let mut out = Vec::new();
        let error = Decompressor::new().decompress(codec, &bomb, &mut out, 1_000_000).unwrap_err();
        assert!(matches!(error, CompressionError::TooLarge { .. }), "{codec:?}: {error}");
        assert!(out.capacity() <= 2_500_000, "{codec:?}: {} bytes", out.capacity());
    }
}

#[test]
fn rejects_truncated_data() {
    for codec in REAL {
        let compressed = compress(codec, None, &text(70_000));
        for len in 1..compressed.len() {
            // Data in snappy's framing may end after any block, so a prefix can be valid.
            match decompress(codec, &compressed[..len], 100_000) {
                Err(CompressionError::Corrupt { .. }) => {}
                Ok(out) if codec == Codec::Snappy => assert!(text(70_000).starts_with(&out)),
                other => panic!("{codec:?}, {len} of {} bytes: {other:?}", compressed.len()),
            }
        }
    }
}

#[test]
fn contexts_are_reusable_after_an_error() {
    let mut decompressor = Decompressor::new();
    for codec in REAL {
        let mut compressor = Compressor::new(codec, None).unwrap();
        for len in [10, 100_000, 1000] {
            let mut compressed = Vec::new();
            compressor.compress(&text(len), &mut compressed).unwrap();
            decompressor.decompress(codec, &compressed[..compressed.len() - 1], &mut Vec::new(), len).unwrap_err();
            let mut out = Vec::new();
            decompressor.decompress(codec, &compressed, &mut out, len).unwrap();
            assert_eq!(out, text(len));
        }
    }
}

#[test]
fn decompresses_concatenated_frames() {
    for codec in REAL {
        let two = [compress(codec, None, b"one, "), compress(codec, None, b"two")].concat();
        let decompressed = decompress(codec, &two, 100);
        if codec == Codec::Snappy {
            assert!(decompressed.is_err(), "xerial's framing has no end, and so no second beginning");
        } else {
            assert_eq!(decompressed.unwrap(), b"one, two", "{codec:?}");
        }
    }
}

#[test]
fn decompresses_raw_snappy() {
    let raw = snap::raw::Encoder::new().compress_vec(&text(5000)).unwrap();
    assert_eq!(decompress(Codec::Snappy, &raw, 5000).unwrap(), text(5000));
    // A block whose length field says 4 GiB.
    let claim = [b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".as_slice(), &[0xff; 4], &[0; 20]].concat();
    assert!(matches!(decompress(Codec::Snappy, &claim, 1 << 30), Err(CompressionError::Corrupt { .. })));
    assert!(matches!(
        decompress(Codec::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0], 1 << 33),
        Err(CompressionError::Corrupt { .. })
    ));
}

#[test]
fn decompresses_linked_lz4_blocks() {
    // A frame of version 1 with linked blocks of 64 KiB. The second block repeats twelve bytes of the first.
    let stored = b"abcdefghijklmnop";
    // Token for no literals and a match of 4 + 8 bytes at distance 16, then five literals, because lz4 requires
    // literals at the end.
    let linked = [0x08, 16, 0, 0x50, b'v', b'w', b'x', b'y', b'z'];
    let mut frame = vec![0x04, 0x22, 0x4d, 0x18, 0x40, 0x40];
    frame.push((twox_hash::XxHash32::oneshot(0, &[0x40, 0x40]) >> 8) as u8);
    frame.extend_from_slice(&(stored.len() as u32 | 0x8000_0000).to_le_bytes());
    frame.extend_from_slice(stored);
    frame.extend_from_slice(&(linked.len() as u32).to_le_bytes());
    frame.extend_from_slice(&linked);
    frame.extend_from_slice(&[0; 4]);
    assert_eq!(decompress(Codec::Lz4, &frame, 100).unwrap(), b"abcdefghijklmnopabcdefghijklvwxyz");
}

#[test]
fn names_numbers_and_levels() {
    for (number, codec) in Codec::ALL.into_iter().enumerate() {
        assert_eq!(Codec::from_attributes(0x78 | number as i16), Ok(codec));
        assert_eq!((codec.id(), Codec::from_name(codec.name())), (number as i16, Ok(codec)));
        assert_eq!(Compressor::new(codec, None).unwrap().codec(), codec);
    }
    assert_eq!(Codec::from_attributes(5), Err(CompressionError::UnknownCodec(5)));
    assert!(Codec::from_name("lzma").unwrap_err().to_string().contains("one of none, gzip, snappy, lz4, zstd"));
    let error = Compressor::new(Codec::Gzip, Some(10)).unwrap_err();
    assert_eq!(error.to_string(), "gzip has no level 10; its levels are 1 to 9, or -1 for the default");
    let best = compress(Codec::Zstd, Some(19), &text(100_000)).len();
    assert!(best < compress(Codec::Zstd, Some(-50), &text(100_000)).len());
    assert!(
        compress(Codec::Gzip, Some(9), &text(100_000)).len() <= compress(Codec::Gzip, Some(1), &text(100_000)).len()
    );
}

/// Returns compressed data that expands to `len` zeros.
fn zeros(codec: Codec, len: usize) -> Vec<u8> {
    compress(codec, None, &vec![0; len])
}

fn within(codec: Codec, input: &[u8], limits: Limits) -> Result<usize, CompressionError> {
    let mut out = b"kept".to_vec();
    Decompressor::new().decompress(codec, input, &mut out, limits)?;
    Ok(out.len() - 4)
}

#[test]
fn max_ratio_is_exact_and_ignores_small_output() {
    for codec in REAL {
        let len = 300_000;
        let input = zeros(codec, len);
        let enough = len.div_ceil(input.len());
        let limits = |max_ratio, small| Limits { max_bytes: 1 << 20, max_ratio, small };
        assert_eq!(within(codec, &input, limits(enough, 0)).unwrap(), len, "{codec:?}");
        let cap = (enough - 1) * input.len();
        let error = within(codec, &input, limits(enough - 1, 0)).unwrap_err();
        assert_eq!(error, CompressionError::Ratio { codec, input: input.len(), cap, ratio: enough - 1 }, "{codec:?}");
        assert_eq!(error.option(), Some("max.decompressed.ratio"), "{error}");
        // An output of up to `small` bytes is allowed for any input, and a ratio of 0 disables the limit.
        assert_eq!(within(codec, &input, limits(1, len)).unwrap(), len, "{codec:?}");
        assert_eq!(
            within(codec, &input, limits(1, len - 1)).unwrap_err(),
            CompressionError::Ratio { codec, input: input.len(), cap: len - 1, ratio: 1 }
        );
        assert_eq!(within(codec, &input, limits(0, 0)).unwrap(), len, "{codec:?}");
        // If both limits are exceeded, the error names the smaller one.
        let tight = Limits { max_bytes: 1000, max_ratio: 2, small: 2000 };
        assert_eq!(within(codec, &input, tight).unwrap_err(), CompressionError::TooLarge { codec, cap: 1000 });
    }
}

#[test]
fn max_ratio_applies_to_raw_snappy_and_concatenated_frames() {
    let raw = snap::raw::Encoder::new().compress_vec(&vec![0; 300_000]).unwrap();
    let limits = Limits { max_bytes: 1 << 20, max_ratio: 5, small: 10_000 };
    assert!(matches!(within(Codec::Snappy, &raw, limits), Err(CompressionError::Ratio { ratio: 5, .. })));
    // Each frame alone would be within the limits.
    for codec in [Codec::Gzip, Codec::Lz4, Codec::Zstd] {
        let frames = zeros(codec, 9000).repeat(20);
        let error = within(codec, &frames, limits).unwrap_err();
        assert!(matches!(error, CompressionError::Ratio { ratio: 5, .. }), "{codec:?}: {error}");
    }
}

#[test]
fn default_limits_accept_zeros_and_reject_bombs() {
    for codec in REAL {
        let input = zeros(codec, Limits::SMALL);
        assert_eq!(within(codec, &input, Limits::default()).unwrap(), Limits::SMALL, "{codec:?}");
    }
    // Ratios that codecs other than zstd can reach are allowed at any size.
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4] {
        let len = Limits::SMALL + (1 << 20);
        assert_eq!(within(codec, &zeros(codec, len), Limits::default()).unwrap(), len, "{codec:?}");
    }
    let bomb = zeros(Codec::Zstd, 2 * Limits::SMALL);
    let mut out = Vec::new();
    let error = Decompressor::new().decompress(Codec::Zstd, &bomb, &mut out, Limits::default()).unwrap_err();
    assert!(matches!(error, CompressionError::Ratio { ratio: Limits::MAX_RATIO, .. }), "{error}");
    assert!(out.capacity() <= 2 * Limits::SMALL, "{} bytes", out.capacity());
}
