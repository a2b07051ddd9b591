//! The columns that Spark sees: those of Spark's own Kafka connector, in its order and with its types; and those that
//! come with typed keys and values.

use std::collections::BTreeSet;

use samsarrow_values::Part;

use crate::error::{Error, Result};
use crate::typed::Typed;
use crate::values::{Given, boolean, get, quoted};

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// The record's key.
    Key,
    /// The record's value.
    Value,
    /// Its topic.
    Topic,
    /// Its partition.
    Partition,
    /// Its offset.
    Offset,
    /// When it was made or appended.
    Timestamp,
    /// Which of the two.
    TimestampType,
    /// Names and values in the order in which they were written.
    Headers,
}

/// All columns, in the connector's order.
pub const COLUMNS: [Column; 8] = [
    Column::Key,
    Column::Value,
    Column::Topic,
    Column::Partition,
    Column::Offset,
    Column::Timestamp,
    Column::TimestampType,
    Column::Headers,
];

impl Column {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
            Self::Topic => "topic",
            Self::Partition => "partition",
            Self::Offset => "offset",
            Self::Timestamp => "timestamp",
            Self::TimestampType => "timestampType",
            Self::Headers => "headers",
        }
    }

    /// Its type: `binary`, `string`, `int`, `long`, `timestamp` or `headers`.
    pub fn kind(self, text: Text) -> &'static str {
        match self {
            Self::Key => bytes_or_text(text.key),
            Self::Value => bytes_or_text(text.value),
            Self::Topic => "string",
            Self::Partition | Self::TimestampType => "int",
            Self::Offset => "long",
            Self::Timestamp => "timestamp",
            Self::Headers => "headers",
        }
    }

    /// The column of that name, if there is one; large and small letters are the same.
    pub fn named(name: &str) -> Option<Self> {
        COLUMNS.into_iter().find(|column| column.name().eq_ignore_ascii_case(name))
    }
}

/// A column that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Served {
    /// One of the connector's; a key or a value may be decoded.
    Column(Column),
    /// The bytes of what is decoded.
    Raw(Part),
    /// What is wrong with it.
    Error(Part),
}

impl Served {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Column(column) => column.name(),
            Self::Raw(Part::Key) => "raw_key",
            Self::Raw(Part::Value) => "raw_value",
            Self::Error(Part::Key) => "key_error",
            Self::Error(Part::Value) => "value_error",
        }
    }

    /// The column of that name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        let more = [Part::Key, Part::Value].into_iter().flat_map(|part| [Self::Raw(part), Self::Error(part)]);
        Column::named(name).map(Self::Column).or_else(|| more.into_iter().find(|one| one.name() == name))
    }

    /// What it is of: a key, a value, or neither.
    pub fn part(self) -> Option<Part> {
        match self {
            Self::Column(Column::Key) => Some(Part::Key),
            Self::Column(Column::Value) => Some(Part::Value),
            Self::Column(_) => None,
            Self::Raw(part) | Self::Error(part) => Some(part),
        }
    }
}

/// Those that the options choose, with those that come with typed keys and values.
pub(crate) fn served(given: &mut Given, typed: &[Typed]) -> Result<(Vec<Column>, Vec<Served>)> {
    let more: Vec<Served> = typed.iter().flat_map(Typed::more).collect();
    let mut names: Vec<String> = Vec::new();
    if let Some(text) = given.get_mut("columns") {
        names = text.split(',').map(|name| name.trim().to_lowercase()).collect();
        let is_more = |name: &String| more.iter().any(|column| column.name() == name);
        if names.iter().any(is_more) {
            if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
                return Err(Error::configuration(format!("option columns names a column twice: {}", quoted(text))));
            }
            let left: Vec<&str> = names.iter().filter(|name| !is_more(name)).map(String::as_str).collect();
            // One at least is wanted.
            *text = if left.is_empty() { Column::Offset.name().to_owned() } else { left.join(",") };
        }
    }
    let columns = chosen(given)?;
    let all: Vec<Served> = columns.iter().copied().map(Served::Column).chain(more).collect();
    let named = |name: &String| all.iter().find(|column| column.name().eq_ignore_ascii_case(name)).copied();
    let served: Vec<Served> = names.iter().filter_map(named).collect();
    Ok((columns, if served.is_empty() { all } else { served }))
}

fn bytes_or_text(text: bool) -> &'static str {
    if text { "string" } else { "binary" }
}

/// Which of key and value are served as text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Text {
    /// The key is.
    pub key: bool,
    /// The value is.
    pub value: bool,
}

/// Those that the options choose.
fn chosen(given: &Given) -> Result<Vec<Column>> {
    let with_headers = boolean(given, "includeHeaders", false)?;
    let Some(text) = get(given, "columns") else {
        return Ok(COLUMNS.into_iter().filter(|column| *column != Column::Headers || with_headers).collect());
    };
    let mut columns = Vec::new();
    for name in text.split(',').map(str::trim) {
        let column = Column::named(name).ok_or_else(|| {
            let all = COLUMNS.map(Column::name).join(", ");
            Error::configuration(format!("option columns: there is no column {}, only {all}", quoted(name)))
        })?;
        if columns.contains(&column) {
            return Err(Error::configuration(format!("option columns names a column twice: {}", quoted(text))));
        }
        columns.push(column);
    }
    Ok(columns)
}

/// Refuses formats of keys and values.
pub(crate) fn refuse_formats(given: &Given) -> Result<()> {
    match ["key.format", "value.format"].into_iter().find(|name| get(given, name).is_some()) {
        Some(name) => Err(Error::configuration(format!(
            "option {name} is for reads here: typed keys and values are written by format(\"samsarrow-python\")"
        ))),
        None => Ok(()),
    }
}

/// `binary`, `string`, or `key:string,value:binary`.
pub(crate) fn layout(given: &Given) -> Result<Text> {
    let mut wanted = get(given, "layout").unwrap_or("binary").trim().to_lowercase();
    if wanted == "binary" || wanted == "string" {
        wanted = format!("key:{wanted},value:{wanted}");
    }
    let mut text = Text::default();
    for part in wanted.split(',') {
        let (column, layout) = part.split_once(':').unwrap_or((part, ""));
        match (column.trim(), layout.trim()) {
            ("key" | "value", "binary") => {}
            ("key", "string") => text.key = true,
            ("value", "string") => text.value = true,
            _ => {
                return Err(Error::configuration(format!(
                    "option layout must be binary, string, or one for each like key:string,value:binary, not {}",
                    quoted(&wanted)
                )));
            }
        }
    }
    Ok(text)
}
