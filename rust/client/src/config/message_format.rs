//! Which message format a producer writes.

use crate::error::{Error, Result};

/// The first version of Produce that carries batches of magic 2; it carries nothing else.
const FIRST_WITH_BATCHES: i16 = 3;
/// The newest version of Produce that carries messages of magic 0 and 1.
pub(super) const LAST_WITH_MESSAGES: i16 = 2;

/// The newest format that a version of Produce carries.
pub(crate) fn newest_magic(produce_version: i16) -> i8 {
    match produce_version {
        ..=1 => 0,
        LAST_WITH_MESSAGES => 1,
        _ => 2,
    }
}

/// The newest magic to write, given the options `message.format.version` (empty if it is not set) and
/// `api.version.produce`.
pub(super) fn magic(format: &str, produce_version: Option<i16>) -> Result<i8> {
    let asked = match format {
        "" => None,
        text => Some(parse(text).ok_or_else(|| {
            Error::configuration(format!(
                "option message.format.version must be a version of Kafka, for example 0.9.0 or 0.10.2, or v0, v1 or v2, \
                 not {text:?}"
            ))
        })?),
    };
    let carried = produce_version.map(newest_magic);
    match (asked, carried, produce_version) {
        (Some(magic @ (0 | 1)), Some(2), Some(version)) => Err(Error::configuration(format!(
            "message.format.version={format} (magic {magic}) needs a version of Produce below {FIRST_WITH_BATCHES}, not \
             api.version.produce={version}: leave one of them out"
        ))),
        (Some(magic), Some(carried), Some(version)) if magic > carried => Err(Error::configuration(format!(
            "message.format.version={format} (magic {magic}) cannot be written with api.version.produce={version}, \
             which carries magic {carried} at most: leave one of them out"
        ))),
        _ => Ok(asked.or(carried).unwrap_or(2)),
    }
}

/// `0.9.0`, `0.10.0-IV1`, `3.9`: as Kafka's option of that name has it; or the format itself.
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
    fn versions_of_kafka_have_their_formats() {
        let formats = [
            (0, &["0.8.0", "0.8.2", "0.8.2.1", "0.9.0", "0.9.0.1", "0.9", "v0"][..]),
            (1, &["0.10.0", "0.10.0-IV0", "0.10.2-IV0", "0.10", "v1"]),
            (2, &["0.11.0", "0.11.0-IV0", "1.0", "2.8", "2.8-IV1", "3.0", "4.3", "v2"]),
        ];
        for (wanted, texts) in formats {
            for text in texts {
                assert_eq!(magic(text, None), Ok(wanted), "{text}");
            }
        }
        for text in ["0", "1", "2", "x", "0.10.x", "0.12", "0.", "v3", "0.10.0-IV", "0.10.0-IVx", "-1.0", "newest"] {
            let error = magic(text, None).unwrap_err().to_string();
            assert!(error.contains("message.format.version") && error.contains(text), "{error}");
        }
    }

    #[test]
    fn the_version_of_produce_and_the_format_must_agree() {
        assert_eq!(magic("", None), Ok(2));
        for (version, wanted) in [(0, 0), (1, 0), (2, 1), (3, 2), (13, 2)] {
            assert_eq!(magic("", Some(version)), Ok(wanted));
        }
        assert_eq!(magic("0.9.0", Some(2)), Ok(0));
        assert_eq!(magic("0.11.0", Some(3)), Ok(2));
        for (format, version) in [("0.10.0", 1), ("0.11.0", 2), ("v2", 0), ("0.9.0", 3), ("v1", 9)] {
            let text = magic(format, Some(version)).unwrap_err().to_string();
            assert!(text.contains(format) && text.contains(&format!("api.version.produce={version}")), "{text}");
        }
    }
}
