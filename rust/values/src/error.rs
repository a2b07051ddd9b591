//! Errors in schemas and values.

use std::fmt;

use crate::framing::SchemaId;

/// Error in a schema, or mismatch between two schemas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    /// Path of the field, such as `user.city`; empty for the whole schema.
    pub path: String,
    /// Description of the error, with advice if there is any.
    pub text: String,
}

impl SchemaError {
    /// Creates an error of the field `path`, which is empty for the whole schema.
    pub fn new(path: &str, text: impl Into<String>) -> Self {
        SchemaError { path: path.to_owned(), text: text.into() }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path.as_str() {
            "" => f.write_str(&self.text),
            path => write!(f, "field {path}: {}", self.text),
        }
    }
}

impl std::error::Error for SchemaError {}

/// A value that cannot be decoded and whose row is therefore null, or a row that cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadValue {
    /// Index of the invalid row within the array or column, from 0.
    pub row: usize,
    /// Id of the writer's schema, if known.
    pub schema: Option<SchemaId>,
    /// Path of the field, such as `user.city` or `items[3].sku`; empty for the whole value.
    pub path: String,
    /// Description of the error.
    pub reason: String,
}

impl BadValue {
    /// Returns the error message, preceded by `places`, the schema id and the field.
    pub fn described(&self, places: &[&str]) -> String {
        let schema = self.schema.map(|id| id.to_string());
        let field = (!self.path.is_empty()).then(|| format!("field {}", self.path));
        let known = places.iter().copied().chain(schema.as_deref()).chain(field.as_deref());
        match known.collect::<Vec<_>>().join(", ").as_str() {
            "" => self.reason.clone(),
            places => format!("{places}: {}", self.reason),
        }
    }
}

impl fmt::Display for BadValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}", self.row)?;
        if let Some(schema) = &self.schema {
            write!(f, ", {schema}")?;
        }
        if !self.path.is_empty() {
            write!(f, ", field {}", self.path)?;
        }
        write!(f, ": {}", self.reason)
    }
}

/// Reason why no valid row was appended for a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// The value cannot be decoded, and its row is null.
    #[error("{0}")]
    Bad(Box<BadValue>),
    /// A column is full. The value has no row in this array; it belongs to the next array.
    #[error(
        "a column has 2 GiB of data or 2,147,483,647 rows, the most that an Arrow array holds: decode fewer values at once"
    )]
    Full,
}

/// Reason why rows could not be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A row cannot be encoded.
    #[error("{0}")]
    Bad(Box<BadValue>),
    /// The column does not match the schema.
    #[error("{0}")]
    Schema(#[from] SchemaError),
}

/// Reason why a value cannot be decoded or encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Reason {
    #[error("the value ends too early")]
    Truncated,
    #[error("a number has more bits than its type")]
    Overlong,
    #[error("the length is {0}")]
    Negative(i64),
    #[error("{0} bytes are announced, and {1} are there")]
    Beyond(i64, usize),
    #[error("{0} bytes follow the value: it was written with another schema")]
    Trailing(usize),
    #[error("branch {0} of a union of {1}")]
    Branch(i64, usize),
    #[error("symbol {0} of an enum of {1}")]
    Symbol(i64, usize),
    #[error("the symbol {0} is not in the reader's enum, which has no default")]
    UnknownSymbol(Box<str>),
    #[error("a boolean is the byte {0}")]
    Boolean(u8),
    #[error("the text is not UTF-8")]
    Utf8,
    #[error("the text is no UUID")]
    Uuid,
    #[error("a block of {0} items cannot be in the {1} bytes that are left")]
    Count(i64, usize),
    #[error("a block announces {0} bytes, but has {1}")]
    BlockSize(i64, usize),
    #[error("it would decode to more than {0} bytes of columns")]
    TooLarge(u64),
    #[error("the decimal has more than {0} digits, or no bytes")]
    Decimal(u8),
    #[error("a number of months, days or milliseconds is beyond Arrow's interval")]
    Duration,
    #[error("the time is out of the range of the reader's unit")]
    TimeUnit,
    #[error("{0} bytes are no {1}")]
    Length(usize, &'static str),
    #[error("it is null, and the schema has no null here")]
    Null,
    #[error("{0} bytes, and the fixed has {1}")]
    Size(usize, usize),
    #[error("{0:?} is not one of the enum's symbols")]
    NoSymbol(Box<str>),
    #[error("both {0} and {1} are set, and a union has one of its members")]
    Members(Box<str>, Box<str>),
    #[error("{0} is no multiple of {1}: in the schema's unit it would lose digits")]
    Inexact(i64, i64),
    #[error("the decimal has more than {0} digits")]
    Digits(u8),
    #[error("months, days or milliseconds are negative, or beyond 32 bits")]
    Negated,
    #[error("the value would have more than {0} bytes")]
    Long(usize),
    #[error("it is nested more than {0} times, the depth that `recursion` sets")]
    Deeper(usize),
    #[error("{0}")]
    Json(crate::json::JsonError),
    #[error("{0}")]
    Other(Box<str>),
    /// Signals that repeated fields have to be merged before the value can be read. This is not an error of the value.
    #[error("a field comes more than once")]
    Again,
    #[error("a column is full")]
    Full,
}

/// A reason with the path of the field. Faults are allocated only when a value fails.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) reason: Reason,
    pub(crate) path: String,
}

impl Fault {
    /// Prepends the name of a field to the path.
    pub(crate) fn within(mut self: Box<Self>, name: &str) -> Box<Self> {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("{name}{dot}{}", self.path);
        self
    }

    /// Prepends the index or key of an item to the path.
    pub(crate) fn at(mut self: Box<Self>, item: impl fmt::Display) -> Box<Self> {
        let dot = if self.path.is_empty() || self.path.starts_with('[') { "" } else { "." };
        self.path = format!("[{item}]{dot}{}", self.path);
        self
    }
}

impl From<Reason> for Box<Fault> {
    #[cold]
    fn from(reason: Reason) -> Self {
        Box::new(Fault { reason, path: String::new() })
    }
}

impl From<crate::json::JsonError> for Reason {
    #[cold]
    fn from(wrong: crate::json::JsonError) -> Self {
        Reason::Json(wrong)
    }
}

/// Result of one operation of a plan.
pub(crate) type Step<T = ()> = Result<T, Box<Fault>>;
