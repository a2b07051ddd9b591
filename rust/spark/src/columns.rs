//! Columns of the source: the columns of Spark's own Kafka connector, in its order and with its types, and the
//! additional columns of typed keys and values.

use std::collections::BTreeSet;

use samsarrow_values::Part;

use crate::error::{Error, Result};
use crate::option_values::{RawOptions, boolean, get, quoted};
use crate::typed::{SparkType, Typed};

/// Column of Spark's Kafka connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    Key,
    Value,
    Topic,
    Partition,
    Offset,
    /// Timestamp of the record: its create time or its append time.
    Timestamp,
    /// Type of the timestamp: 0 for the create time, 1 for the append time.
    TimestampType,
    /// Header names and values, in the order of the record's headers.
    Headers,
}

/// All columns, in the order of Spark's connector.
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
    /// Returns the name of the column in Spark's schema, such as `timestampType`.
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

    /// Returns the column's type in Spark: `binary`, `string`, `int`, `long`, `timestamp` or `headers`.
    pub fn kind(self, text: TextLayout) -> &'static str {
        match self {
            Self::Key => value_type(text.key),
            Self::Value => value_type(text.value),
            Self::Topic => "string",
            Self::Partition | Self::TimestampType => "int",
            Self::Offset => "long",
            Self::Timestamp => "timestamp",
            Self::Headers => "headers",
        }
    }

    /// Returns the column with this name. Ignores ASCII case.
    pub fn from_name(name: &str) -> Option<Self> {
        COLUMNS.into_iter().find(|column| column.name().eq_ignore_ascii_case(name))
    }
}

/// Column that the source returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputColumn {
    /// A column of Spark's connector. If it is a key or a value, it may be decoded.
    Column(Column),
    /// The raw bytes of a typed key or value.
    Raw(Part),
    /// The error that occurred when a typed key or value was decoded.
    Error(Part),
}

impl OutputColumn {
    /// Returns the name of the output column, such as `value`, `raw_value` or `value_error`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Column(column) => column.name(),
            Self::Raw(Part::Key) => "raw_key",
            Self::Raw(Part::Value) => "raw_value",
            Self::Error(Part::Key) => "key_error",
            Self::Error(Part::Value) => "value_error",
        }
    }

    /// Returns the column with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        let extra = [Part::Key, Part::Value].into_iter().flat_map(|part| [Self::Raw(part), Self::Error(part)]);
        Column::from_name(name).map(Self::Column).or_else(|| extra.into_iter().find(|column| column.name() == name))
    }

    /// Returns `Key` or `Value` if the column is derived from the key or value of the record, and `None` otherwise.
    pub fn part(self) -> Option<Part> {
        match self {
            Self::Column(Column::Key) => Some(Part::Key),
            Self::Column(Column::Value) => Some(Part::Value),
            Self::Column(_) => None,
            Self::Raw(part) | Self::Error(part) => Some(part),
        }
    }
}

/// A column of the DataFrame to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// Type of the column, as Spark displays it.
    pub kind: String,
    /// Type of the column, if the caller knows it. Columns that are encoded need it.
    pub data_type: Option<SparkType>,
}

/// Returns two lists: the columns of Spark's connector that the options select, and all columns of the output,
/// including the additional columns of typed keys and values.
pub(crate) fn output(options: &mut RawOptions, typed: &[Typed]) -> Result<(Vec<Column>, Vec<OutputColumn>)> {
    let extra: Vec<OutputColumn> = typed.iter().flat_map(Typed::extra_columns).collect();
    let mut names: Vec<String> = Vec::new();
    if let Some(text) = options.get_mut("columns") {
        names = text.split(',').map(|name| name.trim().to_lowercase()).collect();
        let is_extra = |name: &String| extra.iter().any(|column| column.name() == name);
        if names.iter().any(is_extra) {
            if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
                return Err(Error::configuration(format!("option columns names a column twice: {}", quoted(text))));
            }
            let connector: Vec<&str> = names.iter().filter(|name| !is_extra(name)).map(String::as_str).collect();
            // The list of the connector's columns must not be empty.
            *text = if connector.is_empty() { Column::Offset.name().to_owned() } else { connector.join(",") };
        }
    }
    let columns = connector_columns(options)?;
    let all: Vec<OutputColumn> = columns.iter().copied().map(OutputColumn::Column).chain(extra).collect();
    let named = |name: &String| all.iter().find(|column| column.name().eq_ignore_ascii_case(name)).copied();
    let output: Vec<OutputColumn> = names.iter().filter_map(named).collect();
    Ok((columns, if output.is_empty() { all } else { output }))
}

fn value_type(text: bool) -> &'static str {
    if text { "string" } else { "binary" }
}

/// Determines which of the columns key and value have the type string.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TextLayout {
    /// True if the key is a string.
    pub key: bool,
    /// True if the value is a string.
    pub value: bool,
}

/// Returns the columns of Spark's connector that the options select.
fn connector_columns(options: &RawOptions) -> Result<Vec<Column>> {
    let with_headers = boolean(options, "includeHeaders", false)?;
    let Some(text) = get(options, "columns") else {
        return Ok(COLUMNS.into_iter().filter(|column| *column != Column::Headers || with_headers).collect());
    };
    let mut columns = Vec::new();
    for name in text.split(',').map(str::trim) {
        let column = Column::from_name(name).ok_or_else(|| {
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

/// Parses the option `layout`: `binary`, `string`, or `key:string,value:binary`.
pub(crate) fn layout(options: &RawOptions) -> Result<TextLayout> {
    let mut layouts = get(options, "layout").unwrap_or("binary").trim().to_lowercase();
    if layouts == "binary" || layouts == "string" {
        layouts = format!("key:{layouts},value:{layouts}");
    }
    let mut text = TextLayout::default();
    for part in layouts.split(',') {
        let (column, layout) = part.split_once(':').unwrap_or((part, ""));
        match (column.trim(), layout.trim()) {
            ("key" | "value", "binary") => {}
            ("key", "string") => text.key = true,
            ("value", "string") => text.value = true,
            _ => {
                return Err(Error::configuration(format!(
                    "option layout must be binary, string, or one for each like key:string,value:binary, not {}",
                    quoted(&layouts)
                )));
            }
        }
    }
    Ok(text)
}
