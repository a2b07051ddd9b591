//! Protocol Buffers: proto2, proto3 and editions up to 2024.

mod decode;
mod descriptor;
mod encode;
mod file;
mod frame;
mod json;
mod known;
mod leaf;
mod lexer;
mod link;
mod merge;
mod options;
mod parse;
pub(crate) mod plan;
pub(crate) mod reader;
pub mod schema;
mod skip;
mod target;
mod times;

pub(crate) use encode::Source;
pub use encode::Writer;
pub use frame::{MessageIndexes, Which, split};
pub use schema::Schema;
