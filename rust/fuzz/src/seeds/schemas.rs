//! Generator of Avro schemas, evolved versions of them, and invalid schemas.
use serde_json::{Map, Value, json};

use crate::random::Random;

const PRIMITIVES: [&str; 8] = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];

/// Returns a random schema with a limited depth.
pub(super) fn made(random: &mut Random) -> Value {
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
                // The record gets its name last, so its nested types cannot refer to it.
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

/// Returns another version of the schema, with added, removed or reordered fields and promoted types.
pub(super) fn evolved(mut schema: Value, random: &mut Random) -> Value {
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

/// Calls `change` for all nested JSON values, outermost first.
fn each(json: &mut Value, change: &mut impl FnMut(&mut Value)) {
    change(json);
    match json {
        Value::Array(items) => items.iter_mut().for_each(|item| each(item, change)),
        Value::Object(object) => object.values_mut().for_each(|below| each(below, change)),
        _ => {}
    }
}

/// Mutates one value.
pub(super) fn changed(schema: &mut Value, random: &mut Random) {
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

/// Nests a type in another: `{"type": {"type": …}}`.
fn wrapped(object: &mut Map<String, Value>) {
    let inner = std::mem::take(object);
    object.insert("type".to_owned(), inner.into());
}
