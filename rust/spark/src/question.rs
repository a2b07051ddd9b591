//! What a source asks, as JSON, and the shape of the answers.

use std::collections::{BTreeMap, BTreeSet};

use samsarrow_client::types::TopicPartition;
use serde_json::{Map, Value};

use crate::columns::{Column, Served, Text};
use crate::error::{Error, Result};
use crate::exactly_once::{MicroBatch, Place};
use crate::offsets::{Offsets, from_json};
use crate::planner::{Keeping, Limit};
use crate::predicates::{Predicates, Window};
use crate::ranges::OffsetRange;
use crate::typed::{Found, SparkType};
use crate::write_options::Field;

/// A question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Question {
    /// Which columns there are, and whether a choice of them can be.
    Schema {
        /// Types that `.schema(...)` gives to columns, by their names.
        chosen: BTreeMap<String, SparkType>,
    },
    /// Which ranges a batch reads.
    Batch(Predicates),
    /// Where a new query starts. A caller that has kept it says so, before all else.
    Initial(Keeping),
    /// Where the next micro-batch ends.
    Latest {
        /// Where the last one ended; None where Spark does not say (Python sources before 4.2), which takes all there is.
        start: Option<Offsets>,
        /// The most that it may take.
        limit: Limit,
        /// What comes later than now is not read (Trigger.AvailableNow).
        freeze: bool,
    },
    /// Which ranges a micro-batch reads.
    Ranges {
        /// Where it starts.
        start: Offsets,
        /// Where it ends.
        end: Offsets,
    },
    /// What a batch in real-time mode reads: all partitions from here on, for as long as it lasts.
    Open {
        /// Where it starts.
        start: Offsets,
    },
    /// Everything before these offsets is in the sink.
    Commit {
        /// The end of a finished micro-batch.
        end: Offsets,
    },
    /// What tasks log in with, where that is another login than the driver's.
    Token,
    /// Which of these columns are sent, and how.
    Write {
        /// Those that there are.
        fields: Vec<Field>,
        /// Whether it is a batch, not a stream.
        batch: bool,
    },
    /// A task's rows of a micro-batch are written.
    WriteTask {
        /// The columns that there are.
        fields: Vec<Field>,
        /// With `exactlyOnce`, where the task is.
        place: Option<Place>,
    },
    /// This many tasks are to write a micro-batch exactly once.
    BeginWrite(Tasks),
    /// They have.
    EndWrite(Tasks),
}

/// The tasks of a micro-batch that is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tasks {
    /// The columns that there are.
    pub fields: Vec<Field>,
    /// The micro-batch.
    pub batch: MicroBatch,
    /// How many they are.
    pub count: u64,
}

impl Question {
    /// The question that `text` asks.
    ///
    /// # Errors
    /// It is none, or has offsets of another source.
    pub fn parse(text: &str) -> Result<Question> {
        let parsed: Value = serde_json::from_str(text).map_err(|error| unclear(&error.to_string()))?;
        let fields = parsed.as_object().ok_or_else(|| unclear("not an object"))?;
        let offsets = |name: &str| from_json(fields.get(name).unwrap_or(&Value::Null));
        match fields.get("ask").and_then(Value::as_str) {
            Some("schema") => Ok(Question::Schema { chosen: types(fields, "chosen")? }),
            Some("batch") => predicates(fields).map(Question::Batch),
            Some("initial") => Ok(Question::Initial(match given(fields, "kept") {
                Some(kept) => Keeping::Kept(from_json(kept)?),
                None if flag(fields, "keeps")? => Keeping::New,
                None => Keeping::Never,
            })),
            Some("latest") => Ok(Question::Latest {
                start: given(fields, "start").map(from_json).transpose()?,
                limit: limit(fields)?,
                freeze: flag(fields, "freeze")?,
            }),
            Some("ranges") => Ok(Question::Ranges { start: offsets("start")?, end: offsets("end")? }),
            Some("open") => Ok(Question::Open { start: offsets("start")? }),
            Some("commit") => Ok(Question::Commit { end: offsets("end")? }),
            Some("token") => Ok(Question::Token),
            Some("write") => Ok(Question::Write { fields: written(fields)?, batch: flag(fields, "batch")? }),
            Some("write_task") => Ok(Question::WriteTask { fields: written(fields)?, place: place_of(fields)? }),
            Some("begin_write") => tasks(fields).map(Question::BeginWrite),
            Some("end_write") => tasks(fields).map(Question::EndWrite),
            other => Err(unclear(&format!("ask {}", other.unwrap_or("nothing")))),
        }
    }
}

/// The source and its library come together: this is nobody's mistake but ours.
fn unclear(what: &str) -> Error {
    Error::configuration(format!("the source asks its library what that does not know: {what}"))
}

fn given<'a>(fields: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    fields.get(name).filter(|value| !value.is_null())
}

/// False where it is not given.
fn flag(fields: &Map<String, Value>, name: &str) -> Result<bool> {
    let flag = |value: &Value| value.as_bool().ok_or_else(|| unclear(&format!("{name} {value}")));
    given(fields, name).map_or(Ok(false), flag)
}

fn number(fields: &Map<String, Value>, name: &str) -> Result<Option<i64>> {
    let number = |value: &Value| value.as_i64().ok_or_else(|| unclear(&format!("{name} {value}")));
    given(fields, name).map(number).transpose()
}

/// `{"value":"{\"type\":\"struct\",…}"}`: types as Spark writes them, in a text each. They are deeper than what
/// questions are made of.
fn types(fields: &Map<String, Value>, name: &str) -> Result<BTreeMap<String, SparkType>> {
    let Some(given) = given(fields, name).and_then(Value::as_object) else { return Ok(BTreeMap::new()) };
    let one = |(name, text): (&String, &Value)| Some((name.clone(), SparkType::read_text(text.as_str()?)?));
    let types: Option<_> = given.iter().map(one).collect();
    types.ok_or_else(|| unclear(&format!("types {given:?}")))
}

fn limit(fields: &Map<String, Value>) -> Result<Limit> {
    let Some(limit) = given(fields, "limit") else { return Ok(Limit::Everything) };
    let rows = number(limit.as_object().ok_or_else(|| unclear(&format!("limit {limit}")))?, "rows")?;
    let Some(rows) = rows else { return Ok(Limit::Options) };
    u64::try_from(rows).map(Limit::Offsets).map_err(|_| unclear(&format!("a limit of {rows} rows")))
}

fn predicates(fields: &Map<String, Value>) -> Result<Predicates> {
    let empty = Map::new();
    let filters = match given(fields, "filters") {
        Some(filters) => filters.as_object().ok_or_else(|| unclear(&format!("filters {filters}")))?,
        None => &empty,
    };
    // An entry that is left out would narrow what is read: each must be one.
    let list = |name: &str| {
        let list = |list: &'_ Value| list.as_array().cloned().ok_or_else(|| unclear(&format!("{name} {list}")));
        given(filters, name).map(list).transpose()
    };
    let topic = |topic: &Value| topic.as_str().map(str::to_owned).ok_or_else(|| unclear(&format!("topic {topic}")));
    let topics = list("topics")?.map(|list| list.iter().map(topic).collect::<Result<_>>()).transpose()?;
    let number_of = |p: &Value| p.as_i64().ok_or_else(|| unclear(&format!("partition {p}")));
    let partitions = list("partitions")?.map(|list| list.iter().map(number_of).collect::<Result<Vec<_>>>());
    // Numbers beyond an int are those of no partition.
    let partitions: Option<BTreeSet<i32>> =
        partitions.transpose()?.map(|list| list.into_iter().filter_map(|p| i32::try_from(p).ok()).collect());
    let since = [number(fields, "from_time")?, number(filters, "time_from")?].into_iter().flatten().max();
    Ok(Predicates {
        topics,
        partitions,
        places: given(fields, "partitions").map(places).transpose()?,
        offsets: (number(filters, "offset_from")?, number(filters, "offset_until")?),
        since,
    })
}

/// `[["topic", 0, from, until], ...]`, the last two as far as they are given.
fn places(list: &Value) -> Result<BTreeMap<TopicPartition, Window>> {
    let place = |place: &Value| {
        let topic = place.get(0)?.as_str()?;
        let partition = i32::try_from(place.get(1)?.as_i64()?).ok()?;
        let bound = |index: usize| place.get(index).and_then(Value::as_i64);
        Some((TopicPartition::new(topic, partition), (bound(2), bound(3))))
    };
    let places: Option<BTreeMap<_, _>> = list.as_array().and_then(|list| list.iter().map(place).collect());
    places.ok_or_else(|| unclear(&format!("partitions {list}")))
}

/// `[["value", "string"], ...]`.
fn written(fields: &Map<String, Value>) -> Result<Vec<Field>> {
    let text = |column: &Value, index: usize| Some(column.get(index)?.as_str()?.to_owned());
    let field = |column: &Value| Some(Field { name: text(column, 0)?, kind: text(column, 1)? });
    let columns = given(fields, "columns").and_then(Value::as_array);
    let columns = columns.and_then(|columns| columns.iter().map(field).collect());
    columns.ok_or_else(|| unclear("a write without columns"))
}

/// The micro-batch that Spark's local properties name.
fn micro_batch(fields: &Map<String, Value>) -> Result<MicroBatch> {
    let text = |name: &str| given(fields, name).and_then(Value::as_str);
    MicroBatch::parse(text("query"), text("number"))
}

fn count(fields: &Map<String, Value>, name: &str) -> Result<u64> {
    let number = number(fields, name)?.and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| unclear(&format!("a write without {name}")))
}

fn tasks(fields: &Map<String, Value>) -> Result<Tasks> {
    Ok(Tasks { fields: written(fields)?, batch: micro_batch(fields)?, count: count(fields, "tasks")? })
}

fn place_of(fields: &Map<String, Value>) -> Result<Option<Place>> {
    let place = || Ok(Place { batch: micro_batch(fields)?, task: count(fields, "task")? });
    given(fields, "task").map(|_| place()).transpose()
}

/// `{"columns":["value",...],"exactly_once":false}`, the columns in the order in which rows have them.
pub(crate) fn sent_answer(columns: &[Column], exactly_once: bool) -> String {
    let names: Vec<String> = columns.iter().map(|column| format!(r#""{}""#, column.name())).collect();
    format!(r#"{{"columns":[{}],"exactly_once":{exactly_once}}}"#, names.join(","))
}

/// `{"columns":[{"name":"key","type":"binary","nullable":true},...],"found":{...}}`. Types are those of
/// [`Column::kind`], and of what is decoded Spark's JSON, as text.
pub(crate) fn columns_answer(
    columns: &[Served],
    text: Text,
    types: &BTreeMap<&'static str, SparkType>,
    found: &Found,
) -> String {
    let one = |column: &Served| {
        let kind = match column {
            Served::Column(one) => match types.get(one.name()) {
                Some(kind) => kind.json().to_string(),
                None => one.kind(text).to_owned(),
            },
            Served::Raw(_) => "binary".to_owned(),
            Served::Error(_) => "string".to_owned(),
        };
        format!(r#"{{"name":"{}","type":{},"nullable":true}}"#, column.name(), Value::from(kind))
    };
    let columns = columns.iter().map(one).collect::<Vec<_>>().join(",");
    let found: Map<String, Value> = found.iter().map(|(name, schema)| (name.clone(), schema.json())).collect();
    format!(r#"{{"columns":[{columns}],"found":{}}}"#, Value::Object(found))
}

/// Bytes that a row is taken to have: many, so that Spark broadcasts no topic by mistake.
const BYTES_A_ROW: i64 = 4096;

/// `{"ranges":[{"topic":...,"partition":0,"start":0,"end":9},...],"rows":9,"bytes":36864}`.
pub(crate) fn ranges_answer(ranges: &[OffsetRange]) -> String {
    let one = |range: &OffsetRange| {
        let topic = Value::from(&*range.tp.topic);
        let (partition, start, end) = (range.tp.partition, range.start, range.end);
        format!(r#"{{"topic":{topic},"partition":{partition},"start":{start},"end":{end}}}"#)
    };
    let rows = ranges.iter().map(OffsetRange::size).fold(0, i64::saturating_add);
    let list = ranges.iter().map(one).collect::<Vec<_>>().join(",");
    format!(r#"{{"ranges":[{list}],"rows":{rows},"bytes":{}}}"#, rows.saturating_mul(BYTES_A_ROW))
}

/// `{"ranges":[{"topic":...,"partition":0,"start":0,"end":null},...]}`.
pub(crate) fn open_answer(starts: &Offsets) -> String {
    let one = |(tp, start): (&TopicPartition, &i64)| {
        format!(r#"{{"topic":{},"partition":{},"start":{start},"end":null}}"#, Value::from(&*tp.topic), tp.partition)
    };
    format!(r#"{{"ranges":[{}]}}"#, starts.iter().map(one).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read() {
        let tp = TopicPartition::new("t", 0);
        let at = |offset| Offsets::from([(tp.clone(), offset)]);
        let latest = |start, limit, freeze| Question::Latest { start, limit, freeze };
        let value = || vec![Field { name: "value".to_owned(), kind: "string".to_owned() }];
        let batch = || MicroBatch { query: "q".to_owned(), number: 3 };
        let filters = Predicates {
            topics: Some(["t".to_owned()].into()),
            partitions: Some([0, 2].into()),
            places: Some([(tp.clone(), (Some(3), None))].into()),
            offsets: (Some(1), Some(9)),
            since: Some(7),
        };
        let cases = [
            (r#"{"ask":"schema"}"#, Question::Schema { chosen: BTreeMap::new() }),
            (
                r#"{"ask":"schema","chosen":{"value":"\"long\""}}"#,
                Question::Schema { chosen: [("value".to_owned(), SparkType::Plain("long".to_owned()))].into() },
            ),
            (r#"{"ask":"batch"}"#, Question::Batch(Predicates::default())),
            (
                r#"{"ask":"batch","partitions":[["t",0,3]],"from_time":5,"limit":null,"filters":{"topics":["t"],
                   "partitions":[0,2],"offset_from":1,"offset_until":9,"time_from":7}}"#,
                Question::Batch(filters),
            ),
            (r#"{"ask":"token"}"#, Question::Token),
            (r#"{"ask":"initial"}"#, Question::Initial(Keeping::Never)),
            (r#"{"ask":"initial","kept":null,"keeps":true}"#, Question::Initial(Keeping::New)),
            (r#"{"ask":"initial","kept":{"t":{"0":5}},"keeps":true}"#, Question::Initial(Keeping::Kept(at(5)))),
            (r#"{"ask":"latest","start":null,"limit":null,"freeze":true}"#, latest(None, Limit::Everything, true)),
            (
                r#"{"ask":"latest","start":{"t":{"0":5}},"limit":{"rows":4,"files":null}}"#,
                latest(Some(at(5)), Limit::Offsets(4), false),
            ),
            (r#"{"ask":"latest","limit":{"rows":null}}"#, latest(None, Limit::Options, false)),
            (
                r#"{"ask":"ranges","start":{"t":{"0":5}},"end":{"t":{"0":6}}}"#,
                Question::Ranges { start: at(5), end: at(6) },
            ),
            (r#"{"ask":"open","start":{"t":{"0":5}}}"#, Question::Open { start: at(5) }),
            (r#"{"ask":"commit","end":{"t":{"0":6}}}"#, Question::Commit { end: at(6) }),
            (r#"{"ask":"write","columns":[["value","string"]]}"#, Question::Write { fields: value(), batch: false }),
            (r#"{"ask":"write","columns":[],"batch":true}"#, Question::Write { fields: Vec::new(), batch: true }),
            (
                r#"{"ask":"write_task","columns":[["value","string"]]}"#,
                Question::WriteTask { fields: value(), place: None },
            ),
            (
                r#"{"ask":"write_task","columns":[["value","string"]],"query":"q","number":"3","task":1}"#,
                Question::WriteTask { fields: value(), place: Some(Place { batch: batch(), task: 1 }) },
            ),
            (
                r#"{"ask":"begin_write","columns":[["value","string"]],"query":"q","number":"3","tasks":2}"#,
                Question::BeginWrite(Tasks { fields: value(), batch: batch(), count: 2 }),
            ),
            (
                r#"{"ask":"end_write","columns":[["value","string"]],"query":"q","number":"3","tasks":2}"#,
                Question::EndWrite(Tasks { fields: value(), batch: batch(), count: 2 }),
            ),
        ];
        for (text, wanted) in cases {
            assert_eq!(Question::parse(text).unwrap(), wanted, "{text}");
        }
    }

    #[test]
    fn what_is_no_question_is_an_error() {
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
        ] {
            assert_eq!(Question::parse(text).unwrap_err().kind(), "configuration", "{text}");
        }
    }

    #[test]
    fn answers_are_json() {
        let columns = [Column::Key, Column::Value, Column::Headers].map(Served::Column);
        let types = BTreeMap::from([("value", SparkType::Plain("long".to_owned()))]);
        let text = columns_answer(&columns, Text { key: true, value: false }, &types, &Found::new());
        let wanted = r#"{"columns":[{"name":"key","type":"string","nullable":true},{"name":"value","type":"\"long\"","nullable":true},{"name":"headers","type":"headers","nullable":true}],"found":{}}"#;
        assert_eq!(text, wanted);
        let wanted = r#"{"columns":["value","key"],"exactly_once":true}"#;
        assert_eq!(sent_answer(&[Column::Value, Column::Key], true), wanted);
        let range = OffsetRange { tp: TopicPartition::new("t", 1), start: 2, end: 5 };
        let wanted = r#"{"ranges":[{"topic":"t","partition":1,"start":2,"end":5}],"rows":3,"bytes":12288}"#;
        assert_eq!(ranges_answer(&[range]), wanted);
        let wanted = r#"{"ranges":[{"topic":"t","partition":0,"start":5,"end":null}]}"#;
        assert_eq!(open_answer(&[(TopicPartition::new("t", 0), 5)].into()), wanted);
    }
}
