//! The gzip codec.
use std::io::{Read, Write};

use flate2::bufread::MultiGzDecoder;
use flate2::write::GzEncoder;

use super::{Codec, CompressionError, Output};

#[derive(Debug)]
pub(super) struct Compress {
    level: flate2::Compression,
}

impl Compress {
    pub(super) fn new(level: Option<i32>) -> Self {
        let level = level.map_or(flate2::Compression::default(), |level| flate2::Compression::new(level as u32));
        Compress { level }
    }

    pub(super) fn run(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressionError> {
        let failed = |e: std::io::Error| CompressionError::Failed { codec: Codec::Gzip, what: e.to_string() };
        let mut encoder = GzEncoder::new(out, self.level);
        encoder.write_all(input).map_err(failed)?;
        encoder.finish().map_err(failed)?;
        Ok(())
    }
}

/// Decompresses the input, which may consist of several concatenated members.
pub(super) fn decompress(input: &[u8], out: &mut Output<'_>) -> Result<(), CompressionError> {
    out.bytes.reserve(input.len().saturating_mul(3).min(out.left()));
    // Read up to one byte more than the limit, to detect that the output is too large.
    let limit = out.left() as u64 + 1;
    let read = MultiGzDecoder::new(input).take(limit).read_to_end(out.bytes);
    let read = read.map_err(|e| Codec::Gzip.corrupt(e.to_string()))?;
    if read as u64 == limit { Err(out.too_large()) } else { Ok(()) }
}
