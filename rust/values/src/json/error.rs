//! Errors in a JSON text, or in a value that does not fit its column.

/// Error in a JSON text. Byte positions are counted from the end of the text until [`JsonError::with_position`]
/// converts them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JsonError {
    #[error("the value is empty, which is not JSON")]
    Empty,
    #[error("{0} bytes follow the value")]
    Trailing(usize),
    #[error("expected {expected}, found {found} at byte {at}")]
    Unexpected { expected: &'static str, found: Found, at: usize },
    #[error("a string has a control character at byte {0}, which must be escaped")]
    Control(usize),
    #[error("a string has an escape at byte {0} that JSON does not have")]
    Escape(usize),
    #[error("a string has half of a surrogate pair at byte {0}")]
    Surrogate(usize),
    #[error("objects and arrays are nested more than {0} deep")]
    Depth(usize),
    #[error("null, and the column is not nullable")]
    Null,
    #[error("it is missing, and the column is not nullable")]
    Missing,
    #[error("the number is out of the range of {0}")]
    Range(&'static str),
    #[error("the number is not an integer")]
    NotAnInteger,
    #[error("the number has more digits after the decimal point than the {0} of its column")]
    Scale(i8),
    #[error("the number has more than {0} digits")]
    Digits(u8),
    #[error("the text is no {0}")]
    Text(&'static str),
    #[error("{0} bytes are not the {1} of the column")]
    Size(usize, usize),
    #[error("JSON has no {0}: make it null, or text")]
    NotFinite(&'static str),
}

/// Token that was found instead of the expected one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    Null,
    Boolean,
    /// A word other than `true`, `false` and `null`.
    Letters,
    Byte(u8),
}

impl Found {
    pub(crate) fn at(rest: &[u8]) -> Found {
        let is = |word: &[u8]| {
            rest.strip_prefix(word).is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
        };
        match rest.first() {
            _ if is(b"null") => Found::Null,
            _ if is(b"true") || is(b"false") => Found::Boolean,
            Some(byte) if byte.is_ascii_alphabetic() => Found::Letters,
            first => Found::Byte(first.copied().unwrap_or_default()),
        }
    }
}

impl std::fmt::Display for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = match self {
            Found::Null => "null",
            Found::Boolean => "a boolean",
            Found::Letters => "text without quotes",
            Found::Byte(b'"') => "a string",
            Found::Byte(b'{') => "an object",
            Found::Byte(b'[') => "an array",
            Found::Byte(b'-' | b'0'..=b'9') => "a number",
            Found::Byte(byte @ b'!'..=b'~') => return write!(f, "{:?}", char::from(*byte)),
            Found::Byte(byte) => return write!(f, "the byte {byte:#04x}"),
        };
        f.write_str(name)
    }
}

impl JsonError {
    /// Converts byte positions, so that they are counted from the start of a text with `len` bytes.
    pub(crate) fn with_position(self, len: usize) -> JsonError {
        match self {
            JsonError::Unexpected { expected, found, at } => {
                JsonError::Unexpected { expected, found, at: len.saturating_sub(at) }
            }
            JsonError::Control(at) => JsonError::Control(len.saturating_sub(at)),
            JsonError::Escape(at) => JsonError::Escape(len.saturating_sub(at)),
            JsonError::Surrogate(at) => JsonError::Surrogate(len.saturating_sub(at)),
            other => other,
        }
    }
}
