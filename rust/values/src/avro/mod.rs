//! Avro, as its specification 1.12 has it.

mod canonical;
mod decode;
mod default;
mod logical;
mod parse;
pub(crate) mod plan;
pub(crate) mod project;
pub(crate) mod reader;
pub(crate) mod resolve;
pub mod schema;
mod skip;

pub use schema::Schema;
