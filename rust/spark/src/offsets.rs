//! Offsets in the format of Spark's checkpoints, `{"topic":{"0":23}}`. Each number is the next offset to read. The JSON
//! is identical to that of Spark's own connector byte for byte, so that either source can resume from the other's
//! checkpoint.

use std::collections::BTreeMap;

use samsarrow_client::types::TopicPartition;
use serde_json::Value;

use crate::error::{Error, Result};

/// Next offset of each partition, sorted by topic and partition number.
pub type Offsets = BTreeMap<TopicPartition, i64>;

/// Formats the offsets as Spark's connector does, without whitespace. Spark compares offsets by their JSON text.
pub fn to_json(offsets: &Offsets) -> String {
    let mut text = String::from("{");
    let mut topic = None;
    for (tp, offset) in offsets {
        if topic != Some(&tp.topic) {
            if topic.is_some() {
                text.push_str("},");
            }
            text.push_str(&Value::from(&*tp.topic).to_string());
            text.push_str(":{");
            topic = Some(&tp.topic);
        } else {
            text.push(',');
        }
        text.push_str(&format!("\"{}\":{offset}", tp.partition));
    }
    text.push_str(if topic.is_some() { "}}" } else { "}" });
    text
}

/// Parses offsets written by [`to_json`] or by Spark's connector.
///
/// # Errors
/// [`Error::Client`] if the JSON contains offsets of another source.
pub fn from_json(json: &Value) -> Result<Offsets> {
    parse(json).ok_or_else(|| {
        Error::configuration(format!(
            "the checkpoint has offsets of another source: {json} instead of {{\"topic\":{{\"0\":23}}}}; give the query a \
             separate checkpointLocation"
        ))
    })
}

fn parse(json: &Value) -> Option<Offsets> {
    let mut result = Offsets::new();
    for (topic, partitions) in json.as_object()? {
        for (partition, offset) in partitions.as_object()? {
            result.insert(TopicPartition::new(topic.as_str(), partition.parse().ok()?), offset.as_i64()?);
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_equals_that_of_sparks_connector() {
        let mut offsets: Offsets = [10, 9, 0].map(|p| (TopicPartition::new("t", p), i64::from(p))).into();
        offsets.insert(TopicPartition::new("a", 3), 7);
        let text = to_json(&offsets);
        assert_eq!(text, r#"{"a":{"3":7},"t":{"0":0,"9":9,"10":10}}"#);
        assert_eq!(from_json(&serde_json::from_str(&text).unwrap()).unwrap(), offsets);
        assert_eq!(to_json(&Offsets::new()), "{}");
    }

    #[test]
    fn rejects_offsets_of_another_source() {
        for text in [r#"{"logOffset":3}"#, "7", r#"{"t":{"x":1}}"#, r#"{"t":{"0":"1"}}"#] {
            let error = from_json(&serde_json::from_str(text).unwrap()).unwrap_err();
            assert!(error.to_string().contains("offsets of another source"), "{error}");
        }
    }
}
