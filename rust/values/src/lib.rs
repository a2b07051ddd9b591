//! Decoding of record values into Arrow columns, and encoding of columns as values: Avro, JSON, Protobuf, and the
//! primitive types of Kafka's own serializers.
//!
//! The writer's schema and the reader's schema are combined into a *plan*, which decodes the bytes of one value into
//! one row. If a value is bad, its row is null, and other rows are not affected. Before encoding, a schema is bound to
//! the type of a column. Binding finds the source of each part of a value, so that mismatches are reported before any
//! row is encoded.

mod arrow_types;
pub mod avro;
mod builders;
mod byte_reader;
mod dead_letters;
pub mod decoder;
pub mod encoder;
pub mod error;
mod format;
pub mod framing;
mod headers;
pub mod json;
mod layout;
mod others;
pub mod path;
pub mod primitive_serdes;
pub mod proto;
mod registry_kind;
pub mod writer_schemas;

pub use arrow_types::Enums;
pub use dead_letters::dead_letters;
pub use decoder::{Decoder, Options};
pub use encoder::Encoder;
pub use error::{BadValue, EncodeError, SchemaError, ValueError};
pub use format::Format;
pub use framing::{Framing, Part, SchemaId};
pub use headers::{Headers, with_header};
pub use registry_kind::RegistryKind;
pub use writer_schemas::Writers;
