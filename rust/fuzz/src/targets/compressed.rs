//! Decompression of damaged streams of all codecs, and round trips of valid streams.

use std::cell::RefCell;

use samsarrow_wire::compression::{Codec, CompressionError, Compressor, Decompressor, Limits};

use super::{MAX_DECOMPRESSED, broken};

thread_local! {
    /// Decompressors, which are reused as in a client, so that the state after one input can affect the next input.
    static DECOMPRESSORS: RefCell<(Decompressor, Decompressor)> =
        RefCell::new((Decompressor::new(), Decompressor::new().with_legacy_lz4()));
}

fn decompress(codec: Codec, input: &[u8]) {
    let Some((&flags, data)) = input.split_first() else { return };
    let cap = if flags & 2 == 0 { MAX_DECOMPRESSED } else { usize::from(flags) };
    let limits = Limits { max_bytes: cap, max_ratio: if flags & 4 == 0 { 0 } else { 3 }, small: 100 };
    let mut out = b"kept".to_vec();
    let result = DECOMPRESSORS.with_borrow_mut(|(new, legacy)| {
        let decompressor = if flags & 1 == 0 { new } else { legacy };
        decompressor.decompress(codec, data, &mut out, limits)
    });
    assert!(out.starts_with(b"kept"));
    match result {
        Ok(()) => {
            assert!(out.len() - 4 <= cap);
            assert!(flags & 4 == 0 || out.len() - 4 <= (3 * data.len()).max(100));
            if flags & 8 != 0 && codec != Codec::Gzip {
                again(codec, &out);
            }
        }
        Err(CompressionError::TooLarge { .. } | CompressionError::Ratio { .. } | CompressionError::Corrupt { .. }) => {}
        Err(other) => broken(&format!("of damaged data: {other}")),
    }
}

/// Checks that decompressed data can be compressed and decompressed again.
fn again(codec: Codec, plain: &[u8]) {
    let mut compressed = Vec::new();
    let Ok(mut compressor) = Compressor::new(codec, None) else { return };
    let written = compressor.compress(plain, &mut compressed);
    let mut out = Vec::new();
    let read = Decompressor::new().decompress(codec, &compressed, &mut out, plain.len());
    assert_eq!((written, read), (Ok(()), Ok(())));
    assert!(out == plain, "{codec:?} gives other bytes back");
}

pub(super) fn gzip(input: &[u8]) {
    decompress(Codec::Gzip, input);
}

pub(super) fn snappy(input: &[u8]) {
    decompress(Codec::Snappy, input);
}

pub(super) fn lz4(input: &[u8]) {
    decompress(Codec::Lz4, input);
}

pub(super) fn zstd(input: &[u8]) {
    decompress(Codec::Zstd, input);
}
