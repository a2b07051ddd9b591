//! Generator of Protobuf messages for a few `.proto` files, and of mutations of these files.
use crate::random::Random;
use crate::targets::protobuf::FILES;
use crate::tree::{Node, Number};

/// Fields of the targets' `.proto` files: field number and wire type. A negative wire type stands for a nested message.
const FIELDS: [(i64, i64); 20] = [
    (1, 0),
    (1, -1),
    (2, 2),
    (2, -1),
    (3, 1),
    (3, -1),
    (4, 2),
    (5, 0),
    (5, -1),
    (6, 0),
    (7, -1),
    (8, -1),
    (9, 0),
    (10, -1),
    (11, 2),
    (12, -1),
    (13, 2),
    (14, 2),
    (16, 5),
    (3000, 1),
];

/// Returns the target's flags, followed by a file if `schema` is true, and the tree of the values.
pub(super) fn of(schema: bool, valid: bool, random: &mut Random) -> (Vec<u8>, Node) {
    let flags = random.next() as u8;
    let mut out = vec![flags];
    if schema {
        let text = random.pick(FILES).map_or("", |(text, _)| text);
        let mut file = text.as_bytes().to_vec();
        if flags & 1 == 1 {
            file.clear();
            let lie = || Node::Sized { by: Number::Unsigned, more: 0, lie: None, body: vec![descriptor()] };
            crate::tree::Writer::default().write(&Node::Group(vec![Node::Raw(vec![0x0a]), lie()]), &mut file);
        }
        if !valid {
            crate::bytes::havoc(&mut file, random);
        }
        file.truncate(usize::from(u16::MAX));
        out.extend_from_slice(&(file.len() as u16).to_be_bytes());
        out.extend_from_slice(&file);
    }
    let max = if schema { 3 } else { 9 };
    let frame: &[u8] = match (flags & 32, flags & 16) {
        (0, _) => &[],
        (_, 0) => &[0, 0, 0, 0, 1, 0],
        _ => b"\0\0\0\0\0\0\0\0\x01\x03\x0a\x01M",
    };
    let row = |random: &mut Random| match random.one_in(12) {
        true => Node::Int(Number::Big(2), -1),
        false => {
            let body = vec![Node::Raw(frame.to_vec()), message(4, random)];
            Node::Sized { by: Number::Big(2), more: 0, lie: None, body }
        }
    };
    (out, Node::Group((0..1 + random.below(max)).map(|_| row(random)).collect()))
}

fn message(depth: usize, random: &mut Random) -> Node {
    Node::Group((0..random.below(9)).map(|_| field(depth, random)).collect())
}

fn field(depth: usize, random: &mut Random) -> Node {
    let (number, wire) = random.pick(&FIELDS).unwrap_or_default();
    let number = if random.one_in(20) { random.edge(number) & 0x1fff_ffff } else { number };
    let sized = |body| Node::Sized { by: Number::Unsigned, more: 0, lie: None, body };
    let tag = |wire: i64| Node::Int(Number::Unsigned, number << 3 | wire);
    let value = match wire {
        0 => Node::Int(Number::Unsigned, random.edge(0)),
        1 => Node::Raw(random.next().to_le_bytes().to_vec()),
        5 => Node::Raw((random.next() as u32).to_le_bytes().to_vec()),
        2 => sized(vec![Node::Raw(random.bytes(12))]),
        _ if depth == 0 => sized(Vec::new()),
        _ if random.one_in(6) => {
            return Node::Group(vec![tag(3), message(depth - 1, random), tag(4)]);
        }
        _ => sized(vec![message(depth - 1, random)]),
    };
    Node::Group(vec![tag(if wire < 0 { 2 } else { wire }), value])
}

/// Returns a file descriptor with one message, which has an int64 field, a string field and a repeated field.
fn descriptor() -> Node {
    let text = |number: u8, text: &str| Node::Raw([&[number << 3 | 2, text.len() as u8], text.as_bytes()].concat());
    let sized = |number: u8, body| {
        let tag = Node::Raw(vec![number << 3 | 2]);
        Node::Group(vec![tag, Node::Sized { by: Number::Unsigned, more: 0, lie: None, body }])
    };
    let field = |name: &str, number: u8, label: u8, kind: u8| {
        sized(2, vec![text(1, name), Node::Raw(vec![0x18, number, 0x20, label, 0x28, kind])])
    };
    let message = vec![text(1, "M"), field("a", 1, 1, 3), field("b", 2, 1, 9), field("c", 3, 3, 1)];
    Node::Group(vec![text(1, "f.proto"), sized(4, message), text(12, "proto3")])
}
