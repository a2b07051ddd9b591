//! Inputs as trees that represent their structure. After a leaf was mutated, the lengths, counts, compressed streams
//! and checksums around it are recomputed, so that a decoder reaches the mutation. Lengths, counts, streams and
//! checksums can also be mutated themselves.
use std::collections::HashMap;

use samsarrow_wire::compression::{Codec, Compressor};
use samsarrow_wire::crc::{crc32, crc32c};

use crate::bytes::{havoc, lz4_header_checksum};
use crate::random::Random;

/// Encoding of an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    /// Big-endian with this many bytes.
    Big(usize),
    /// Little-endian with this many bytes.
    Little(usize),
    /// A varint of 64 bits with zigzag encoding.
    Varint,
    /// A varint of 64 bits without zigzag encoding.
    Unsigned,
    /// A length in DER (X.690).
    Der,
}

impl Number {
    pub(crate) fn put(self, value: i64, out: &mut Vec<u8>) {
        match self {
            Number::Big(width) => out.extend_from_slice(value.to_be_bytes().get(8 - width..).unwrap_or_default()),
            Number::Little(width) => out.extend_from_slice(value.to_le_bytes().get(..width).unwrap_or_default()),
            Number::Der => match u8::try_from(value) {
                Ok(short @ 0..0x80) => out.push(short),
                _ => {
                    let bytes = value.to_be_bytes();
                    let bytes = bytes.get(value.leading_zeros() as usize / 8..).unwrap_or_default();
                    out.push(0x80 | bytes.len() as u8);
                    out.extend_from_slice(bytes);
                }
            },
            Number::Varint | Number::Unsigned => {
                let zigzag = (value << 1 ^ value >> 63) as u64;
                let mut left = if self == Number::Varint { zigzag } else { value as u64 };
                while left >= 0x80 {
                    out.push(left as u8 | 0x80);
                    left >>= 7;
                }
                out.push(left as u8);
            }
        }
    }
}

/// Kind of a checksum, which precedes or follows the bytes that it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Checksum {
    /// Checksum of record batches.
    Crc32c,
    /// Checksum of messages in format v0 and v1.
    Crc32,
    /// Checksum after the descriptor of an lz4 frame.
    Lz4,
    /// Checksum that old Kafka clients wrote for format v0; it wrongly includes the magic number of the lz4 frame.
    Lz4WithMagic,
}

/// Compression of a list or of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    Plain,
    Codec(Codec),
    /// A single snappy block without the xerial framing.
    RawSnappy,
    /// An lz4 frame with the wrong checksum that old Kafka clients wrote for format v0.
    OldLz4,
}

/// A part of an input.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Raw(Vec<u8>),
    Int(Number, i64),
    /// Concatenated parts.
    Group(Vec<Node>),
    /// A length in bytes, followed by contents of this length.
    Sized {
        by: Number,
        more: i64,
        lie: Option<i64>,
        body: Vec<Node>,
    },
    /// A number of items, followed by the items, which may be compressed.
    List {
        by: Number,
        lie: Option<i64>,
        packing: Packing,
        /// Seed for a mutation of the compressed bytes.
        damage: Option<u64>,
        items: Vec<Node>,
    },
    /// Compressed contents that are not preceded by a count.
    Packed {
        packing: Packing,
        damage: Option<u64>,
        items: Vec<Node>,
    },
    Checked {
        by: Checksum,
        lie: Option<u32>,
        body: Vec<Node>,
    },
}

/// Encodes trees. Compressors are reused.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    compressors: Vec<Compressor>,
    /// Cached gzip streams, by the seed of their data.
    gzip: HashMap<u64, Vec<u8>>,
}

impl Writer {
    pub(crate) fn write(&mut self, node: &Node, out: &mut Vec<u8>) {
        match node {
            Node::Raw(bytes) => out.extend_from_slice(bytes),
            Node::Int(number, value) => number.put(*value, out),
            Node::Group(nodes) => self.write_all(nodes, out),
            Node::Sized { by, more, lie, body } => {
                let mut bytes = Vec::new();
                self.write_all(body, &mut bytes);
                by.put(lie.unwrap_or(bytes.len() as i64 + more), out);
                out.extend_from_slice(&bytes);
            }
            Node::List { by, lie, packing, damage, items } => {
                by.put(lie.unwrap_or(items.len() as i64), out);
                self.pack(*packing, *damage, items, out);
            }
            Node::Packed { packing, damage, items } => self.pack(*packing, *damage, items, out),
            Node::Checked { by, lie, body } => {
                let mut bytes = Vec::new();
                self.write_all(body, &mut bytes);
                match by {
                    Checksum::Crc32c => out.extend_from_slice(&lie.unwrap_or_else(|| crc32c(&bytes)).to_be_bytes()),
                    Checksum::Crc32 => out.extend_from_slice(&lie.unwrap_or_else(|| crc32(&bytes)).to_be_bytes()),
                    Checksum::Lz4 | Checksum::Lz4WithMagic => {}
                }
                out.extend_from_slice(&bytes);
                match by {
                    Checksum::Lz4 => out.push(lie.map_or_else(|| lz4_header_checksum(&bytes), |lie| lie as u8)),
                    Checksum::Lz4WithMagic => {
                        let covered = [&[0x04, 0x22, 0x4d, 0x18], bytes.as_slice()].concat();
                        out.push(lie.map_or_else(|| lz4_header_checksum(&covered), |lie| lie as u8));
                    }
                    Checksum::Crc32c | Checksum::Crc32 => {}
                }
            }
        }
    }

    fn write_all(&mut self, nodes: &[Node], out: &mut Vec<u8>) {
        for node in nodes {
            self.write(node, out);
        }
    }

    fn pack(&mut self, packing: Packing, damage: Option<u64>, items: &[Node], out: &mut Vec<u8>) {
        if packing == Packing::Plain {
            return self.write_all(items, out);
        }
        let mut plain = Vec::new();
        self.write_all(items, &mut plain);
        let mut packed = Vec::new();
        match packing {
            Packing::Plain => {}
            Packing::Codec(codec) => self.compress(codec, &plain, &mut packed),
            Packing::RawSnappy => packed = snap::raw::Encoder::new().compress_vec(&plain).unwrap_or_default(),
            Packing::OldLz4 => {
                self.compress(Codec::Lz4, &plain, &mut packed);
                let checksum = packed.get(..6).map(lz4_header_checksum);
                if let (Some(at), Some(checksum)) = (packed.get_mut(6), checksum) {
                    *at = checksum;
                }
            }
        }
        if let Some(seed) = damage {
            havoc(&mut packed, &mut Random::new(seed));
        }
        out.extend_from_slice(&packed);
    }

    /// Returns the gzip stream of random data from a seed.
    pub(crate) fn gzip(&mut self, seed: u64) -> Vec<u8> {
        if let Some(stream) = self.gzip.get(&seed) {
            return stream.clone();
        }
        let mut stream = Vec::new();
        self.compress(Codec::Gzip, &Random::new(seed).bytes(2000), &mut stream);
        self.gzip.insert(seed, stream.clone());
        stream
    }

    pub(crate) fn compress(&mut self, codec: Codec, plain: &[u8], out: &mut Vec<u8>) {
        if !self.compressors.iter().any(|compressor| compressor.codec() == codec) {
            self.compressors.extend(Compressor::new(codec, None));
        }
        if let Some(compressor) = self.compressors.iter_mut().find(|compressor| compressor.codec() == codec) {
            // This only fails if memory runs out. The stream is empty then, which is a valid input.
            let _ = compressor.compress(plain, out);
        }
    }
}

/// Returns the number of nodes in a tree.
pub(crate) fn count(node: &Node) -> usize {
    1 + children(node).iter().map(count).sum::<usize>()
}

fn children(node: &Node) -> &[Node] {
    match node {
        Node::Raw(_) | Node::Int(..) => &[],
        Node::Group(nodes) => nodes,
        Node::Sized { body, .. } | Node::Checked { body, .. } => body,
        Node::List { items, .. } | Node::Packed { items, .. } => items,
    }
}

fn children_mut(node: &mut Node) -> Option<&mut Vec<Node>> {
    match node {
        Node::Raw(_) | Node::Int(..) => None,
        Node::Group(nodes) => Some(nodes),
        Node::Sized { body, .. } | Node::Checked { body, .. } => Some(body),
        Node::List { items, .. } | Node::Packed { items, .. } => Some(items),
    }
}

/// Mutates one node of the tree.
pub(crate) fn mutate(root: &mut Node, random: &mut Random) {
    let mut target = random.below(count(root));
    if let Some(node) = nth(root, &mut target) {
        mutate_node(node, random);
    }
}

fn nth<'a>(node: &'a mut Node, index: &mut usize) -> Option<&'a mut Node> {
    if *index == 0 {
        return Some(node);
    }
    *index -= 1;
    children_mut(node)?.iter_mut().find_map(|child| nth(child, index))
}

fn mutate_node(node: &mut Node, random: &mut Random) {
    // If the node has lengths, counts or a compressed stream, half of its mutations change these.
    if random.one_in(2) {
        match node {
            Node::Sized { lie, body, .. } => return *lie = Some(random.edge(body.len() as i64)),
            Node::Checked { lie, .. } if random.one_in(4) => return *lie = Some(random.next() as u32),
            Node::List { lie, packing, damage, items, .. } => {
                match random.below(3) {
                    0 if *packing != Packing::Plain => *damage = Some(random.next()),
                    1 => *packing = packing_of(random),
                    _ => *lie = Some(random.edge(items.len() as i64)),
                }
                return;
            }
            Node::Packed { packing, damage, .. } => {
                match random.below(2) {
                    0 if *packing != Packing::Plain => *damage = Some(random.next()),
                    _ => *packing = packing_of(random),
                }
                return;
            }
            _ => {}
        }
    }
    match node {
        Node::Int(_, value) => *value = random.edge(*value),
        Node::Raw(bytes) => match random.below(3) {
            0 => *bytes = random.bytes(300),
            1 => bytes.truncate(random.below(bytes.len() + 1)),
            _ => havoc(bytes, random),
        },
        _ => {
            let Some(nodes) = children_mut(node) else { return };
            let (at, other) = (random.below(nodes.len()), random.below(nodes.len()));
            match random.below(5) {
                _ if nodes.is_empty() => nodes.push(Node::Raw(random.bytes(20))),
                0 => drop(nodes.remove(at)),
                1 => nodes.insert(other, nodes.get(at).cloned().unwrap_or(Node::Raw(Vec::new()))),
                2 => nodes.swap(at, other),
                // Nest all parts in one part, such as a record in a record, or a wrapper in a wrapper.
                3 => {
                    let copy = nodes.clone();
                    if let Some(child) = nodes.get_mut(at) {
                        match children_mut(child) {
                            Some(inner) => inner.extend(copy),
                            None => *child = Node::Group(copy),
                        }
                    }
                }
                _ => {
                    let again = nodes.get(at).cloned();
                    let times = 1 + random.below(40);
                    nodes.extend(std::iter::repeat_n(again, times).flatten());
                }
            }
        }
    }
}

/// Returns a random packing. Gzip is less frequent, because its encoder is slow.
pub(crate) fn packing_of(random: &mut Random) -> Packing {
    match random.below(32) {
        0..=15 => Packing::Plain,
        16 => Packing::Codec(Codec::Gzip),
        17..=20 => Packing::Codec(Codec::Snappy),
        21 | 22 => Packing::RawSnappy,
        23..=26 => Packing::Codec(Codec::Lz4),
        27 | 28 => Packing::OldLz4,
        _ => Packing::Codec(Codec::Zstd),
    }
}

/// Returns the bits of a packing in the attributes of a batch.
pub(crate) fn codec_bits(packing: Packing) -> i64 {
    match packing {
        Packing::Plain => 0,
        Packing::Codec(codec) => i64::from(codec.id()),
        Packing::RawSnappy => i64::from(Codec::Snappy.id()),
        Packing::OldLz4 => i64::from(Codec::Lz4.id()),
    }
}
