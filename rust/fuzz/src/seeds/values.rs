//! Avro schemas, values of them, and values in frames.
use std::collections::HashMap;

use samsarrow_values::Framing;
use samsarrow_values::avro::Schema;
use samsarrow_values::plain::Plain;
use serde_json::{Map, Value, json};

use crate::bytes::havoc;
use crate::random::Random;
use crate::targets::Values;
use crate::targets::values::{FRAMINGS, PLAIN, SCHEMAS, WRITERS};
use crate::tree::{Node, Number, Packing};

/// Flags of the target and the schemas, then the values, of which the tree is.
pub(super) fn of(what: Values, valid: bool, random: &mut Random) -> (Vec<u8>, Node) {
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
        Values::Framed => {
            if random.one_in(2) {
                // Auto, which knows most.
                flags -= flags % FRAMINGS.len() as u8;
            }
            let framing = FRAMINGS.get(usize::from(flags) % FRAMINGS.len()).copied().unwrap_or_default();
            let plain = PLAIN.get(usize::from(flags) / FRAMINGS.len() % PLAIN.len()).copied().unwrap_or(Plain::String);
            Node::Group((0..random.below(9)).map(|_| framed(framing, plain, random)).collect())
        }
    };
    ([vec![flags], texts].concat(), node)
}

/// A schema's text after its length: often another one than the values have, rarely none.
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

fn rows(schema: &Value, most: usize, random: &mut Random) -> Node {
    let mut names = HashMap::new();
    named(schema, &mut names);
    let row = |random: &mut Random| match random.one_in(12) {
        true => Node::Int(Number::Big(2), -1),
        false => sized(2, vec![value(schema, &names, 9, random)]),
    };
    Node::Group((0..1 + random.below(most)).map(|_| row(random)).collect())
}

/// Finds the types that have names.
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

const PRIMITIVES: [&str; 8] = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];

/// A schema with at most a few types above each other.
fn made(random: &mut Random) -> Value {
    let depth = random.below(5);
    Made::default().any(depth, random)
}

#[derive(Debug, Default)]
struct Made {
    names: Vec<String>,
}

impl Made {
    fn name(&mut self, random: &mut Random) -> String {
        let space = random.pick(&["", "", "", "a.", "a.b."]).unwrap_or_default();
        let name = format!("{space}N{}", self.names.len());
        self.names.push(name.clone());
        name
    }

    fn any(&mut self, depth: usize, random: &mut Random) -> Value {
        match random.below(if depth == 0 { 11 } else { 20 }) {
            0..=3 => random.pick(&PRIMITIVES).into(),
            4..=6 => logical(random),
            7 => {
                let size = random.pick(&[0, 1, 3, 12, 16, 40]).unwrap_or_default();
                json!({"type": "fixed", "name": self.name(random), "size": size})
            }
            8 => {
                let symbols: Vec<_> = (0..1 + random.below(4)).map(|at| "SYMBOL".split_at(at + 1).0).collect();
                let mut of = json!({"type": "enum", "name": self.name(random), "symbols": symbols});
                if random.one_in(2) {
                    insert(&mut of, "default", symbols.last().copied().into());
                }
                of
            }
            9 | 10 => match self.names.len() {
                0 => "long".into(),
                names => self.names.get(random.below(names)).cloned().into(),
            },
            11 => json!({"type": "array", "items": self.any(depth - 1, random)}),
            12 => json!({"type": "map", "values": self.any(depth - 1, random)}),
            13 | 14 => {
                let count = 1 + random.below(4);
                let mut branches: Vec<Value> = Vec::new();
                for _ in 0..count {
                    let one = self.any(depth - 1, random);
                    let kind = |of: &Value| of.get("name").or(of.get("type")).unwrap_or(of).clone();
                    if !one.is_array() && branches.iter().all(|other| kind(other) != kind(&one)) {
                        branches.push(one);
                    }
                }
                if branches.iter().all(|branch| branch != "null") {
                    branches.insert(random.below(branches.len() + 1), "null".into());
                }
                branches.into()
            }
            _ => {
                let count = random.below(5);
                let fields: Vec<_> = (0..count)
                    .map(|at| json!({"name": format!("f{at}"), "type": self.any(depth - 1, random)}))
                    .collect();
                // Named last: what is within cannot name what it is in.
                json!({"type": "record", "name": self.name(random), "fields": fields})
            }
        }
    }
}

fn logical(random: &mut Random) -> Value {
    let of = [
        ("int", "date"),
        ("int", "time-millis"),
        ("long", "time-micros"),
        ("long", "timestamp-millis"),
        ("long", "timestamp-micros"),
        ("long", "timestamp-nanos"),
        ("long", "local-timestamp-micros"),
        ("string", "uuid"),
    ];
    match random.pick(&of) {
        Some((of, logical)) if !random.one_in(4) => json!({"type": of, "logicalType": logical}),
        _ => {
            let precision = 1 + random.below(76);
            json!({"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": random.below(precision)})
        }
    }
}

fn insert(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

/// The schema as another version of it may be: fields that come and go, types that are promoted.
fn evolved(mut schema: Value, random: &mut Random) -> Value {
    each(&mut schema, &mut |json| {
        if let Some(fields) = json.get_mut("fields").and_then(Value::as_array_mut) {
            match random.below(6) {
                0 => drop(fields.pop()),
                1 => fields.reverse(),
                2 => {
                    let defaults = [
                        json!({"name": "new", "type": "string", "default": "text"}),
                        json!({"name": "new", "type": ["null", "int"], "default": null}),
                        json!({"name": "new", "type": {"type": "array", "items": "long"}, "default": [1, -2]}),
                        json!({"name": "new", "type": {"type": "map", "values": "bytes"}, "default": {"k": "\u{ff}"}}),
                        json!({"name": "renamed", "aliases": ["f0"], "type": "long", "default": 7}),
                    ];
                    fields.extend(defaults.get(random.below(defaults.len())).cloned());
                }
                _ => {}
            }
        }
        let wider: &[&str] = match json.as_str() {
            Some("int") => &["int", "long", "float", "double"],
            Some("long") => &["long", "long", "float", "double"],
            Some("float") => &["float", "double"],
            Some("string") => &["string", "bytes"],
            Some("bytes") => &["bytes", "string"],
            _ => &[],
        };
        if let Some(wider) = random.pick(wider) {
            *json = if random.one_in(4) { json!(["null", wider]) } else { wider.into() };
        }
    });
    schema
}

/// Goes through all that is in a text, from the outside to the inside.
fn each(json: &mut Value, change: &mut impl FnMut(&mut Value)) {
    change(json);
    match json {
        Value::Array(items) => items.iter_mut().for_each(|item| each(item, change)),
        Value::Object(object) => object.values_mut().for_each(|below| each(below, change)),
        _ => {}
    }
}

/// Changes one place.
fn changed(schema: &mut Value, random: &mut Random) {
    let mut count = 0;
    each(schema, &mut |_| count += 1);
    let mut left = random.below(count);
    each(schema, &mut |json| {
        if left == 0 {
            changed_here(json, random);
        }
        left = left.wrapping_sub(1);
    });
}

fn changed_here(json: &mut Value, random: &mut Random) {
    const KEYS: [&str; 12] = [
        "type",
        "name",
        "namespace",
        "aliases",
        "fields",
        "items",
        "values",
        "symbols",
        "size",
        "default",
        "logicalType",
        "precision",
    ];
    const TEXTS: [&str; 18] = [
        "",
        ".",
        "a",
        "a.b",
        ".N0",
        "N0",
        "a.N0",
        "..N1",
        "N\u{e9}\"\\",
        "array",
        "record",
        "union",
        "decimal",
        "uuid",
        "duration",
        "NaN",
        "\u{0}",
        "timestamp-millis",
    ];
    let other = match random.below(8) {
        0 => random.edge(0).into(),
        1 => Value::Null,
        2 => json!([]),
        3 => json!({}),
        4 | 5 => random.pick(&TEXTS).into(),
        6 => random.pick(&PRIMITIVES).into(),
        _ => made(random),
    };
    match json {
        Value::Number(number) if !random.one_in(4) => *json = random.edge(number.as_i64().unwrap_or_default()).into(),
        Value::Array(items) if !random.one_in(4) && !items.is_empty() => {
            let (at, to) = (random.below(items.len()), random.below(items.len()));
            match random.below(4) {
                0 => drop(items.remove(at)),
                1 => items.swap(at, to),
                2 => items.extend(items.get(at).cloned()),
                _ => items.insert(at, other),
            }
        }
        Value::Object(object) if !random.one_in(4) => {
            let key = random.pick(&KEYS).unwrap_or_default();
            match random.below(4) {
                0 => drop(object.remove(key)),
                1 => wrapped(object),
                _ => drop(object.insert(key.to_owned(), other)),
            }
        }
        _ => *json = other,
    }
}

/// A type as that of another: `{"type": {"type": …}}`.
fn wrapped(object: &mut Map<String, Value>) {
    let inner = std::mem::take(object);
    object.insert("type".to_owned(), inner.into());
}

/// A value of the schema, as a writer would have it; nothing where there is no such type.
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

/// Items in a few blocks, with and without their sizes.
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

/// A header or none, and a value with the prefix of the framing, or of the plain type.
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
        Framing::Bare => Node::Group(Vec::new()),
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
