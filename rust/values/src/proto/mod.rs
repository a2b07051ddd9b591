//! Protocol Buffers: proto2, proto3 and editions up to 2024.

mod arrow_types;
mod builtin_files;
mod decode;
mod descriptor;
mod encode;
mod file;
mod framing;
mod json;
mod lexer;
mod merge;
mod options;
mod parse;
pub(crate) mod plan;
pub(crate) mod reader;
mod resolve_names;
mod scalar;
pub mod schema;
mod skip;
mod time;

pub(crate) use encode::Source;
pub use encode::Writer;
pub(crate) use framing::id;
pub use framing::{MessageIndexes, Which, split};
pub use schema::Schema;
