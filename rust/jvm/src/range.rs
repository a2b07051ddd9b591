//! Java's request to open a reader: an offset range and its columns.

use std::collections::BTreeMap;

use samsarrow_client::types::TopicPartition;
use samsarrow_spark::columns::OutputColumn;
use samsarrow_spark::typed::{ReaderSchema, ReaderSchemas, SparkType};
use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::memory_budget::DEFAULT_PROCESS_LIMIT;

/// Value of `end` for a range without an end.
const UNBOUNDED: i64 = i64::MAX;

/// Offsets of one partition, from `start` inclusive to `end` exclusive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Range {
    pub tp: TopicPartition,
    pub start: i64,
    /// Offset after the last offset of the range.
    pub end: i64,
    /// Requested columns, in order. Empty if the rows are only counted.
    pub columns: Vec<OutputColumn>,
    /// Number of vectors, including nested vectors, for which Java has allocated slots.
    pub vectors: usize,
    /// Spark types of the decoded columns, by column name.
    pub types: BTreeMap<String, SparkType>,
    /// Reader schemas that the driver fetched from the registry.
    pub reader_schemas: ReaderSchemas,
    /// Maximum number of rows to return.
    pub limit: Option<u64>,
    /// Maximum number of bytes that all readers of the process may prefetch.
    pub process_limit: usize,
}

impl Range {
    /// Returns true if the range has no end (real-time mode).
    pub fn is_open(&self) -> bool {
        self.end == UNBOUNDED
    }

    /// Describes the offsets from `position` to the end, for error texts.
    pub(crate) fn describe_from(&self, position: i64) -> String {
        match self.is_open() {
            true => format!("offsets from {position} on of {}", self.tp),
            false => format!("offsets {position} to {} of {}", self.end, self.tp),
        }
    }

    /// Parses
    /// `{"topic","partition","start","end":n|null,"columns":[...],"count_only":bool,"limit":n|null,"process":n|null,
    /// "vectors":n,"types":{...},"found":{...}}`.
    ///
    /// # Errors
    /// Fails if the JSON is malformed.
    pub fn parse(text: &str) -> Result<Range> {
        let json: Value = serde_json::from_str(text).unwrap_or_default();
        read(&json).ok_or_else(|| Failure::state(format!("the jar passed an invalid range: {text}")))
    }
}

fn read(json: &Value) -> Option<Range> {
    let number = |name: &str| json.get(name)?.as_i64();
    let count_only = json.get("count_only").and_then(Value::as_bool).unwrap_or_default();
    let columns = match json.get("columns").and_then(Value::as_array) {
        Some(names) if !count_only => {
            names.iter().map(|name| OutputColumn::from_name(name.as_str()?)).collect::<Option<Vec<_>>>()?
        }
        _ if count_only => Vec::new(),
        _ => return None,
    };
    let vectors = number("vectors").and_then(|vectors| usize::try_from(vectors).ok()).unwrap_or(columns.len());
    let none = serde_json::Map::new();
    let map = |name: &str| json.get(name).and_then(Value::as_object).unwrap_or(&none);
    let types = map("types").iter().map(|(name, text)| Some((name.clone(), SparkType::parse(text.as_str()?)?)));
    let types = types.collect::<Option<_>>()?;
    let reader_schemas =
        map("found").iter().map(|(name, schema)| Some((name.clone(), ReaderSchema::from_json(schema)?)));
    let reader_schemas = reader_schemas.collect::<Option<_>>()?;
    let start = number("start")?;
    let end = if json.get("end")?.is_null() { UNBOUNDED } else { number("end")? };
    let tp = TopicPartition::new(json.get("topic")?.as_str()?, i32::try_from(number("partition")?).ok()?);
    let limit = number("limit").map(u64::try_from).transpose().ok()?;
    let process_limit =
        number("process").and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(DEFAULT_PROCESS_LIMIT);
    let range = Range { tp, start, end, columns, vectors, types, reader_schemas, limit, process_limit };
    (start >= 0 && end >= start).then_some(range)
}

#[cfg(test)]
mod tests {
    use samsarrow_spark::columns::Column;

    use super::*;

    #[test]
    fn parses_ranges() {
        let text = r#"{"topic":"t","partition":2,"start":3,"end":9,"columns":["offset","timestampType"],"limit":null}"#;
        let columns = vec![OutputColumn::Column(Column::Offset), OutputColumn::Column(Column::TimestampType)];
        let tp = TopicPartition::new("t", 2);
        let (types, reader_schemas) = (BTreeMap::new(), ReaderSchemas::new());
        let expected = Range {
            tp,
            start: 3,
            end: 9,
            columns,
            vectors: 2,
            types,
            reader_schemas,
            limit: None,
            process_limit: DEFAULT_PROCESS_LIMIT,
        };
        assert_eq!(Range::parse(text).unwrap(), expected);
        let text = r#"{"topic":"t","partition":2,"start":3,"end":9,"columns":["key"],"count_only":true,"limit":5,
            "process":8}"#;
        let counted = Range { columns: Vec::new(), vectors: 0, limit: Some(5), process_limit: 8, ..expected };
        assert_eq!(Range::parse(text).unwrap(), counted);
        let text = r#"{"topic":"t","partition":2,"start":3,"end":9,"columns":["value","raw_key","value_error"],
            "vectors":4,"types":{"value":"\"long\""},"found":{"value":{"text":"{}","needed":["x"]}}}"#;
        let typed = Range::parse(text).unwrap();
        let names: Vec<_> = typed.columns.iter().map(|column| column.name()).collect();
        assert_eq!((typed.vectors, names), (4, vec!["value", "raw_key", "value_error"]));
        assert_eq!(typed.types.get("value"), Some(&SparkType::Plain("long".to_owned())));
        assert!(typed.reader_schemas.contains_key("value"));
        let text = r#"{"topic":"t","partition":2,"start":3,"end":null,"columns":[],"limit":null}"#;
        let open = Range::parse(text).unwrap();
        assert!(open.is_open());
        assert_eq!(open.describe_from(4), "offsets from 4 on of t-2");
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
