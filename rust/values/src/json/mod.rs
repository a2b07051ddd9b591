//! JSON according to RFC 8259.

mod decode;
mod finite;
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
mod uri;
mod wrong;

pub use finite::check_finite;
pub use infer::Inference;
pub use schema::{Schema, is_full_time, is_json, is_omitted};
pub(crate) use wrong::Wrong;
