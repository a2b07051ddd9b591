//! Why a message cannot be written, and what is wrong with bytes that should be one.

/// A message cannot be written at the version asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The field has a value, and this version has no place for it.
    #[error("{field} cannot be sent with version {version}: the field does not exist there")]
    FieldAbsent { field: &'static str, version: i16 },
    /// The field is null, and this version does not allow that.
    #[error("{field} cannot be null in version {version}")]
    Null { field: &'static str, version: i16 },
    /// A length that the wire cannot express.
    #[error("a {what} of {length} bytes or elements is too long for the wire")]
    TooLong { what: &'static str, length: usize },
    /// Text that is longer than Kafka's messages may have it, in any version.
    #[error("{field} has {length} bytes, and a text in Kafka's messages has {max} at most: shorten it", max = i16::MAX)]
    TextTooLong { field: &'static str, length: usize },
    /// Not a version of this API.
    #[error("{api} has versions {min} to {max}, not {version}")]
    Version { api: &'static str, version: i16, min: i16, max: i16 },
}

impl EncodeError {
    /// Names the field that is at fault, where none is named yet.
    pub(crate) fn within(self, name: &'static str) -> Self {
        match self {
            Self::TextTooLong { field: "", length } => Self::TextTooLong { field: name, length },
            other => other,
        }
    }
}

/// What is wrong with bytes that should be a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeErrorKind {
    #[error("{needed} bytes are needed, {left} are left")]
    Truncated { needed: usize, left: usize },
    #[error("a count of {count} does not fit into the {left} bytes that are left")]
    Count { count: i64, left: usize },
    #[error("a length of {0} is impossible")]
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

/// Bytes that are not the message they should be: which message, which field, where, why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecodeError {
    /// The API and its version, where they are known.
    pub message: Option<(&'static str, i16)>,
    /// `Struct.field`, or nothing where no field is at fault.
    pub field: &'static str,
    /// Position in the bytes given.
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
