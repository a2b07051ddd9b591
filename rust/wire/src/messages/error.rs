//! Errors from encoding and decoding messages.

/// Error from encoding a message in the requested version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The field does not exist in this version and differs from its default.
    #[error("{field} cannot be sent with version {version}: the field does not exist there")]
    FieldAbsent { field: &'static str, version: i16 },
    /// The field is null but not nullable in this version.
    #[error("{field} cannot be null in version {version}")]
    Null { field: &'static str, version: i16 },
    /// The length of the field is larger than its length prefix can represent.
    #[error("a {what} of {length} bytes or elements is too long for the wire")]
    TooLong { what: &'static str, length: usize },
    /// A string exceeds the protocol's maximum length, which is the same in all versions.
    #[error("{field} has {length} bytes, but strings in Kafka's protocol have at most {max}: shorten it", max = i16::MAX)]
    TextTooLong { field: &'static str, length: usize },
    /// The requested version of the API does not exist.
    #[error("{api} has versions {min} to {max}, not {version}")]
    Version { api: &'static str, version: i16, min: i16, max: i16 },
}

impl EncodeError {
    /// Adds the name of the field, unless the error already has one.
    pub(crate) fn within(self, name: &'static str) -> Self {
        match self {
            Self::TextTooLong { field: "", length } => Self::TextTooLong { field: name, length },
            other => other,
        }
    }
}

/// Causes of a decode error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeErrorKind {
    #[error("{needed} bytes are needed, {left} are left")]
    Truncated { needed: usize, left: usize },
    #[error("a count of {count} does not fit into the {left} bytes that are left")]
    Count { count: i64, left: usize },
    #[error("invalid length {0}")]
    Length(i64),
    #[error("null is not allowed here")]
    Null,
    #[error("the text is not UTF-8")]
    Utf8,
    #[error("a varint has more than 32 bits")]
    Varint,
    #[error("{left} bytes are left over after the message")]
    Trailing { left: usize },
    #[error("the message would take more than {limit} bytes of memory, too much for its length")]
    Memory { limit: usize },
    #[error("version {version} is unknown, {min} to {max} are known")]
    Version { version: i16, min: i16, max: i16 },
}

/// A decode error: its message, field, position and cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// API and version of the message, if known.
    pub message: Option<(&'static str, i16)>,
    /// `Struct.field`; empty if the error does not concern a single field.
    pub field: &'static str,
    /// Position in the input.
    pub at: usize,
    /// The cause.
    pub kind: DecodeErrorKind,
}

impl DecodeError {
    pub(crate) fn within(mut self, field: &'static str) -> Self {
        if self.field.is_empty() {
            self.field = field;
        }
        self
    }

    pub(crate) fn of(mut self, api: &'static str, version: i16) -> Self {
        self.message = Some((api, version));
        self
    }
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some((api, version)) = self.message {
            write!(f, "{api} version {version}, ")?;
        }
        if !self.field.is_empty() {
            write!(f, "{} ", self.field)?;
        }
        write!(f, "at byte {}: {}", self.at, self.kind)
    }
}

impl std::error::Error for DecodeError {}
