//! What a reader is to read, as Java says it.

use std::collections::BTreeMap;

use samsarrow_client::types::TopicPartition;
use samsarrow_spark::columns::Served;
use samsarrow_spark::typed::{Found, Registered, SparkType};
use serde_json::Value;

use crate::budget::PROCESS;
use crate::failure::{Failure, Result};

/// The end of a range that has none.
const OPEN: i64 = i64::MAX;

/// One partition's offsets from `start` up to, not including, `end`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    /// The partition.
    pub tp: TopicPartition,
    /// The first offset.
    pub start: i64,
    /// The offset after the last.
    pub end: i64,
    /// Those that are wanted, in their order; none to count rows only.
    pub columns: Vec<Served>,
    /// Vectors that Java has room for: those of columns, and of what is within them.
    pub vectors: usize,
    /// What Spark wants of keys and values that are decoded, by column.
    pub types: BTreeMap<String, SparkType>,
    /// What the registry said to the driver that they look like.
    pub found: Found,
    /// The most rows that are wanted.
    pub limit: Option<u64>,
    /// The most bytes that all readers of the process may fetch ahead.
    pub process: usize,
}

impl Range {
    /// Whether it is read for as long as the caller wants, in real-time mode.
    pub fn is_open(&self) -> bool {
        self.end == OPEN
    }

    /// Its offsets from `position` on, for errors.
    pub(crate) fn from(&self, position: i64) -> String {
        match self.is_open() {
            true => format!("offsets from {position} on of {}", self.tp),
            false => format!("offsets {position} to {} of {}", self.end, self.tp),
        }
    }

    /// From `{"topic","partition","start","end":n|null,"columns":[...],"count_only":bool,"limit":n|null,"process":n|null,
    /// "vectors":n,"types":{...},"found":{...}}`.
    ///
    /// # Errors
    /// It is none.
    pub fn parse(text: &str) -> Result<Range> {
        let told: Value = serde_json::from_str(text).unwrap_or_default();
        read(&told).ok_or_else(|| Failure::state(format!("the jar asks for a range that is none: {text}")))
    }
}

fn read(told: &Value) -> Option<Range> {
    let number = |name: &str| told.get(name)?.as_i64();
    let count_only = told.get("count_only").and_then(Value::as_bool).unwrap_or_default();
    let columns = match told.get("columns").and_then(Value::as_array) {
        Some(names) if !count_only => {
            names.iter().map(|name| Served::named(name.as_str()?)).collect::<Option<Vec<_>>>()?
        }
        _ if count_only => Vec::new(),
        _ => return None,
    };
    let vectors = number("vectors").and_then(|vectors| usize::try_from(vectors).ok()).unwrap_or(columns.len());
    let none = serde_json::Map::new();
    let map = |name: &str| told.get(name).and_then(Value::as_object).unwrap_or(&none);
    let types = map("types").iter().map(|(name, text)| Some((name.clone(), SparkType::read_text(text.as_str()?)?)));
    let types = types.collect::<Option<_>>()?;
    let found = map("found").iter().map(|(name, schema)| Some((name.clone(), Registered::read(schema)?)));
    let found = found.collect::<Option<_>>()?;
    let start = number("start")?;
    let end = if told.get("end")?.is_null() { OPEN } else { number("end")? };
    let tp = TopicPartition::new(told.get("topic")?.as_str()?, i32::try_from(number("partition")?).ok()?);
    let limit = number("limit").map(u64::try_from).transpose().ok()?;
    let process = number("process").and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(PROCESS);
    let range = Range { tp, start, end, columns, vectors, types, found, limit, process };
    (start >= 0 && end >= start).then_some(range)
}

#[cfg(test)]
mod tests {
    use samsarrow_spark::columns::Column;

    use super::*;

    #[test]
    fn ranges_are_read() {
        let text = r#"{"topic":"t","partition":2,"start":3,"end":9,"columns":["offset","timestampType"],"limit":null}"#;
        let columns = vec![Served::Column(Column::Offset), Served::Column(Column::TimestampType)];
        let tp = TopicPartition::new("t", 2);
        let (types, found) = (BTreeMap::new(), Found::new());
        let wanted = Range { tp, start: 3, end: 9, columns, vectors: 2, types, found, limit: None, process: PROCESS };
        assert_eq!(Range::parse(text).unwrap(), wanted);
        let text = r#"{"topic":"t","partition":2,"start":3,"end":9,"columns":["key"],"count_only":true,"limit":5,
            "process":8}"#;
        let counted = Range { columns: Vec::new(), vectors: 0, limit: Some(5), process: 8, ..wanted };
        assert_eq!(Range::parse(text).unwrap(), counted);
        let text = r#"{"topic":"t","partition":2,"start":3,"end":9,"columns":["value","raw_key","value_error"],
            "vectors":4,"types":{"value":"\"long\""},"found":{"value":{"text":"{}","needed":["x"]}}}"#;
        let typed = Range::parse(text).unwrap();
        let names: Vec<_> = typed.columns.iter().map(|column| column.name()).collect();
        assert_eq!((typed.vectors, names), (4, vec!["value", "raw_key", "value_error"]));
        assert_eq!(typed.types.get("value"), Some(&SparkType::Plain("long".to_owned())));
        assert!(typed.found.contains_key("value"));
        let text = r#"{"topic":"t","partition":2,"start":3,"end":null,"columns":[],"limit":null}"#;
        let open = Range::parse(text).unwrap();
        assert!(open.is_open());
        assert_eq!(open.from(4), "offsets from 4 on of t-2");
        for bad in [
            "",
            "{}",
            r#"{"topic":"t","partition":0,"start":3,"columns":[]}"#,
            r#"{"topic":"t","partition":0,"start":3,"end":2,"columns":[]}"#,
            r#"{"topic":"t","partition":0,"start":3,"end":4,"columns":[],"types":{"value":"{"}}"#,
        ] {
            assert_eq!(Range::parse(bad).unwrap_err().kind, "state");
        }
    }
}
