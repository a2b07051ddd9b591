//! Decoding of record values into Arrow columns, and encoding back: Avro, JSON, Protobuf, and the primitive types of
//! Kafka's own serializers.
//!
//! The writer's schema and the reader's schema become a *plan*, which decodes the bytes of one value into one row. A
//! bad value leaves a null row and does not affect others. For encoding, a schema and the type of a column determine
//! the source of each part of a value; mismatches are reported before any row is encoded.

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
