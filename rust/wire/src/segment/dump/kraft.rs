//! Control records of the KRaft log and of snapshots, converted to Kafka's JSON.
use std::fmt::Write;

use super::text::{base64_url, json_string};
use crate::batch::ControlType;
use crate::varint::read_unsigned_varint;

/// Returns the label that Kafka's tool prints, and the contents as JSON. Returns `None` for other types and for
/// malformed contents.
pub(super) fn describe(kind: ControlType, value: &[u8]) -> Option<(&'static str, String)> {
    let mut input = Input(value);
    let version = input.i16()?;
    let mut out = format!("{{\"version\":{version}");
    let label = match kind {
        ControlType::LeaderChange => {
            put(&mut out, "leaderId", input.i32()?);
            for name in ["voters", "grantingVoters"] {
                let _ = write!(out, ",\"{name}\":[");
                for index in 0..input.count()? {
                    out.push_str(if index > 0 { ",{" } else { "{" });
                    let _ = write!(out, "\"voterId\":{}", input.i32()?);
                    if version > 0 {
                        let _ = write!(out, ",\"voterDirectoryId\":\"{}\"", base64_url(input.take(16)?));
                    }
                    out.push('}');
                    input.tags()?;
                }
                out.push(']');
            }
            "LeaderChange:"
        }
        ControlType::SnapshotHeader => {
            put(&mut out, "lastContainedLogTimestamp", input.i64()?);
            "SnapshotHeader"
        }
        ControlType::SnapshotFooter => "SnapshotFooter",
        ControlType::KRaftVersion => {
            put(&mut out, "kRaftVersion", input.i16()?);
            "KRaftVersion"
        }
        ControlType::KRaftVoters => {
            voters(&mut input, &mut out)?;
            "KRaftVoters"
        }
        ControlType::Abort | ControlType::Commit | ControlType::Unknown(_) => return None,
    };
    input.tags()?;
    out.push('}');
    Some((label, out))
}

fn voters(input: &mut Input<'_>, out: &mut String) -> Option<()> {
    out.push_str(",\"voters\":[");
    for index in 0..input.count()? {
        out.push_str(if index > 0 { ",{" } else { "{" });
        let _ = write!(out, "\"voterId\":{}", input.i32()?);
        let _ = write!(out, ",\"voterDirectoryId\":\"{}\",\"endpoints\":[", base64_url(input.take(16)?));
        for index in 0..input.count()? {
            out.push_str(if index > 0 { ",{\"name\":" } else { "{\"name\":" });
            json_string(out, &String::from_utf8_lossy(input.string()?));
            out.push_str(",\"host\":");
            json_string(out, &String::from_utf8_lossy(input.string()?));
            let _ = write!(out, ",\"port\":{}}}", u16::from_be_bytes(input.array()?));
            input.tags()?;
        }
        let _ = write!(out, "],\"kRaftVersionFeature\":{{\"minSupportedVersion\":{}", input.i16()?);
        let _ = write!(out, ",\"maxSupportedVersion\":{}}}}}", input.i16()?);
        // Skip the tagged fields of the feature, then those of the voter.
        input.tags()?;
        input.tags()?;
    }
    out.push(']');
    Some(())
}

fn put(out: &mut String, name: &str, value: impl std::fmt::Display) {
    let _ = write!(out, ",\"{name}\":{value}");
}

/// Remaining input. All methods return `None` if the input ends too early.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.first_chunk().copied()
    }

    fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    fn unsigned(&mut self) -> Option<usize> {
        let (value, len) = read_unsigned_varint(self.0).ok()?;
        self.take(len)?;
        usize::try_from(value).ok()
    }

    /// Reads the number of elements of an array, which is encoded as the number plus one. Each element has at least one
    /// byte.
    fn count(&mut self) -> Option<usize> {
        self.unsigned()?.checked_sub(1).filter(|&count| count <= self.0.len())
    }

    fn string(&mut self) -> Option<&'a [u8]> {
        let len = self.unsigned()?.checked_sub(1)?;
        self.take(len)
    }

    /// Skips tagged fields.
    fn tags(&mut self) -> Option<()> {
        for _ in 0..self.unsigned()? {
            self.unsigned()?;
            let len = self.unsigned()?;
            self.take(len)?;
        }
        Some(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn describes_kraft_records() {
        let id = [0xfb, 0xff, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        let leader = [&[0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 1, 0][..]].concat();
        let expected = "{\"version\":0,\"leaderId\":1,\"voters\":[{\"voterId\":1}],\"grantingVoters\":[]}";
        assert_eq!(describe(ControlType::LeaderChange, &leader).unwrap(), ("LeaderChange:", expected.to_owned()));
        let leader = [&[0, 1, 0, 0, 0, 1, 2, 0, 0, 0, 1][..], &id, &[0, 1, 0]].concat();
        let (_, json) = describe(ControlType::LeaderChange, &leader).unwrap();
        assert!(json.contains("{\"voterId\":1,\"voterDirectoryId\":\"-_8CAwQFBgcICQoLDA0ODw\"}"), "{json}");
        let voter = [&[0, 0, 2, 0, 0, 0, 3][..], &id, b"\x02\x03C\"\x02h\x23\x85\x00\0\0\0\x01\0\0\0"].concat();
        let (label, json) = describe(ControlType::KRaftVoters, &voter).unwrap();
        let parsed: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(label, "KRaftVoters");
        assert_eq!(parsed["voters"][0]["endpoints"][0], serde_json::json!({"name": "C\"", "host": "h", "port": 9093}));
        assert_eq!(parsed["voters"][0]["kRaftVersionFeature"]["maxSupportedVersion"], 1);
        for end in 0..voter.len() {
            assert_eq!(describe(ControlType::KRaftVoters, &voter[..end]), None, "{end}");
        }
    }

    #[test]
    fn rejects_count_without_elements() {
        let endless = [&[0, 0, 0, 0, 0, 1][..], &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat();
        assert_eq!(describe(ControlType::LeaderChange, &endless), None);
        assert_eq!(describe(ControlType::SnapshotFooter, &[0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]), None);
    }
}
