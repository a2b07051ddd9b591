//! Selection of the message format (magic) that a producer writes.

use crate::error::{Error, Result};

/// First version of Produce that supports batches of magic 2. From this version on, no other magic is supported.
const FIRST_BATCH_VERSION: i16 = 3;
/// Last version of Produce that supports messages of magic 0 and 1.
pub(super) const LAST_MESSAGE_VERSION: i16 = 2;

/// Returns the newest magic that this version of Produce supports.
pub(crate) fn newest_magic(produce_version: i16) -> i8 {
    match produce_version {
        ..=1 => 0,
        LAST_MESSAGE_VERSION => 1,
        _ => 2,
    }
}

/// Returns the newest magic to write, given the options `message.format.version` (empty if not set) and
/// `api.version.produce`.
pub(super) fn magic(format: &str, produce_version: Option<i16>) -> Result<i8> {
    let requested = match format {
        "" => None,
        text => Some(parse(text).ok_or_else(|| {
            Error::configuration(format!(
                "option message.format.version must be a version of Kafka, for example 0.9.0 or 0.10.2, or v0, v1 or v2, \
                 not {text:?}"
            ))
        })?),
    };
    let supported = produce_version.map(newest_magic);
    match (requested, supported, produce_version) {
        (Some(magic @ (0 | 1)), Some(2), Some(version)) => Err(Error::configuration(format!(
            "message.format.version={format} (magic {magic}) needs a version of Produce below {FIRST_BATCH_VERSION}, not \
             api.version.produce={version}: leave one of them out"
        ))),
        (Some(magic), Some(supported), Some(version)) if magic > supported => Err(Error::configuration(format!(
            "message.format.version={format} (magic {magic}) cannot be written with api.version.produce={version}, \
             which supports magic {supported} at most: leave one of them out"
        ))),
        _ => Ok(requested.or(supported).unwrap_or(2)),
    }
}

/// Parses a Kafka version as Kafka's option of that name does (`0.9.0`, `0.10.0-IV1`, `3.9`), or a message format
/// (`v1`).
fn parse(text: &str) -> Option<i8> {
    match text {
        "v0" => return Some(0),
        "v1" => return Some(1),
        "v2" => return Some(2),
        _ => {}
    }
    let version = match text.split_once("-IV") {
        Some((version, step)) => {
            step.parse::<u8>().ok()?;
            version
        }
        None => text,
    };
    let numbers = version.split('.').map(|number| number.parse::<u16>().ok()).collect::<Option<Vec<_>>>()?;
    match numbers.as_slice() {
        [0, 7..=9, ..] => Some(0),
        [0, 10, ..] => Some(1),
        [0, 11, ..] => Some(2),
        [major, _, ..] if *major > 0 => Some(2),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn magic_follows_kafka_version() {
        let formats = [
            (0, &["0.8.0", "0.8.2", "0.8.2.1", "0.9.0", "0.9.0.1", "0.9", "v0"][..]),
            (1, &["0.10.0", "0.10.0-IV0", "0.10.2-IV0", "0.10", "v1"]),
            (2, &["0.11.0", "0.11.0-IV0", "1.0", "2.8", "2.8-IV1", "3.0", "4.3", "v2"]),
        ];
        for (expected, texts) in formats {
            for text in texts {
                assert_eq!(magic(text, None), Ok(expected), "{text}");
            }
        }
        for text in ["0", "1", "2", "x", "0.10.x", "0.12", "0.", "v3", "0.10.0-IV", "0.10.0-IVx", "-1.0", "newest"] {
            let error = magic(text, None).unwrap_err().to_string();
            assert!(error.contains("message.format.version") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn magic_must_agree_with_produce_version() {
        assert_eq!(magic("", None), Ok(2));
        for (version, expected) in [(0, 0), (1, 0), (2, 1), (3, 2), (13, 2)] {
            assert_eq!(magic("", Some(version)), Ok(expected));
        }
        assert_eq!(magic("0.9.0", Some(2)), Ok(0));
        assert_eq!(magic("0.11.0", Some(3)), Ok(2));
        for (format, version) in [("0.10.0", 1), ("0.11.0", 2), ("v2", 0), ("0.9.0", 3), ("v1", 9)] {
            let text = magic(format, Some(version)).unwrap_err().to_string();
            assert!(text.contains(format) && text.contains(&format!("api.version.produce={version}")), "{text}");
        }
    }
}
