//! Requests of a source or sink to its driver, and the driver's responses, as JSON.

use std::collections::{BTreeMap, BTreeSet};

use samsarrow_client::types::TopicPartition;
use serde_json::{Map, Value};

use crate::columns::{Column, OutputColumn, TextLayout};
use crate::error::{Error, Result};
use crate::exactly_once::{MicroBatch, TaskId};
use crate::offsets::{Offsets, from_json};
use crate::planner::{Limit, StartCheckpoint};
use crate::predicates::{Predicates, Window};
use crate::ranges::OffsetRange;
use crate::typed::{ReaderSchema, ReaderSchemas, SparkType, WriterSchema, WriterSchemas};
use crate::write_options::Field;

/// Request to the driver, or to the writer of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// Returns the columns of a read, and checks the types that the user selected.
    Schema {
        /// Types that `.schema(...)` sets, by column name.
        requested: BTreeMap<String, SparkType>,
    },
    /// Returns the ranges of a batch read.
    Batch(Predicates),
    /// Returns the start of a new query. A caller that has stored the start sends this request before any other
    /// request.
    Initial(StartCheckpoint),
    /// Returns the end of the next micro-batch.
    Latest {
        /// End of the last micro-batch. `None` if Spark does not pass it (Python sources before 4.2), in which case the
        /// micro-batch takes all available records.
        start: Option<Offsets>,
        /// Size limit of the micro-batch.
        limit: Limit,
        /// True if the query must not read records after the current end (`Trigger.AvailableNow`).
        freeze: bool,
    },
    /// Returns the ranges of a micro-batch.
    Ranges { start: Offsets, end: Offsets },
    /// Returns the start offsets of a batch in real-time mode, which reads all partitions until the batch ends.
    Open { start: Offsets },
    /// Checks whether the schemas of a streaming query have newer versions, if these end the query.
    Evolution(ReaderSchemas),
    /// Reports that the sink contains all records before these offsets.
    Commit {
        /// End offsets of a finished micro-batch.
        end: Offsets,
    },
    /// Returns the delegation token for tasks, or null if they use the driver's login.
    Token,
    /// Checks a write and returns the columns to send.
    Write {
        /// Columns of the DataFrame.
        fields: Vec<Field>,
        /// True for a batch write, false for a streaming write.
        batch: bool,
    },
    /// Opens a writer for the rows of one task.
    WriteTask {
        /// Columns of the DataFrame.
        fields: Vec<Field>,
        /// Identity of the task, if the write is exactly once.
        task: Option<TaskId>,
        /// Number of the task in its stage, for errors.
        partition: Option<i64>,
        /// Schemas to write with.
        schemas: WriterSchemas,
    },
    /// Returns the schemas to write with, before the tasks of a batch or micro-batch start.
    WriteSchemas {
        /// Columns of the DataFrame.
        fields: Vec<Field>,
        /// Schemas of the previous micro-batch, which need not be registered again.
        earlier: WriterSchemas,
    },
    /// Starts the exactly-once write of a micro-batch, before its tasks.
    BeginWrite(Tasks),
    /// Ends the exactly-once write of a micro-batch, after its tasks.
    EndWrite(Tasks),
}

/// Tasks that write a micro-batch exactly once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tasks {
    /// Columns of the DataFrame.
    pub fields: Vec<Field>,
    pub batch: MicroBatch,
    /// Number of tasks.
    pub count: u64,
}

impl Request {
    /// Parses a request.
    ///
    /// # Errors
    /// Fails if the request is malformed or contains offsets of another source.
    pub fn parse(text: &str) -> Result<Request> {
        let parsed: Value = serde_json::from_str(text).map_err(|error| malformed(&error.to_string()))?;
        let fields = parsed.as_object().ok_or_else(|| malformed("not an object"))?;
        let offsets = |name: &str| from_json(fields.get(name).unwrap_or(&Value::Null));
        match fields.get("ask").and_then(Value::as_str) {
            Some("schema") => Ok(Request::Schema { requested: types(fields, "chosen")? }),
            Some("batch") => predicates(fields).map(Request::Batch),
            Some("initial") => Ok(Request::Initial(match non_null(fields, "kept") {
                Some(kept) => StartCheckpoint::Stored(from_json(kept)?),
                None if flag(fields, "keeps")? => StartCheckpoint::New,
                None => StartCheckpoint::NotStored,
            })),
            Some("latest") => Ok(Request::Latest {
                start: non_null(fields, "start").map(from_json).transpose()?,
                limit: limit(fields)?,
                freeze: flag(fields, "freeze")?,
            }),
            Some("ranges") => Ok(Request::Ranges { start: offsets("start")?, end: offsets("end")? }),
            Some("open") => Ok(Request::Open { start: offsets("start")? }),
            Some("evolution") => Ok(Request::Evolution(reader_schemas(fields)?)),
            Some("commit") => Ok(Request::Commit { end: offsets("end")? }),
            Some("token") => Ok(Request::Token),
            Some("write") => Ok(Request::Write { fields: columns(fields)?, batch: flag(fields, "batch")? }),
            Some("write_task") => Ok(Request::WriteTask {
                fields: columns(fields)?,
                task: task_id(fields)?,
                partition: number(fields, "partition")?,
                schemas: writer_schemas(fields)?,
            }),
            Some("write_schemas") => {
                Ok(Request::WriteSchemas { fields: columns(fields)?, earlier: writer_schemas(fields)? })
            }
            Some("begin_write") => tasks(fields).map(Request::BeginWrite),
            Some("end_write") => tasks(fields).map(Request::EndWrite),
            other => Err(malformed(&format!("unknown request {}", other.unwrap_or("without a name")))),
        }
    }
}

/// Creates the error for a malformed request. Such a request is a bug, because the source and the library are released
/// together.
fn malformed(reason: &str) -> Error {
    Error::configuration(format!("malformed request of the source to its library: {reason}"))
}

fn reader_schemas(fields: &Map<String, Value>) -> Result<ReaderSchemas> {
    let found = fields.get("found").and_then(Value::as_object).ok_or_else(|| malformed("found"))?;
    let schema = |(name, json): (&String, &Value)| Some((name.clone(), ReaderSchema::from_json(json)?));
    found.iter().map(schema).collect::<Option<_>>().ok_or_else(|| malformed("found"))
}

fn writer_schemas(fields: &Map<String, Value>) -> Result<WriterSchemas> {
    let Some(schemas) = non_null(fields, "schemas") else { return Ok(WriterSchemas::new()) };
    let schema = |(name, json): (&String, &Value)| Some((name.clone(), WriterSchema::from_json(json)?));
    let parsed = schemas.as_object().and_then(|schemas| schemas.iter().map(schema).collect());
    parsed.ok_or_else(|| malformed("schemas"))
}

fn non_null<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

/// Returns a boolean field, or false if the field is missing.
fn flag(fields: &Map<String, Value>, name: &str) -> Result<bool> {
    let flag = |value: &Value| value.as_bool().ok_or_else(|| malformed(&format!("{name} {value}")));
    non_null(fields, name).map_or(Ok(false), flag)
}

fn number(fields: &Map<String, Value>, name: &str) -> Result<Option<i64>> {
    let number = |value: &Value| value.as_i64().ok_or_else(|| malformed(&format!("{name} {value}")));
    non_null(fields, name).map(number).transpose()
}

/// Parses `{"value":"{\"type\":\"struct\",…}"}`. Each type is passed as text that contains Spark's JSON, because types
/// may be nested deeply.
fn types(fields: &Map<String, Value>, name: &str) -> Result<BTreeMap<String, SparkType>> {
    let Some(types) = non_null(fields, name).and_then(Value::as_object) else { return Ok(BTreeMap::new()) };
    let parse = |(name, text): (&String, &Value)| Some((name.clone(), SparkType::parse(text.as_str()?)?));
    let parsed: Option<_> = types.iter().map(parse).collect();
    parsed.ok_or_else(|| malformed(&format!("types {types:?}")))
}

fn limit(fields: &Map<String, Value>) -> Result<Limit> {
    let Some(limit) = non_null(fields, "limit") else { return Ok(Limit::Everything) };
    let rows = number(limit.as_object().ok_or_else(|| malformed(&format!("limit {limit}")))?, "rows")?;
    let Some(rows) = rows else { return Ok(Limit::Options) };
    u64::try_from(rows).map(Limit::Offsets).map_err(|_| malformed(&format!("a limit of {rows} rows")))
}

fn predicates(fields: &Map<String, Value>) -> Result<Predicates> {
    let empty = Map::new();
    let filters = match non_null(fields, "filters") {
        Some(filters) => filters.as_object().ok_or_else(|| malformed(&format!("filters {filters}")))?,
        None => &empty,
    };
    // Every entry must be valid, because leaving out an entry would exclude rows from the read.
    let list = |name: &str| {
        let list = |list: &'_ Value| list.as_array().cloned().ok_or_else(|| malformed(&format!("{name} {list}")));
        non_null(filters, name).map(list).transpose()
    };
    let topic = |topic: &Value| topic.as_str().map(str::to_owned).ok_or_else(|| malformed(&format!("topic {topic}")));
    let topics = list("topics")?.map(|list| list.iter().map(topic).collect::<Result<_>>()).transpose()?;
    let number_of = |p: &Value| p.as_i64().ok_or_else(|| malformed(&format!("partition {p}")));
    let partitions = list("partitions")?.map(|list| list.iter().map(number_of).collect::<Result<Vec<_>>>());
    // Partition numbers that exceed an int are left out, because no partition has such a number.
    let partitions: Option<BTreeSet<i32>> =
        partitions.transpose()?.map(|list| list.into_iter().filter_map(|p| i32::try_from(p).ok()).collect());
    let since = [number(fields, "from_time")?, number(filters, "time_from")?].into_iter().flatten().max();
    Ok(Predicates {
        topics,
        partitions,
        windows: non_null(fields, "partitions").map(partition_windows).transpose()?,
        offsets: (number(filters, "offset_from")?, number(filters, "offset_until")?),
        since,
    })
}

/// Parses `[["topic", 0, from, until], ...]`, where `from` and `until` are optional.
fn partition_windows(list: &Value) -> Result<BTreeMap<TopicPartition, Window>> {
    let window = |window: &Value| {
        let topic = window.get(0)?.as_str()?;
        let partition = i32::try_from(window.get(1)?.as_i64()?).ok()?;
        let bound = |index: usize| window.get(index).and_then(Value::as_i64);
        Some((TopicPartition::new(topic, partition), (bound(2), bound(3))))
    };
    let windows: Option<BTreeMap<_, _>> = list.as_array().and_then(|list| list.iter().map(window).collect());
    windows.ok_or_else(|| malformed(&format!("partitions {list}")))
}

/// Parses `[["value", "string", "\"string\""], ...]`: names, types as Spark displays them, and types in Spark's JSON,
/// which may be missing.
fn columns(fields: &Map<String, Value>) -> Result<Vec<Field>> {
    let text = |column: &Value, index: usize| Some(column.get(index)?.as_str()?.to_owned());
    let field = |column: &Value| {
        let data_type = column.get(2).and_then(Value::as_str).and_then(SparkType::parse);
        Some(Field { name: text(column, 0)?, kind: text(column, 1)?, data_type })
    };
    let columns = non_null(fields, "columns").and_then(Value::as_array);
    let columns = columns.and_then(|columns| columns.iter().map(field).collect());
    columns.ok_or_else(|| malformed("a write without columns"))
}

/// Parses the micro-batch from the values of Spark's local properties.
fn micro_batch(fields: &Map<String, Value>) -> Result<MicroBatch> {
    let text = |name: &str| non_null(fields, name).and_then(Value::as_str);
    MicroBatch::parse(text("query"), text("number"))
}

fn count(fields: &Map<String, Value>, name: &str) -> Result<u64> {
    let number = number(fields, name)?.and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| malformed(&format!("a write without {name}")))
}

fn tasks(fields: &Map<String, Value>) -> Result<Tasks> {
    Ok(Tasks { fields: columns(fields)?, batch: micro_batch(fields)?, count: count(fields, "tasks")? })
}

fn task_id(fields: &Map<String, Value>) -> Result<Option<TaskId>> {
    let task = || Ok(TaskId { batch: micro_batch(fields)?, task: count(fields, "task")? });
    non_null(fields, "task").map(|_| task()).transpose()
}

/// Formats `{"columns":["value",...],"exactly_once":false}`. The columns are in the order in which rows contain them.
pub(crate) fn write_response(columns: &[Column], exactly_once: bool) -> String {
    let names: Vec<String> = columns.iter().map(|column| format!(r#""{}""#, column.name())).collect();
    format!(r#"{{"columns":[{}],"exactly_once":{exactly_once}}}"#, names.join(","))
}

/// Formats `{"schemas":{"value":{...}}}`.
pub(crate) fn write_schemas_response(schemas: &WriterSchemas) -> String {
    let schemas: Map<String, Value> = schemas.iter().map(|(name, schema)| (name.clone(), schema.json())).collect();
    format!(r#"{{"schemas":{}}}"#, Value::Object(schemas))
}

/// Formats `{"columns":[{"name":"key","type":"binary","nullable":true},...],"found":{...}}`. The type is that of
/// [`Column::kind`] or, for decoded columns, a text that contains Spark's JSON.
pub(crate) fn schema_response(
    columns: &[OutputColumn],
    text: TextLayout,
    types: &BTreeMap<&'static str, SparkType>,
    schemas: &ReaderSchemas,
) -> String {
    let format = |column: &OutputColumn| {
        let kind = match column {
            OutputColumn::Column(column) => match types.get(column.name()) {
                Some(kind) => kind.json().to_string(),
                None => column.kind(text).to_owned(),
            },
            OutputColumn::Raw(_) => "binary".to_owned(),
            OutputColumn::Error(_) => "string".to_owned(),
        };
        format!(r#"{{"name":"{}","type":{},"nullable":true}}"#, column.name(), Value::from(kind))
    };
    let columns = columns.iter().map(format).collect::<Vec<_>>().join(",");
    let schemas: Map<String, Value> = schemas.iter().map(|(name, schema)| (name.clone(), schema.json())).collect();
    format!(r#"{{"columns":[{columns}],"found":{}}}"#, Value::Object(schemas))
}

/// Assumed size of a row for Spark's statistics, in bytes. It is large, so that Spark does not broadcast a topic by
/// mistake.
const BYTES_PER_ROW: i64 = 4096;

/// Formats `{"ranges":[{"topic":...,"partition":0,"start":0,"end":9},...],"rows":9,"bytes":36864}`.
pub(crate) fn ranges_response(ranges: &[OffsetRange]) -> String {
    let format = |range: &OffsetRange| {
        let topic = Value::from(&*range.tp.topic);
        let (partition, start, end) = (range.tp.partition, range.start, range.end);
        format!(r#"{{"topic":{topic},"partition":{partition},"start":{start},"end":{end}}}"#)
    };
    let rows = ranges.iter().map(OffsetRange::size).fold(0, i64::saturating_add);
    let list = ranges.iter().map(format).collect::<Vec<_>>().join(",");
    format!(r#"{{"ranges":[{list}],"rows":{rows},"bytes":{}}}"#, rows.saturating_mul(BYTES_PER_ROW))
}

/// Formats `{"ranges":[{"topic":...,"partition":0,"start":0,"end":null},...]}`.
pub(crate) fn open_response(starts: &Offsets) -> String {
    let format = |(tp, start): (&TopicPartition, &i64)| {
        format!(r#"{{"topic":{},"partition":{},"start":{start},"end":null}}"#, Value::from(&*tp.topic), tp.partition)
    };
    format!(r#"{{"ranges":[{}]}}"#, starts.iter().map(format).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_requests() {
        let tp = TopicPartition::new("t", 0);
        let at = |offset| Offsets::from([(tp.clone(), offset)]);
        let latest = |start, limit, freeze| Request::Latest { start, limit, freeze };
        let value = || vec![Field { name: "value".to_owned(), kind: "string".to_owned(), data_type: None }];
        let batch = || MicroBatch { query: "q".to_owned(), number: 3 };
        let filters = Predicates {
            topics: Some(["t".to_owned()].into()),
            partitions: Some([0, 2].into()),
            windows: Some([(tp.clone(), (Some(3), None))].into()),
            offsets: (Some(1), Some(9)),
            since: Some(7),
        };
        let cases = [
            (r#"{"ask":"schema"}"#, Request::Schema { requested: BTreeMap::new() }),
            (
                r#"{"ask":"schema","chosen":{"value":"\"long\""}}"#,
                Request::Schema { requested: [("value".to_owned(), SparkType::Plain("long".to_owned()))].into() },
            ),
            (r#"{"ask":"batch"}"#, Request::Batch(Predicates::default())),
            (
                r#"{"ask":"batch","partitions":[["t",0,3]],"from_time":5,"limit":null,"filters":{"topics":["t"],
                   "partitions":[0,2],"offset_from":1,"offset_until":9,"time_from":7}}"#,
                Request::Batch(filters),
            ),
            (r#"{"ask":"token"}"#, Request::Token),
            (r#"{"ask":"initial"}"#, Request::Initial(StartCheckpoint::NotStored)),
            (r#"{"ask":"initial","kept":null,"keeps":true}"#, Request::Initial(StartCheckpoint::New)),
            (
                r#"{"ask":"initial","kept":{"t":{"0":5}},"keeps":true}"#,
                Request::Initial(StartCheckpoint::Stored(at(5))),
            ),
            (r#"{"ask":"latest","start":null,"limit":null,"freeze":true}"#, latest(None, Limit::Everything, true)),
            (
                r#"{"ask":"latest","start":{"t":{"0":5}},"limit":{"rows":4,"files":null}}"#,
                latest(Some(at(5)), Limit::Offsets(4), false),
            ),
            (r#"{"ask":"latest","limit":{"rows":null}}"#, latest(None, Limit::Options, false)),
            (
                r#"{"ask":"ranges","start":{"t":{"0":5}},"end":{"t":{"0":6}}}"#,
                Request::Ranges { start: at(5), end: at(6) },
            ),
            (r#"{"ask":"open","start":{"t":{"0":5}}}"#, Request::Open { start: at(5) }),
            (r#"{"ask":"evolution","found":{}}"#, Request::Evolution(ReaderSchemas::new())),
            (r#"{"ask":"commit","end":{"t":{"0":6}}}"#, Request::Commit { end: at(6) }),
            (r#"{"ask":"write","columns":[["value","string"]]}"#, Request::Write { fields: value(), batch: false }),
            (r#"{"ask":"write","columns":[],"batch":true}"#, Request::Write { fields: Vec::new(), batch: true }),
            (
                r#"{"ask":"write_task","columns":[["value","string"]]}"#,
                Request::WriteTask { fields: value(), task: None, partition: None, schemas: WriterSchemas::new() },
            ),
            (
                r#"{"ask":"write_task","columns":[["value","string"]],"query":"q","number":"3","task":1,"partition":1,
                   "schemas":{"key":{"needed":[],"links":[]}}}"#,
                Request::WriteTask {
                    fields: value(),
                    task: Some(TaskId { batch: batch(), task: 1 }),
                    partition: Some(1),
                    schemas: [("key".to_owned(), WriterSchema::default())].into(),
                },
            ),
            (
                r#"{"ask":"write_schemas","columns":[["value","bigint","\"long\""]]}"#,
                Request::WriteSchemas {
                    fields: vec![Field {
                        name: "value".to_owned(),
                        kind: "bigint".to_owned(),
                        data_type: Some(SparkType::Plain("long".to_owned())),
                    }],
                    earlier: WriterSchemas::new(),
                },
            ),
            (
                r#"{"ask":"begin_write","columns":[["value","string"]],"query":"q","number":"3","tasks":2}"#,
                Request::BeginWrite(Tasks { fields: value(), batch: batch(), count: 2 }),
            ),
            (
                r#"{"ask":"end_write","columns":[["value","string"]],"query":"q","number":"3","tasks":2}"#,
                Request::EndWrite(Tasks { fields: value(), batch: batch(), count: 2 }),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(Request::parse(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn rejects_malformed_requests() {
        for text in [
            "",
            "[]",
            r#"{"ask":"why"}"#,
            r#"{"ask":"batch","partitions":[[0]]}"#,
            r#"{"ask":"batch","filters":[]}"#,
            r#"{"ask":"batch","filters":{"topics":["t",5]}}"#,
            r#"{"ask":"batch","filters":{"partitions":[0,"1"]}}"#,
            r#"{"ask":"batch","filters":{"partitions":3}}"#,
            r#"{"ask":"latest","limit":{"rows":-1}}"#,
            r#"{"ask":"latest","freeze":"yes"}"#,
            r#"{"ask":"schema","chosen":{"value":"{}"}}"#,
            r#"{"ask":"ranges"}"#,
            r#"{"ask":"open"}"#,
            r#"{"ask":"write","columns":["a"]}"#,
            r#"{"ask":"begin_write","columns":[],"query":"q","number":"3"}"#,
            r#"{"ask":"write_task","columns":[],"query":"q","number":"3","task":-1}"#,
            r#"{"ask":"write_task","columns":[],"schemas":{"value":{}}}"#,
        ] {
            assert_eq!(Request::parse(text).unwrap_err().kind(), "configuration", "{text}");
        }
    }

    #[test]
    fn formats_responses() {
        let columns = [Column::Key, Column::Value, Column::Headers].map(OutputColumn::Column);
        let types = BTreeMap::from([("value", SparkType::Plain("long".to_owned()))]);
        let text = schema_response(&columns, TextLayout { key: true, value: false }, &types, &ReaderSchemas::new());
        let expected = r#"{"columns":[{"name":"key","type":"string","nullable":true},{"name":"value","type":"\"long\"","nullable":true},{"name":"headers","type":"headers","nullable":true}],"found":{}}"#;
        assert_eq!(text, expected);
        let expected = r#"{"columns":["value","key"],"exactly_once":true}"#;
        assert_eq!(write_response(&[Column::Value, Column::Key], true), expected);
        let range = OffsetRange { tp: TopicPartition::new("t", 1), start: 2, end: 5 };
        let expected = r#"{"ranges":[{"topic":"t","partition":1,"start":2,"end":5}],"rows":3,"bytes":12288}"#;
        assert_eq!(ranges_response(&[range]), expected);
        let expected = r#"{"ranges":[{"topic":"t","partition":0,"start":5,"end":null}]}"#;
        assert_eq!(open_response(&[(TopicPartition::new("t", 0), 5)].into()), expected);
    }
}
