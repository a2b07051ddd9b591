//! JSON, as RFC 8259 has it.

mod decode;
mod infer;
mod json_schema;
mod lookup;
mod number;
mod plan;
mod project;
pub(crate) mod reader;
mod scan;
mod schema;
mod temporal;
mod text;
mod tree;
mod wrong;

pub use infer::Inference;
pub use schema::Schema;
pub(crate) use wrong::Wrong;
