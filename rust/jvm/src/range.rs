//! What a reader is to read, as Java says it.

use samsarrow_client::types::TopicPartition;
use samsarrow_spark::columns::Column;
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
    pub columns: Vec<Column>,
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

    /// From `{"topic","partition","start","end":n|null,"columns":[...],"count_only":bool,"limit":n|null,"process":n|null}`.
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
        Some(names) if !count_only => names.iter().map(|name| Column::named(name.as_str()?)).collect::<Option<_>>()?,
        _ if count_only => Vec::new(),
        _ => return None,
    };
    let start = number("start")?;
    let end = if told.get("end")?.is_null() { OPEN } else { number("end")? };
    let tp = TopicPartition::new(told.get("topic")?.as_str()?, i32::try_from(number("partition")?).ok()?);
    let limit = number("limit").and_then(|limit| u64::try_from(limit).ok());
    let process = number("process").and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(PROCESS);
    (start >= 0 && end >= start).then_some(Range { tp, start, end, columns, limit, process })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read() {
        let text = r#"{"topic":"t","partition":2,"start":3,"end":9,"columns":["offset","timestampType"],"limit":null}"#;
        let columns = vec![Column::Offset, Column::TimestampType];
        let tp = TopicPartition::new("t", 2);
        let wanted = Range { tp, start: 3, end: 9, columns, limit: None, process: PROCESS };
        assert_eq!(Range::parse(text).unwrap(), wanted);
        let text = r#"{"topic":"t","partition":2,"start":3,"end":9,"columns":["key"],"count_only":true,"limit":5,
            "process":8}"#;
        assert_eq!(Range::parse(text).unwrap(), Range { columns: Vec::new(), limit: Some(5), process: 8, ..wanted });
        let text = r#"{"topic":"t","partition":2,"start":3,"end":null,"columns":[],"limit":null}"#;
        let open = Range::parse(text).unwrap();
        assert!(open.is_open());
        assert_eq!(open.from(4), "offsets from 4 on of t-2");
        for bad in [
            "",
            "{}",
            r#"{"topic":"t","partition":0,"start":3,"columns":[]}"#,
            r#"{"topic":"t","partition":0,"start":3,"end":2,"columns":[]}"#,
        ] {
            assert_eq!(Range::parse(bad).unwrap_err().kind, "state");
        }
    }
}
