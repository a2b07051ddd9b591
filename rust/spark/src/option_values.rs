//! Parsers of option values. Their errors name the option.

use std::collections::BTreeMap;
use std::time::Duration;

use samsarrow_client::types::TopicPartition;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::offsets::Offsets;

/// Options by name, in lower case.
pub(crate) type RawOptions = BTreeMap<String, String>;

/// Returns the value of an option. `name` may be in mixed case.
pub(crate) fn get<'a>(options: &'a RawOptions, name: &str) -> Option<&'a str> {
    options.get(&name.to_lowercase()).map(String::as_str)
}

/// Quotes a text in the same way as Python's `repr`.
pub(crate) fn quoted(text: &str) -> String {
    if text.contains('\'') && !text.contains('"') {
        return format!("\"{text}\"");
    }
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"))
}

/// Parses `true` or `false`.
pub(crate) fn boolean(options: &RawOptions, name: &str, default: bool) -> Result<bool> {
    let Some(text) = get(options, name) else { return Ok(default) };
    match text.trim().to_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(Error::configuration(format!("option {name} must be true or false, not {}", quoted(other)))),
    }
}

/// Parses a whole number greater than 0.
pub(crate) fn positive(options: &RawOptions, name: &str) -> Result<Option<u64>> {
    number(options, name, 1, "a whole number greater than 0")
}

/// Parses a whole number that is at least 0.
pub(crate) fn natural(options: &RawOptions, name: &str) -> Result<Option<u64>> {
    number(options, name, 0, "a whole number, at least 0")
}

fn number(options: &RawOptions, name: &str, min: u64, what: &str) -> Result<Option<u64>> {
    let Some(text) = get(options, name) else { return Ok(None) };
    let digits = text.trim();
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // Numbers that exceed an i64 are not valid counts or milliseconds.
    let fits = |number: &u64| is_number && *number >= min && i64::try_from(*number).is_ok();
    let number = digits.parse::<u64>().ok().filter(fits);
    let invalid = || Error::configuration(format!("option {name} must be {what}, not {}", quoted(text)));
    number.map(Some).ok_or_else(invalid)
}

/// Parses a duration in Spark's notation, such as `15m` or `500ms`. A number without a unit is in milliseconds.
pub(crate) fn duration(options: &RawOptions, name: &str, default: Duration) -> Result<Duration> {
    let Some(text) = get(options, name) else { return Ok(default) };
    let lower = text.trim().to_lowercase();
    let end = lower.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(lower.len());
    let (number, unit) = lower.split_at(end);
    let micros = match unit.trim_start() {
        "us" => Some(1),
        "" | "ms" => Some(1_000),
        "s" => Some(1_000_000),
        "m" | "min" => Some(60_000_000),
        "h" => Some(3_600_000_000),
        "d" => Some(86_400_000_000),
        _ => None,
    };
    let time = micros.and_then(|unit: u64| number.parse::<u64>().ok()?.checked_mul(unit));
    time.map(Duration::from_micros).ok_or_else(|| {
        let text = quoted(text);
        Error::configuration(format!("option {name} must be a time such as 15m, 30s or 500ms, not {text}"))
    })
}

/// Parses a JSON object.
pub(crate) fn json_object(text: &str, name: &str, example: &str) -> Result<Map<String, Value>> {
    match serde_json::from_str(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(Error::configuration(format!("option {name} must be JSON like {example}, not {}", quoted(text)))),
        Err(error) => {
            let text = quoted(text);
            Err(Error::configuration(format!("option {name} must be JSON like {example}, not {text} ({error})")))
        }
    }
}

/// Parses `{"topic":{"0":23}}`, which contains a number for each partition. `what` describes the number in error texts.
pub(crate) fn numbers_per_partition(text: &str, name: &str, min: i64, what: &str) -> Result<Offsets> {
    let mut result = Offsets::new();
    for (topic, partitions) in json_object(text, name, r#"{"topic":{"0":23,"1":42}}"#)? {
        let Value::Object(partitions) = partitions else {
            return Err(Error::configuration(format!(
                "option {name}: {} must map to numbers per partition, like {{\"{topic}\":{{\"0\":23}}}}",
                quoted(&topic)
            )));
        };
        for (partition, number) in partitions {
            let index = partition.parse::<i32>().ok().filter(|_| partition.bytes().all(|b| b.is_ascii_digit()));
            let (Some(index), Some(number)) = (index, number.as_i64().filter(|number| *number >= min)) else {
                return Err(Error::configuration(format!(
                    "option {name}: {}: {number} of topic {} is not a partition and {what}",
                    quoted(&partition),
                    quoted(&topic)
                )));
            };
            result.insert(TopicPartition::new(topic.as_str(), index), number);
        }
    }
    Ok(result)
}
