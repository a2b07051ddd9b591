//! The lz4 codec. The frames are parsed here; lz4_flex compresses and decompresses the blocks in them.
use lz4_flex::block::{
    CompressTable, DecompressError, compress_into_with_table, decompress_into, decompress_into_with_dict,
    get_maximum_output_size,
};
use twox_hash::XxHash32;

use super::{Codec, CompressionError, Output};

const MAGIC: u32 = 0x184D_2204;
const MAGIC_LEN: usize = 4;
const VERSION_BITS: u8 = 0xC0;
const VERSION: u8 = 0x40;
const INDEPENDENT: u8 = 0x20;
const BLOCK_CHECKSUM: u8 = 0x10;
const CONTENT_SIZE: u8 = 0x08;
const CONTENT_CHECKSUM: u8 = 0x04;
const DICTIONARY_ID: u8 = 0x01;
/// Flag in a block's length field for a block that is stored uncompressed.
const STORED: u32 = 0x8000_0000;
/// Maximum distance of a match, which may lie in the previous blocks.
const WINDOW: usize = 64 * 1024;
/// Uncompressed size of each block of a written frame, and the code for this size in the frame descriptor.
const BLOCK_LEN: usize = 64 * 1024;
const BLOCK_LEN_CODE: u8 = 0x40;

pub(super) struct Compress {
    table: CompressTable,
}

impl Default for Compress {
    fn default() -> Self {
        Compress { table: CompressTable::large() }
    }
}

impl std::fmt::Debug for Compress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Compress")
    }
}

impl Compress {
    /// Compresses `input` to one frame. If `legacy`, the frame has the nonstandard header checksum that readers of
    /// messages of magic 0 expect.
    pub(super) fn run(&mut self, input: &[u8], legacy: bool, out: &mut Vec<u8>) -> Result<(), CompressionError> {
        let [m0, m1, m2, m3] = MAGIC.to_le_bytes();
        let head = [m0, m1, m2, m3, VERSION | INDEPENDENT, BLOCK_LEN_CODE];
        out.extend_from_slice(&head);
        out.push(header_checksum(if legacy { &head } else { &head[MAGIC_LEN..] }));
        for block in input.chunks(BLOCK_LEN) {
            let start = out.len();
            let data = start + 4;
            out.resize(data + get_maximum_output_size(block.len()), 0);
            let (_, target) = out.split_at_mut(data);
            let size = compress_into_with_table(block, target, &mut self.table)
                .map_err(|e| CompressionError::Failed { codec: Codec::Lz4, what: e.to_string() })?;
            let length = if size < block.len() {
                out.truncate(data + size);
                size as u32
            } else {
                out.truncate(data);
                out.extend_from_slice(block);
                block.len() as u32 | STORED
            };
            if let Some(at) = out.get_mut(start..data) {
                at.copy_from_slice(&length.to_le_bytes());
            }
        }
        out.extend_from_slice(&0u32.to_le_bytes());
        Ok(())
    }
}

fn header_checksum(descriptor: &[u8]) -> u8 {
    (XxHash32::oneshot(0, descriptor) >> 8) as u8
}

/// Decompresses concatenated frames. If `legacy`, also accepts the nonstandard header checksum of old Kafka clients.
pub(super) fn decompress(input: &[u8], legacy: bool, out: &mut Output<'_>) -> Result<(), CompressionError> {
    let mut rest = input;
    loop {
        frame(&mut rest, legacy, out)?;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

fn corrupt(what: &str) -> CompressionError {
    Codec::Lz4.corrupt(what)
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8], CompressionError> {
    let (taken, left) = rest.split_at_checked(count).ok_or_else(|| corrupt("the frame is cut off"))?;
    *rest = left;
    Ok(taken)
}

fn take_u32(rest: &mut &[u8]) -> Result<u32, CompressionError> {
    let (number, left) = rest.split_first_chunk::<4>().ok_or_else(|| corrupt("the frame is cut off"))?;
    *rest = left;
    Ok(u32::from_le_bytes(*number))
}

fn frame(rest: &mut &[u8], legacy: bool, out: &mut Output<'_>) -> Result<(), CompressionError> {
    let frame = *rest;
    if take_u32(rest)? != MAGIC {
        return Err(corrupt("it does not begin with lz4's magic number"));
    }
    let &[flags, block_descriptor] = take(rest, 2)? else { return Err(corrupt("the frame is cut off")) };
    if flags & VERSION_BITS != VERSION {
        return Err(corrupt("the version of the frame is unknown"));
    }
    let max_block = match (block_descriptor >> 4) & 7 {
        code @ 4..=7 => 1usize << (8 + 2 * code),
        _ => return Err(corrupt("the block size is out of range")),
    };
    let mut content_size = None;
    if flags & CONTENT_SIZE != 0 {
        let (size, left) = rest.split_first_chunk::<8>().ok_or_else(|| corrupt("the frame is cut off"))?;
        *rest = left;
        // Some writers do not know the content size and write zero.
        content_size = Some(u64::from_le_bytes(*size)).filter(|&size| size != 0);
    }
    if flags & DICTIONARY_ID != 0 {
        return Err(corrupt("it needs a dictionary"));
    }
    let descriptor_end = frame.len() - rest.len();
    let with_magic = frame.get(..descriptor_end).ok_or_else(|| corrupt("the frame is cut off"))?;
    let descriptor = with_magic.get(MAGIC_LEN..).ok_or_else(|| corrupt("the frame is cut off"))?;
    let checksum = take(rest, 1)?;
    // Kafka's clients included the frame's magic number in the header checksum for messages of magic 0 (KIP-57).
    if checksum != [header_checksum(descriptor)] && !(legacy && checksum == [header_checksum(with_magic)]) {
        return Err(corrupt("the checksum of the frame's header is wrong"));
    }
    let frame_start = out.bytes.len();
    loop {
        let length = take_u32(rest)?;
        if length == 0 {
            break;
        }
        let block = take(rest, (length & !STORED) as usize)?;
        if block.len() > max_block {
            return Err(corrupt("a block is larger than the frame allows"));
        }
        if flags & BLOCK_CHECKSUM != 0 && take_u32(rest)? != XxHash32::oneshot(0, block) {
            return Err(corrupt("the checksum of a block is wrong"));
        }
        if length & STORED == 0 {
            let linked_to = if flags & INDEPENDENT == 0 { frame_start } else { out.bytes.len() };
            decompress_block(block, linked_to, max_block, out)?;
        } else if block.len() > out.left() {
            return Err(out.too_large());
        } else {
            out.bytes.extend_from_slice(block);
        }
    }
    let (_, content) = out.bytes.split_at(frame_start);
    if content_size.is_some_and(|content_size| content_size != content.len() as u64) {
        return Err(corrupt("the frame holds another number of bytes than its header says"));
    }
    if flags & CONTENT_CHECKSUM != 0 && take_u32(rest)? != XxHash32::oneshot(0, content) {
        return Err(corrupt("the checksum of the content is wrong"));
    }
    Ok(())
}

/// Decompresses a block. `linked_to` is the start of the output that matches of the block may refer to.
fn decompress_block(
    block: &[u8],
    linked_to: usize,
    max_block: usize,
    out: &mut Output<'_>,
) -> Result<(), CompressionError> {
    let start = out.bytes.len();
    let max_size = max_block.min(out.left());
    // Start with a capacity that is enough for most data. The maximum ratio of lz4 is 255.
    let mut capacity = max_size.min(block.len().saturating_mul(4).max(1024));
    loop {
        out.bytes.resize(start + capacity, 0);
        let (before, target) = out.bytes.split_at_mut(start);
        let (_, window) = before.split_at(linked_to.max(start.saturating_sub(WINDOW)).min(start));
        let result = if window.is_empty() {
            decompress_into(block, target)
        } else {
            decompress_into_with_dict(block, target, window)
        };
        match result {
            Ok(size) => {
                out.bytes.truncate(start + size);
                return Ok(());
            }
            Err(DecompressError::OutputTooSmall { .. }) if capacity < max_size => {
                capacity = max_size.min(capacity.saturating_mul(4))
            }
            Err(DecompressError::OutputTooSmall { .. }) if max_size < max_block => return Err(out.too_large()),
            Err(error) => return Err(corrupt(&error.to_string())),
        }
    }
}
