//! Topic configs of Kafka 4.3 (class LogConfig): their types, their valid ranges, and Kafka's messages for invalid
//! values.

use std::fmt::Display;
use std::ops::RangeInclusive;

use samsarrow_wire::error_code::ErrorCode;

use super::topic_creation::Rejection;

/// Type of a topic config, with the values that Kafka accepts.
enum Kind {
    Boolean,
    Int(RangeInclusive<i32>),
    Long(RangeInclusive<i64>),
    Double(RangeInclusive<f64>),
    /// One of these strings.
    Text(&'static [&'static str]),
    /// Comma-separated list of any of these strings.
    List(&'static [&'static str]),
    /// -1, or a level from 1 to 9.
    GzipLevel,
}

const CODECS: &[&str] = &["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"];
const INT: RangeInclusive<i32> = 0..=i32::MAX;
const LONG: RangeInclusive<i64> = 0..=i64::MAX;

/// Topic configs. `max.message.bytes` and `message.timestamp.type` affect the broker, the others are only stored.
const SETTINGS: [(&str, Kind); 28] = [
    ("cleanup.policy", Kind::List(&["compact", "delete"])),
    ("compression.gzip.level", Kind::GzipLevel),
    ("compression.lz4.level", Kind::Int(1..=17)),
    ("compression.type", Kind::Text(CODECS)),
    ("compression.zstd.level", Kind::Int(-131_072..=22)),
    ("delete.retention.ms", Kind::Long(LONG)),
    ("file.delete.delay.ms", Kind::Long(LONG)),
    ("flush.messages", Kind::Long(1..=i64::MAX)),
    ("flush.ms", Kind::Long(LONG)),
    ("index.interval.bytes", Kind::Int(INT)),
    ("local.retention.bytes", Kind::Long(-2..=i64::MAX)),
    ("local.retention.ms", Kind::Long(-2..=i64::MAX)),
    ("max.compaction.lag.ms", Kind::Long(1..=i64::MAX)),
    ("max.message.bytes", Kind::Int(INT)),
    ("message.timestamp.after.max.ms", Kind::Long(LONG)),
    ("message.timestamp.before.max.ms", Kind::Long(LONG)),
    ("message.timestamp.type", Kind::Text(&["CreateTime", "LogAppendTime"])),
    ("min.cleanable.dirty.ratio", Kind::Double(0.0..=1.0)),
    ("min.compaction.lag.ms", Kind::Long(LONG)),
    ("min.insync.replicas", Kind::Int(1..=i32::MAX)),
    ("preallocate", Kind::Boolean),
    ("remote.storage.enable", Kind::Boolean),
    ("retention.bytes", Kind::Long(i64::MIN..=i64::MAX)),
    ("retention.ms", Kind::Long(-1..=i64::MAX)),
    ("segment.bytes", Kind::Int(1 << 20..=i32::MAX)),
    ("segment.index.bytes", Kind::Int(4..=i32::MAX)),
    ("segment.ms", Kind::Long(1..=i64::MAX)),
    ("unclean.leader.election.enable", Kind::Boolean),
];

/// Checks one topic config and returns its value without surrounding whitespace.
///
/// # Errors
/// Fails with INVALID_CONFIG and Kafka's message if the name is unknown, or if the value is missing or invalid.
pub(crate) fn check<'a>(name: &str, value: Option<&'a str>) -> Result<&'a str, Rejection> {
    let invalid = |text: String| (ErrorCode::INVALID_CONFIG, text);
    let kind = SETTINGS.iter().find(|(known, _)| *known == name).map(|(_, kind)| kind);
    let kind = kind.ok_or_else(|| invalid(format!("Unknown topic config name: {name}")))?;
    let value = value.ok_or_else(|| invalid(format!("Null value not supported for topic configs: {name}")))?;
    let value = value.trim();
    let why = match kind {
        Kind::Boolean if ["true", "false"].iter().any(|word| value.eq_ignore_ascii_case(word)) => Ok(()),
        Kind::Boolean => Err("Expected value to be either true or false".to_owned()),
        Kind::Int(range) => number(value, "INT").and_then(|number: i32| within(&number, range)),
        Kind::Long(range) => number(value, "LONG").and_then(|number: i64| within(&number, range)),
        Kind::Double(range) => number(value, "DOUBLE").and_then(|number: f64| within(&number, range)),
        Kind::Text(texts) => one_of(value, texts),
        Kind::List(texts) if value.is_empty() => one_of(texts.first().unwrap_or(&""), texts),
        Kind::List(texts) => match value.split(',').map(str::trim).find(|part| !texts.contains(part)) {
            None => Ok(()),
            // Kafka's message names the invalid list element instead of the whole list.
            Some(part) => {
                let why = one_of(part, texts).err().unwrap_or_default();
                return Err(invalid(format!("Invalid value {part} for configuration {name}: {why}")));
            }
        },
        Kind::GzipLevel => number(value, "INT").and_then(|level: i32| match level {
            -1 | 1..=9 => Ok(()),
            _ => Err("Value must be between 1 and 9 or equal to -1".to_owned()),
        }),
    };
    match why {
        Ok(()) => Ok(value),
        Err(why) => Err(invalid(format!("Invalid value {value} for configuration {name}: {why}"))),
    }
}

fn number<T: std::str::FromStr>(value: &str, kind: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("Not a number of type {kind}"))
}

fn within<T: PartialOrd + Display>(number: &T, range: &RangeInclusive<T>) -> Result<(), String> {
    if number < range.start() {
        return Err(format!("Value must be at least {}", range.start()));
    }
    if number > range.end() {
        return Err(format!("Value must be no more than {}", range.end()));
    }
    Ok(())
}

fn one_of(value: &str, texts: &[&str]) -> Result<(), String> {
    if texts.contains(&value) { Ok(()) } else { Err(format!("String must be one of: {}", texts.join(", "))) }
}
