//! Values of records into Arrow columns, and back: Avro, JSON, Protobuf, and the plain types that Kafka's own serializers write.
//!
//! A schema that values were written with and the one that a program reads with become a *plan*, which turns the bytes of
//! one value into one row. A value that is bad leaves a null row, and all others as they are. Back, one schema and the type of
//! a column say where each part of a value comes from; what does not fit shows before any row.

pub mod avro;
mod builders;
pub mod decoder;
pub mod encoder;
pub mod error;
mod format;
pub mod frame;
mod headers;
mod input;
pub mod json;
mod others;
pub mod path;
pub mod plain;
pub mod proto;
mod target;
pub mod writers;

pub use decoder::{Decoder, Options};
pub use encoder::Encoder;
pub use error::{BadValue, EncodeError, SchemaError, ValueError};
pub use format::Format;
pub use frame::{Framing, Part, SchemaId};
pub use headers::{Headers, with_header};
pub use target::Enums;
pub use writers::Writers;
