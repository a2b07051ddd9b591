//! The snappy codec. The data is framed like snappy-java does (xerial), or is one raw block.
use snap::raw::{Decoder, Encoder, decompress_len, max_compress_len};

use super::{Codec, CompressionError, Output};

/// Magic of the xerial framing. It is followed by two version numbers, which readers ignore.
const MAGIC: &[u8; 8] = b"\x82SNAPPY\0";
const HEADER_LEN: usize = 16;
const VERSIONS: [u8; 8] = [0, 0, 0, 1, 0, 0, 0, 1];
/// Uncompressed bytes per block, as in the Java client.
const BLOCK_LEN: usize = 32 * 1024;
/// Upper bound of the ratio of output to input: three bytes of input copy at most 64 bytes of output.
const MAX_RATIO: usize = 32;

#[derive(Debug)]
pub(super) struct Compress {
    encoder: Encoder,
}

impl Compress {
    pub(super) fn new() -> Self {
        Compress { encoder: Encoder::new() }
    }

    pub(super) fn run(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CompressionError> {
        let failed = |e: snap::Error| CompressionError::Failed { codec: Codec::Snappy, what: e.to_string() };
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&VERSIONS);
        for block in input.chunks(BLOCK_LEN) {
            let start = out.len();
            let data = start + 4;
            out.resize(data + max_compress_len(block.len()), 0);
            let (_, target) = out.split_at_mut(data);
            let size = self.encoder.compress(block, target).map_err(failed)?;
            if let Some(length) = out.get_mut(start..data) {
                length.copy_from_slice(&(size as u32).to_be_bytes());
            }
            out.truncate(data + size);
        }
        Ok(())
    }
}

#[derive(Debug)]
pub(super) struct Decompress {
    decoder: Decoder,
}

impl Default for Decompress {
    fn default() -> Self {
        Decompress { decoder: Decoder::new() }
    }
}

impl Decompress {
    pub(super) fn run(&mut self, input: &[u8], out: &mut Output<'_>) -> Result<(), CompressionError> {
        if !input.starts_with(MAGIC) {
            return self.block(input, out);
        }
        let corrupt = |what: &str| Codec::Snappy.corrupt(what);
        let mut rest = input.get(HEADER_LEN..).ok_or_else(|| corrupt("the header is cut off"))?;
        while !rest.is_empty() {
            let (length, after) = rest.split_first_chunk::<4>().ok_or_else(|| corrupt("a block length is cut off"))?;
            let length = u32::from_be_bytes(*length) as usize;
            if length > after.len() {
                return Err(corrupt("a block is longer than the data"));
            }
            let (block, after) = after.split_at(length);
            self.block(block, out)?;
            rest = after;
        }
        Ok(())
    }

    fn block(&mut self, block: &[u8], out: &mut Output<'_>) -> Result<(), CompressionError> {
        let corrupt = |e: snap::Error| Codec::Snappy.corrupt(e.to_string());
        let size = decompress_len(block).map_err(corrupt)?;
        if size > block.len().saturating_mul(MAX_RATIO) {
            return Err(Codec::Snappy.corrupt("a block claims more than it can hold"));
        }
        if size > out.left() {
            return Err(out.too_large());
        }
        let start = out.bytes.len();
        out.bytes.resize(start + size, 0);
        let (_, target) = out.bytes.split_at_mut(start);
        self.decoder.decompress(block, target).map_err(corrupt)?;
        Ok(())
    }
}
