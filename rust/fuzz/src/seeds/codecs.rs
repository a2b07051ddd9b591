//! Trees of compressed streams, including the structure of their frames.
use samsarrow_wire::compression::Codec;

use crate::random::Random;
use crate::targets::Stream;
use crate::tree::{Checksum, Node, Number, Packing, Writer};

/// Returns a stream of one or more frames.
pub(super) fn stream(stream: Stream, writer: &mut Writer, random: &mut Random) -> Node {
    let frames = if random.one_in(6) { 1 + random.below(4) } else { 1 };
    let frames = (0..frames)
        .map(|_| {
            let mut plain = random.bytes(2000);
            if random.one_in(20) {
                plain = plain.repeat(1 + random.below(60));
            }
            match stream {
                // The gzip encoder is by far the slowest, so most inputs reuse a stream that is already compressed.
                Stream::Gzip if random.one_in(16) => packed(Packing::Codec(Codec::Gzip), plain),
                Stream::Gzip => Node::Raw(writer.gzip(random.below(64) as u64)),
                Stream::Zstd => zstd(&plain, writer),
                Stream::Snappy => packed(Packing::RawSnappy, plain),
                Stream::Xerial => xerial(&plain, random),
                Stream::Lz4 => lz4(&plain, writer, random),
            }
        })
        .collect();
    Node::Group(frames)
}

fn packed(packing: Packing, plain: Vec<u8>) -> Node {
    Node::Packed { packing, damage: None, items: vec![Node::Raw(plain)] }
}

/// The frame header has nodes of its own, so that it is mutated more often.
fn zstd(plain: &[u8], writer: &mut Writer) -> Node {
    let mut frame = Vec::new();
    writer.compress(Codec::Zstd, plain, &mut frame);
    let body = frame.split_off(frame.len().min(9));
    let content = frame.split_off(frame.len().min(4));
    Node::Group(vec![Node::Raw(frame), Node::Raw(content), Node::Raw(body)])
}

fn xerial(plain: &[u8], random: &mut Random) -> Node {
    let mut nodes =
        vec![Node::Raw(b"\x82SNAPPY\0".to_vec()), Node::Int(Number::Big(4), 1), Node::Int(Number::Big(4), 1)];
    let block = 1 + random.below(1000);
    nodes.extend(plain.chunks(block).take(20).map(|block| Node::Sized {
        by: Number::Big(4),
        more: 0,
        lie: None,
        body: vec![packed(Packing::RawSnappy, block.to_vec())],
    }));
    Node::Group(nodes)
}

/// Splits a frame written by our own encoder into descriptor, blocks and end.
fn lz4(plain: &[u8], writer: &mut Writer, random: &mut Random) -> Node {
    let mut frame = Vec::new();
    writer.compress(Codec::Lz4, plain, &mut frame);
    let mut rest = frame.get(7..).unwrap_or_default();
    let mut blocks = Vec::new();
    while let Some((length, after)) = rest.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length);
        let Some((block, after)) = after.split_at_checked((length & 0x7fff_ffff) as usize) else { break };
        if length == 0 {
            break;
        }
        // The top bit of the length marks an uncompressed block. Here this bit is a number that is added to the length.
        let more = i64::from(length & 0x8000_0000);
        blocks.push(Node::Sized { by: Number::Little(4), more, lie: None, body: vec![Node::Raw(block.to_vec())] });
        rest = after;
    }
    let mut flags = 0x60;
    let mut descriptor = Vec::new();
    if random.one_in(3) {
        flags &= !0x20; // linked blocks
    }
    if random.one_in(6) {
        flags |= 0x08;
        descriptor.push(Node::Int(Number::Little(8), plain.len() as i64));
    }
    let sizes = [0x40, 0x50, 0x60, 0x70];
    descriptor.insert(0, Node::Int(Number::Little(1), random.pick(&sizes).unwrap_or(0x40)));
    descriptor.insert(0, Node::Int(Number::Little(1), flags));
    let by = if random.one_in(4) { Checksum::Lz4WithMagic } else { Checksum::Lz4 };
    Node::Group(vec![
        Node::Int(Number::Little(4), 0x184d_2204),
        Node::Checked { by, lie: None, body: descriptor },
        Node::Group(blocks),
        Node::Int(Number::Little(4), 0),
    ])
}
