//! Avro according to version 1.12 of the specification.

mod canonical;
pub(crate) mod decode;
mod default;
mod derive;
pub(crate) mod encode;
mod logical;
mod parse;
pub(crate) mod plan;
pub(crate) mod project;
pub(crate) mod reader;
pub(crate) mod recursion;
pub(crate) mod resolve;
pub mod schema;
mod skip;

pub use derive::derive;
pub use schema::Schema;
