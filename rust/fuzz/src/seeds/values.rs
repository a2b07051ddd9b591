//! Generator of values of Avro schemas, and of values with framings.
use std::collections::HashMap;

use samsarrow_values::Framing;
use samsarrow_values::avro::Schema;
use samsarrow_values::primitive_serdes::Plain;
use serde_json::Value;

use super::protobuf;
use super::schemas::{changed, evolved, made};
use crate::bytes::havoc;
use crate::random::Random;
use crate::targets::Values;
use crate::targets::values::{FRAMINGS, GLUE, PLAIN, SCHEMAS, WRITERS, framing_of};
use crate::tree::{Node, Number, Packing};

/// Returns the target's flags and schemas, and the tree of the values.
pub(super) fn of(what: Values, valid: bool, random: &mut Random) -> (Vec<u8>, Node) {
    if let Values::Protobuf | Values::ProtobufSchema = what {
        return protobuf::of(what == Values::ProtobufSchema, valid, random);
    }
    let mut flags = random.next() as u8;
    let mut texts = Vec::new();
    let node = match what {
        Values::Avro => {
            let text = SCHEMAS.get(usize::from(flags & 63) % SCHEMAS.len()).map_or("", |(text, _)| text);
            rows(&serde_json::from_str(text).unwrap_or_default(), 9, random)
        }
        Values::Schema => {
            let schema = made(random);
            let rows = rows(&schema, 3, random);
            text(schema, valid, random, &mut texts);
            rows
        }
        Values::Resolve => {
            let writer = made(random);
            let reader = if random.one_in(8) { made(random) } else { evolved(writer.clone(), random) };
            let rows = rows(&writer, 3, random);
            text(reader, valid, random, &mut texts);
            text(writer, valid, random, &mut texts);
            rows
        }
        Values::Framed | Values::Json | Values::JsonSchema => {
            if random.one_in(6) {
                flags |= GLUE;
            } else if random.one_in(2) {
                // Select `Auto` more often, because it accepts most framings.
                flags -= flags % FRAMINGS.len() as u8;
            }
            let framing = framing_of(flags);
            let plain = PLAIN.get(usize::from(flags) / FRAMINGS.len() % PLAIN.len()).copied().unwrap_or(Plain::String);
            Node::Group((0..random.below(9)).map(|_| framed(framing, plain, random)).collect())
        }
        Values::Protobuf | Values::ProtobufSchema => Node::Group(Vec::new()),
    };
    ([vec![flags], texts].concat(), node)
}

/// Writes the length and the text of a schema. Unless `valid` is true, the schema often differs from the schema of the
/// values, and in rare cases it is not valid JSON.
fn text(mut schema: Value, valid: bool, random: &mut Random, out: &mut Vec<u8>) {
    if !valid && random.one_in(2) {
        for _ in 0..=random.below(3) {
            changed(&mut schema, random);
        }
    }
    let mut bytes = schema.to_string().into_bytes();
    if !valid && random.one_in(12) {
        havoc(&mut bytes, random);
    }
    bytes.truncate(usize::from(u16::MAX));
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(&bytes);
}

fn sized(width: usize, body: Vec<Node>) -> Node {
    Node::Sized { by: Number::Big(width), more: 0, lie: None, body }
}

fn rows(schema: &Value, max: usize, random: &mut Random) -> Node {
    let mut names = HashMap::new();
    named(schema, &mut names);
    let row = |random: &mut Random| match random.one_in(12) {
        true => Node::Int(Number::Big(2), -1),
        false => sized(2, vec![value(schema, &names, 9, random)]),
    };
    Node::Group((0..1 + random.below(max)).map(|_| row(random)).collect())
}

/// Collects the named types of a schema.
fn named<'a>(schema: &'a Value, names: &mut HashMap<&'a str, &'a Value>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| named(item, names)),
        Value::Object(object) => {
            if let Some(name) = object.get("name").and_then(Value::as_str) {
                names.insert(name, schema);
            }
            object.values().for_each(|below| named(below, names));
        }
        _ => {}
    }
}

/// Returns a value of the schema, encoded as by a writer. If the type is unknown, the encoding is empty.
fn value(schema: &Value, names: &HashMap<&str, &Value>, depth: usize, random: &mut Random) -> Node {
    let int = |value: i64| Node::Int(Number::Varint, value);
    let prefixed = |bytes| Node::Sized { by: Number::Varint, more: 0, lie: None, body: vec![Node::Raw(bytes)] };
    if let Value::Array(branches) = schema {
        let branch = random.below(branches.len());
        let of = branches.get(branch).map(|of| value(of, names, depth, random));
        return Node::Group([Some(int(branch as i64)), of].into_iter().flatten().collect());
    }
    let below = |key: &str| schema.get(key).unwrap_or(&Value::Null);
    let kind = schema.get("type").unwrap_or(schema);
    let Some(kind) = kind.as_str() else { return value(kind, names, depth, random) };
    match kind {
        "boolean" => Node::Raw(vec![random.below(2) as u8]),
        "int" => int(i64::from(random.edge(0) as i32)),
        "long" => int(random.edge(0)),
        "float" => Node::Raw((random.edge(0) as f32).to_le_bytes().into()),
        "double" => Node::Raw(random.next().to_le_bytes().into()),
        "bytes" => prefixed(random.bytes(20)),
        "string" => prefixed("añ 語 plain text".chars().take(random.below(14)).collect::<String>().into_bytes()),
        "fixed" => {
            let size = below("size").as_u64().unwrap_or_default().min(64);
            Node::Raw((0..size).map(|_| random.next() as u8).collect())
        }
        "enum" => int(random.below(below("symbols").as_array().map_or(0, Vec::len)) as i64),
        "record" => {
            let fields = below("fields").as_array().map(Vec::as_slice).unwrap_or_default();
            let value = |field: &Value| value(field.get("type").unwrap_or(field), names, depth, random);
            Node::Group(fields.iter().map(value).collect())
        }
        "array" | "map" => {
            let item = below(if kind == "map" { "values" } else { "items" });
            let entry = |random: &mut Random| {
                let key = (kind == "map").then(|| prefixed(format!("k{}", random.below(9)).into_bytes()));
                Node::Group(key.into_iter().chain([value(item, names, depth, random)]).collect())
            };
            blocks(random, entry)
        }
        name => match names.get(name).filter(|_| depth > 0) {
            Some(of) => value(of, names, depth - 1, random),
            None => Node::Group(Vec::new()),
        },
    }
}

/// Returns array items or map entries in a few blocks, with and without block sizes.
fn blocks(random: &mut Random, item: impl Fn(&mut Random) -> Node) -> Node {
    let mut nodes = Vec::new();
    for _ in 0..random.below(3) {
        let items: Vec<_> = (0..1 + random.below(4)).map(|_| item(random)).collect();
        if random.one_in(2) {
            let list = Node::List { by: Number::Varint, lie: None, packing: Packing::Plain, damage: None, items };
            nodes.push(list);
        } else {
            nodes.push(Node::Int(Number::Varint, -(items.len() as i64)));
            nodes.push(Node::Sized { by: Number::Varint, more: 0, lie: None, body: items });
        }
    }
    nodes.push(Node::Int(Number::Varint, 0));
    Node::Group(nodes)
}

/// Returns an optional header and a value. In most cases the value starts with the prefix of the framing.
fn framed(framing: Framing, plain: Plain, random: &mut Random) -> Node {
    let number = 1 + random.below(4) as u8;
    let id = || Node::Group(vec![Node::Raw(vec![0]), Node::Int(Number::Big(4), number.into())]);
    let header = match random.below(6) {
        0 => sized(1, vec![id()]),
        1 => sized(1, vec![Node::Raw([vec![1], vec![number; 16]].concat())]),
        2 => sized(1, vec![Node::Raw(random.bytes(20))]),
        _ => Node::Int(Number::Big(1), -1),
    };
    let prefix = match framing {
        _ if random.one_in(3) => Node::Group(Vec::new()),
        Framing::Auto | Framing::Confluent => id(),
        Framing::Apicurio => Node::Int(Number::Big(8), number.into()),
        Framing::SingleObject => {
            let schema = WRITERS.get(random.below(WRITERS.len())).and_then(|text| Schema::parse(text).ok());
            let print = schema.map_or(0, |schema| schema.fingerprint());
            Node::Raw([&[0xc3, 1], &print.to_le_bytes()[..]].concat())
        }
        Framing::Glue => {
            let compression = [0, 5].get(random.below(2)).copied().unwrap_or_default();
            Node::Raw([vec![3, compression], vec![number; 16]].concat())
        }
        Framing::Bare | Framing::Header => Node::Group(Vec::new()),
    };
    let prefix = match (prefix, framing) {
        (Node::Int(by, number), Framing::Apicurio) => Node::Group(vec![Node::Raw(vec![0]), Node::Int(by, number)]),
        (other, _) => other,
    };
    let payload = match random.below(3) {
        0 => plain_value(plain, random),
        1 => Node::Int(Number::Varint, random.edge(0)),
        _ => Node::Sized { by: Number::Varint, more: 0, lie: None, body: vec![Node::Raw(random.bytes(40))] },
    };
    let value = if random.one_in(12) { Node::Int(Number::Big(2), -1) } else { sized(2, vec![prefix, payload]) };
    Node::Group(vec![header, value])
}

fn plain_value(plain: Plain, random: &mut Random) -> Node {
    let number = |width| Node::Int(Number::Big(width), 0x4009_21fb_5444_2d18);
    match plain {
        Plain::String => Node::Raw("añ 語".into()),
        Plain::Short => number(2),
        Plain::Int | Plain::Float => number(4),
        Plain::Long | Plain::Double => number(8),
        Plain::Boolean => Node::Raw(vec![random.below(2) as u8]),
        Plain::Uuid => Node::Raw(b"00010203-0405-0607-0809-0a0b0c0d0eff".into()),
    }
}
