//! Values of records into Arrow columns: Avro, Protobuf, and the plain types that Kafka's own serializers write.
//!
//! A schema that values were written with and the one that a program reads with become a *plan*, which turns the bytes of
//! one value into one row. A value that is bad leaves a null row, and all others as they are.

pub mod avro;
mod builders;
pub mod decoder;
pub mod error;
pub mod frame;
mod input;
pub mod plain;
pub mod proto;
mod target;

pub use decoder::{Decoder, Options};
pub use error::{BadValue, SchemaError, ValueError};
pub use frame::{Framing, Part, SchemaId};
pub use target::Enums;
