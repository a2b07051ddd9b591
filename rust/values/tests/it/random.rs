//! Random Avro schemas and values.

use serde_json::{Value, json};

/// Random number generator, initialized with a seed.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns a number with a random number of bits, so that small numbers are as frequent as large ones.
    fn long(&mut self) -> i64 {
        let bits = self.below(64) as u32;
        (self.next() as i64) >> bits
    }
}

/// Generates schemas in which full names are unique, but short names are not.
#[derive(Default)]
pub(crate) struct Schemas {
    names: usize,
}

impl Schemas {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("s{}.N{}", self.names, self.names % 3)
    }

    pub(crate) fn record(&mut self, random: &mut Random, depth: usize) -> Value {
        let fields: Vec<_> = (0..1 + random.below(5))
            .map(|at| json!({"name": format!("f{at}"), "type": self.any(random, depth)}))
            .collect();
        json!({"type": "record", "name": self.name(), "fields": fields})
    }

    /// Generates a union of types with the same short name.
    fn namesakes(&mut self, random: &mut Random, depth: usize) -> Value {
        let mut one = |at: usize, kind: usize| {
            self.names += 1;
            let name = format!("u{}.v{at}.Same", self.names);
            match kind {
                0 => json!({"type": "fixed", "name": name, "size": 3}),
                1 => json!({"type": "enum", "name": name, "symbols": ["A", "BB", "C"]}),
                _ => {
                    let fields = json!([{"name": "x", "type": "int"}, {"name": "y", "type": self.any(random, depth)}]);
                    json!({"type": "record", "name": name, "fields": fields})
                }
            }
        };
        let all: Vec<_> = [0, 0, 1, 1, 2, 2].into_iter().enumerate().map(|(at, kind)| one(at, kind)).collect();
        all.into()
    }

    pub(crate) fn any(&mut self, random: &mut Random, depth: usize) -> Value {
        match random.below(if depth == 0 { 6 } else { 13 }) {
            0..=3 => primitive(random),
            4 => json!({"type": "fixed", "name": self.name(), "size": random.below(5)}),
            5 => json!({"type": "enum", "name": self.name(), "symbols": ["A", "BB", "C"]}),
            6 => json!({"type": "array", "items": self.any(random, depth - 1)}),
            7 => json!({"type": "map", "values": self.any(random, depth - 1)}),
            8 => self.record(random, depth - 1),
            9 | 10 => {
                let one = loop {
                    let one = self.any(random, depth - 1);
                    if !one.is_array() && one != "null" {
                        break one;
                    }
                };
                if random.below(2) == 0 { json!(["null", one]) } else { json!([one, "null"]) }
            }
            11 => self.namesakes(random, depth - 1),
            _ => json!(["long", self.record(random, depth - 1), {"type": "array", "items": "string"}, "null"]),
        }
    }
}

fn primitive(random: &mut Random) -> Value {
    const NAMES: [&str; 8] = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"];
    match random.below(12) {
        8 => json!({"type": "long", "logicalType": "timestamp-millis"}),
        9 => json!({"type": "int", "logicalType": "date"}),
        10 => json!({"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}),
        11 => json!({"type": "bytes", "logicalType": "decimal", "precision": 76, "scale": 3}),
        at => NAMES[at].into(),
    }
}

pub(crate) fn long(value: i64, out: &mut Vec<u8>) {
    let mut raw = (value << 1 ^ value >> 63) as u64;
    while raw >= 0x80 {
        out.push(raw as u8 | 0x80);
        raw >>= 7;
    }
    out.push(raw as u8);
}

pub(crate) fn text(text: &[u8], out: &mut Vec<u8>) {
    long(text.len() as i64, out);
    out.extend(text);
}

/// Encodes a random value of the schema, as a writer would.
pub(crate) fn value(schema: &Value, random: &mut Random, out: &mut Vec<u8>) {
    if let Value::Array(branches) = schema {
        let branch = random.below(branches.len());
        long(branch as i64, out);
        return value(&branches[branch], random, out);
    }
    let kind = schema.get("type").unwrap_or(schema).as_str().unwrap();
    match kind {
        "null" => (),
        "boolean" => out.push(random.below(2) as u8),
        "int" => long(random.long() as i32 as i64, out),
        "long" => long(random.long(), out),
        "float" => out.extend((random.long() as f32).to_le_bytes()),
        "double" => out.extend((random.long() as f64).to_le_bytes()),
        "bytes" => {
            let bytes = random.next().to_be_bytes();
            text(&bytes[..1 + random.below(8)], out);
        }
        "string" => text("añ 語 plain text".chars().take(random.below(14)).collect::<String>().as_bytes(), out),
        "fixed" => (0..schema["size"].as_u64().unwrap()).for_each(|_| out.push(random.next() as u8)),
        "enum" => long(random.below(3) as i64, out),
        "record" => schema["fields"].as_array().unwrap().iter().for_each(|field| value(&field["type"], random, out)),
        "array" => blocks(random, out, |random, out| value(&schema["items"], random, out)),
        "map" => blocks(random, out, |random, out| {
            text(format!("k{}", random.below(9)).as_bytes(), out);
            value(&schema["values"], random, out);
        }),
        other => panic!("{other}"),
    }
}

/// Encodes items in one or more blocks, with and without the size of the block.
fn blocks(random: &mut Random, out: &mut Vec<u8>, mut item: impl FnMut(&mut Random, &mut Vec<u8>)) {
    for _ in 0..random.below(3) {
        let items = 1 + random.below(3);
        let mut bytes = Vec::new();
        (0..items).for_each(|_| item(random, &mut bytes));
        if random.below(2) == 0 {
            long(items as i64, out);
        } else {
            long(-(items as i64), out);
            long(bytes.len() as i64, out);
        }
        out.extend(bytes);
    }
    out.push(0);
}
