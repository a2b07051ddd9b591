//! Encoder of one column of a write.

use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray};
use samsarrow_values::{EncodeError, Encoder, Part, with_header};

use super::json_text::JsonTextEncoder;

/// Encoder of a column as keys or values.
#[derive(Debug)]
pub struct ValueEncoder {
    /// Key or value.
    pub part: Part,
    pub(super) encoder: Format,
    /// Value of the record header that identifies the schema.
    pub(super) header: Option<Vec<u8>>,
}

#[derive(Debug)]
pub(super) enum Format {
    /// All formats but JSON.
    Arrow(Encoder),
    Json(Box<JsonTextEncoder>),
}

impl Format {
    /// Returns the encoded Protobuf message indexes, which follow the schema id in a header.
    pub(super) fn indexes(&self) -> &[u8] {
        match self {
            Format::Arrow(encoder) => encoder.indexes(),
            Format::Json(_) => &[],
        }
    }
}

impl ValueEncoder {
    /// Encodes the rows of a column, in several arrays if they exceed 2 GiB. Null rows become null values.
    ///
    /// # Errors
    /// Fails if a row does not fit the schema.
    pub fn encode(&mut self, column: &ArrayRef) -> Result<Vec<BinaryArray>, EncodeError> {
        match &mut self.encoder {
            Format::Arrow(encoder) => encoder.encode(column),
            Format::Json(encoder) => encoder.encode(column),
        }
    }

    /// Returns true if a record header identifies the schema.
    pub fn writes_header(&self) -> bool {
        self.header.is_some()
    }

    /// Returns the value of the record header that identifies the schema.
    pub fn header(&self) -> Option<&[u8]> {
        self.header.as_deref()
    }

    /// Returns the headers with the header that identifies the schema, which tombstones do not have.
    ///
    /// # Errors
    /// Fails if the headers column has an unsuitable type.
    pub fn with_header(&self, headers: Option<&ArrayRef>, values: &ArrayRef) -> Result<Option<ArrayRef>, String> {
        match &self.header {
            Some(header) => with_header(headers, values, self.part.header(), header).map(Some),
            None => Ok(headers.map(Arc::clone)),
        }
    }
}
