//! Trees of a partition's bytes: v2 batches, messages of v0 and v1, and wrappers.
use crate::random::Random;
use crate::tree::{Checksum, Node, Number, Packing, codec_bits, packing_of};

const I8: Number = Number::Big(1);
const I16: Number = Number::Big(2);
const I32: Number = Number::Big(4);
const I64: Number = Number::Big(8);

fn int(number: Number, value: i64) -> Node {
    Node::Int(number, value)
}

/// Returns a few batches of format `magic`, or of random formats if `magic` is `None`.
pub(super) fn partition(magic: Option<u8>, random: &mut Random) -> Node {
    let mut offset = if random.one_in(8) { random.edge(0) } else { random.below(1000) as i64 };
    let mut nodes = Vec::new();
    for _ in 0..1 + random.below(3) {
        let magic = magic.unwrap_or(random.below(3) as u8);
        let count = if random.one_in(60) { random.below(400) } else { random.below(6) };
        nodes.push(match magic {
            2 => batch(offset, count, random),
            _ => legacy(magic, offset, count, random),
        });
        offset = offset.wrapping_add(count as i64);
    }
    if random.one_in(10) {
        nodes.push(Node::Raw(random.bytes(70)));
    }
    Node::Group(nodes)
}

fn batch(offset: i64, count: usize, random: &mut Random) -> Node {
    let control = random.one_in(12);
    let packing = if control { Packing::Plain } else { packing_of(random) };
    let mut attributes = codec_bits(packing);
    for bit in [0x08, 0x10, 0x40] {
        if random.one_in(6) {
            attributes |= bit;
        }
    }
    if control {
        attributes |= 0x30;
    }
    let producer = if attributes & 0x10 != 0 || random.one_in(6) { random.below(4) as i64 } else { -1 };
    let time = if random.one_in(10) { random.edge(0) } else { 1_700_000_000_000 };
    let items = (0..count).map(|i| if control { marker(i, random) } else { record(i, random) }).collect();
    let body = vec![
        int(I16, attributes),
        int(I32, count.saturating_sub(1) as i64),
        int(I64, time),
        int(I64, time),
        int(I64, producer),
        int(I16, producer.min(0)),
        int(I32, producer.min(0)),
        Node::List { by: I32, lie: None, packing, damage: None, items },
    ];
    let rest = vec![int(I32, 0), int(I8, 2), Node::Checked { by: Checksum::Crc32c, lie: None, body }];
    Node::Group(vec![int(I64, offset), Node::Sized { by: I32, more: 0, lie: None, body: rest }])
}

fn varint_sized(bytes: Vec<u8>) -> Node {
    Node::Sized { by: Number::Varint, more: 0, lie: None, body: vec![Node::Raw(bytes)] }
}

/// Returns a key, value or header value: null, empty, short or longer.
fn field(random: &mut Random, sized: fn(Vec<u8>) -> Node, null: Number) -> Node {
    match random.below(8) {
        0 => int(null, -1),
        1 => sized(Vec::new()),
        2 => sized(random.bytes(400)),
        _ => sized(random.bytes(20)),
    }
}

fn record(index: usize, random: &mut Random) -> Node {
    let headers = if random.one_in(3) { random.below(4) } else { 0 };
    let headers = (0..headers)
        .map(|_| {
            let name = if random.one_in(5) { random.bytes(12) } else { b"name".to_vec() };
            Node::Group(vec![varint_sized(name), field(random, varint_sized, Number::Varint)])
        })
        .collect();
    let body = vec![
        int(I8, 0),
        int(Number::Varint, if random.one_in(10) { random.edge(0) } else { index as i64 * 3 }),
        int(Number::Varint, index as i64),
        field(random, varint_sized, Number::Varint),
        field(random, varint_sized, Number::Varint),
        Node::List { by: Number::Varint, lie: None, packing: Packing::Plain, damage: None, items: headers },
    ];
    Node::Sized { by: Number::Varint, more: 0, lie: None, body }
}

/// Returns the record of a control batch, which marks the end of a transaction.
fn marker(index: usize, random: &mut Random) -> Node {
    let key = Node::Group(vec![int(I16, 0), int(I16, random.below(3) as i64)]);
    let value = Node::Group(vec![int(I16, 0), int(I32, 7)]);
    let sized = |node| Node::Sized { by: Number::Varint, more: 0, lie: None, body: vec![node] };
    let body = vec![
        int(I8, 0),
        int(Number::Varint, 0),
        int(Number::Varint, index as i64),
        sized(key),
        sized(value),
        int(Number::Varint, 0),
    ];
    Node::Sized { by: Number::Varint, more: 0, lie: None, body }
}

/// Returns a record count and the records of a batch, without the batch header.
pub(super) fn bare_records(random: &mut Random) -> Node {
    let count = if random.one_in(10) { random.below(600) } else { random.below(8) };
    let items = (0..count).map(|i| record(i, random)).collect();
    Node::List { by: I32, lie: None, packing: Packing::Plain, damage: None, items }
}

fn i32_sized(bytes: Vec<u8>) -> Node {
    Node::Sized { by: I32, more: 0, lie: None, body: vec![Node::Raw(bytes)] }
}

/// Returns single messages or a wrapper. In rare cases the wrapper contains another wrapper.
fn legacy(magic: u8, offset: i64, count: usize, random: &mut Random) -> Node {
    let packing = match packing_of(random) {
        Packing::Codec(samsarrow_wire::compression::Codec::Zstd) if !random.one_in(4) => Packing::RawSnappy,
        packing => packing,
    };
    if packing == Packing::Plain {
        return Node::Group((0..count.max(1)).map(|i| message(magic, offset.wrapping_add(i as i64), random)).collect());
    }
    let relative = magic == 1 && !random.one_in(8);
    let first = if relative { 0 } else { offset };
    let inner_magic = if random.one_in(20) { 1 - magic.min(1) } else { magic };
    let mut items: Vec<_> = (0..count).map(|i| message(inner_magic, first.wrapping_add(i as i64), random)).collect();
    if random.one_in(20) {
        items.push(legacy(magic, offset, 2, random));
    }
    let last = if random.one_in(12) { 0 } else { offset.wrapping_add(count as i64 - 1) };
    let value = Node::Sized { by: I32, more: 0, lie: None, body: vec![Node::Packed { packing, damage: None, items }] };
    let time_type = if random.one_in(4) { 8 } else { 0 };
    framed(magic, last, codec_bits(packing) | time_type, int(I32, -1), value)
}

fn message(magic: u8, offset: i64, random: &mut Random) -> Node {
    let attributes = if random.one_in(12) { 8 } else { 0 };
    let (key, value) = (field(random, i32_sized, I32), field(random, i32_sized, I32));
    framed(magic, offset, attributes, key, value)
}

fn framed(magic: u8, offset: i64, attributes: i64, key: Node, value: Node) -> Node {
    let mut body = vec![int(I8, i64::from(magic)), int(I8, attributes)];
    if magic == 1 {
        body.push(int(I64, 1_600_000_000_000));
    }
    body.extend([key, value]);
    let checked = Node::Checked { by: Checksum::Crc32, lie: None, body };
    Node::Group(vec![int(I64, offset), Node::Sized { by: I32, more: 0, lie: None, body: vec![checked] }])
}

/// Returns an index of a random kind, and a log that may match the index.
pub(super) fn index(random: &mut Random) -> (Node, Node) {
    let width = random.pick(&[8, 12, 34]).unwrap_or(8);
    let entries = (0..random.below(12)).map(|i| {
        let i = i as i64;
        match width {
            8 => Node::Group(vec![int(I32, i * 3), int(I32, i * 70)]),
            12 => Node::Group(vec![int(I64, 1_700_000_000_000 + i), int(I32, i * 3)]),
            _ => Node::Group(vec![int(I16, 0), int(I64, i), int(I64, i), int(I64, i + 1), int(I64, i + 1)]),
        }
    });
    let mut nodes: Vec<_> = entries.collect();
    if random.one_in(3) {
        nodes.push(Node::Raw(vec![0; width * random.below(5)]));
    }
    (Node::Group(nodes), partition(None, random))
}
