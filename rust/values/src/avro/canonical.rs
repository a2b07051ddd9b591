//! Parsing Canonical Form of a schema, and the fingerprint computed from this form.

use std::collections::HashSet;
use std::sync::Arc;

use serde_json::Value;

use super::schema::{Kind, Node};

/// Writes the canonical form of a schema. If a named type occurs again, only its name is written.
pub(super) fn write(node: &Node, seen: &mut HashSet<Arc<str>>, out: &mut String) {
    if let Some(name) = node.name()
        && !seen.insert(Arc::clone(&name.full))
    {
        return quote(&name.full, out);
    }
    match &node.kind {
        Kind::Fixed(name, size) => {
            out.push_str("{\"name\":");
            quote(&name.full, out);
            out.push_str(&format!(",\"type\":\"fixed\",\"size\":{size}}}"));
        }
        Kind::Enum(of) => {
            out.push_str("{\"name\":");
            quote(&of.name.full, out);
            out.push_str(",\"type\":\"enum\",\"symbols\":[");
            separated(&of.symbols, out, |symbol, out| quote(symbol, out));
            out.push_str("]}");
        }
        Kind::Array(item) => {
            out.push_str("{\"type\":\"array\",\"items\":");
            write(item, seen, out);
            out.push('}');
        }
        Kind::Map(value) => {
            out.push_str("{\"type\":\"map\",\"values\":");
            write(value, seen, out);
            out.push('}');
        }
        Kind::Record(of) => {
            out.push_str("{\"name\":");
            quote(&of.name.full, out);
            out.push_str(",\"type\":\"record\",\"fields\":[");
            separated(&of.fields, out, |field, out| {
                out.push_str("{\"name\":");
                quote(&field.name, out);
                out.push_str(",\"type\":");
                write(&field.node, seen, out);
                out.push('}');
            });
            out.push_str("]}");
        }
        Kind::Union(branches) => {
            out.push('[');
            separated(branches, out, |branch, out| write(branch, seen, out));
            out.push(']');
        }
        _ => quote(node.type_name(), out),
    }
}

fn separated<T>(items: &[T], out: &mut String, mut write: impl FnMut(&T, &mut String)) {
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        write(item, out);
    }
}

fn quote(text: &str, out: &mut String) {
    out.push_str(&Value::from(text).to_string());
}

/// CRC-64-AVRO of the empty input.
const EMPTY: u64 = 0xc15d_213a_a4d7_a795;

/// Computes CRC-64-AVRO bit by bit, which is fast enough because it is needed only once per schema.
pub(super) fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(EMPTY, |print, byte| {
        let mut row = (print ^ u64::from(byte)) & 0xff;
        for _ in 0..8 {
            row = (row >> 1) ^ (EMPTY & 0u64.wrapping_sub(row & 1));
        }
        (print >> 8) ^ row
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use crate::avro::Schema;

    #[test]
    fn fingerprints_match_the_specification() {
        // Test cases from share/test/data/schema-tests.txt of Apache Avro.
        for (text, print) in [
            ("\"null\"", 7195948357588979594),
            ("{\"type\":\"boolean\"}", -6970731678124411036),
            ("int", 8247732601305521295),
            ("\"long\"", -3434872931120570953),
            ("\"string\"", -8142146995180207161),
            ("[]", -1241056759729112623),
        ] {
            match Schema::parse(text) {
                Ok(schema) => assert_eq!(schema.fingerprint() as i64, print, "{text}"),
                Err(_) => assert_eq!(super::fingerprint(text) as i64, print, "{text}"),
            }
        }
    }

    #[test]
    fn drops_irrelevant_attributes() {
        let text = r#"{"doc": "d", "namespace": "x.y", "type": "record", "name": "R", "aliases": ["Q"], "fields": [
            {"default": 1, "type": {"type": "int", "logicalType": "date"}, "name": "a"},
            {"name": "e", "type": {"name": "E", "type": "enum", "symbols": ["A", "B"]}},
            {"name": "f", "type": ["null", "E", {"type": "fixed", "size": 3, "name": "z.F"}]},
            {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "z.F"}}}]}"#;
        let want = r#"{"name":"x.y.R","type":"record","fields":[{"name":"a","type":"int"},{"name":"e","type":{"name":"x.y.E","type":"enum","symbols":["A","B"]}},{"name":"f","type":["null","x.y.E",{"name":"z.F","type":"fixed","size":3}]},{"name":"m","type":{"type":"map","values":{"type":"array","items":"z.F"}}}]}"#;
        assert_eq!(Schema::parse(text).unwrap().canonical(), want);
    }

    #[test]
    fn full_names_have_no_leading_dot() {
        for (name, want) in [(r#""..x""#, "x"), (r#""x", "namespace": ".""#, "x"), (r#""x", "namespace": ".a""#, "a.x")]
        {
            let schema = Schema::parse(&format!(r#"{{"type": "fixed", "size": 1, "name": {name}}}"#)).unwrap();
            assert_eq!(schema.canonical(), format!(r#"{{"name":"{want}","type":"fixed","size":1}}"#));
            assert_eq!(Schema::parse(&schema.canonical()).unwrap().fingerprint(), schema.fingerprint());
        }
    }
}
