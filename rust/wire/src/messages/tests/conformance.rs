//! Message bodies from other clients' test suites and encoders, with their expected values.

use std::path::PathBuf;

use serde_json::Value;

use super::*;
use crate::frame;

struct Case {
    json: Value,
    passed: bool,
}

impl Case {
    fn text(&self, name: &str) -> &str {
        self.json[name].as_str().unwrap_or_default()
    }
}

fn from_hex(text: &str) -> Bytes {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

impl Check for Case {
    fn message<M: Tested>(&mut self, _: ApiKey, kind: Kind, _: i16, _: RangeInclusive<i16>) {
        let expected = if self.text("kind") == "request" { Kind::Request } else { Kind::Response };
        if kind != expected {
            return;
        }
        let id = self.text("id");
        let version = i16::try_from(self.json["version"].as_i64().unwrap()).unwrap();
        let body = from_hex(self.text("hex"));
        let decoded = &self.json["decoded"];
        let message = M::from_bytes_exact(version, &body).unwrap_or_else(|e| panic!("{id}: {e}"));
        assert_eq!(&message.to_json(version), decoded, "{id}");
        let again = M::from_json(version, decoded).unwrap_or_else(|e| panic!("{id}: {e}"));
        assert_eq!(again.bytes(version), body, "{id}");
        if let Some(hex) = self.json["frame_hex"].as_str() {
            let frame_bytes = from_hex(hex);
            assert_eq!(
                frame_bytes.len() - 4,
                i32::from_be_bytes(frame_bytes[..4].try_into().unwrap()) as usize,
                "{id}"
            );
            if kind == Kind::Request {
                let (header, rest) = frame::decode_request_header(frame_bytes.slice(4..)).unwrap();
                assert_eq!((header.api_version, rest), (version, body), "{id}");
                assert_eq!(i64::from(header.api_key), self.json["api_key"].as_i64().unwrap(), "{id}");
            }
        }
        self.passed = true;
    }
}

#[test]
fn decodes_protocol_cases_of_other_clients() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = std::env::var_os("SAMSARROW_CONFORMANCE").map_or(root.join("../shared/conformance"), PathBuf::from);
    let path = folder.join("protocol.jsonl");
    let Ok(text) = std::fs::read_to_string(&path) else {
        eprintln!("skipped: there is no {}", path.display());
        return;
    };
    let mut count = 0;
    for line in text.lines() {
        let mut case = Case { json: serde_json::from_str(line).unwrap(), passed: false };
        let key = i16::try_from(case.json["api_key"].as_i64().unwrap()).unwrap();
        check_api(ApiKey::from_i16(key).unwrap(), &mut case);
        assert!(case.passed, "{}", case.text("id"));
        count += 1;
    }
    eprintln!("protocol.jsonl: all {count} cases decode to what they say and encode to their bytes");
    assert!(count >= 397, "only {count} cases");
}
