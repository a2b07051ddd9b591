//! JSON according to RFC 8259.

mod base64;
mod decode;
mod error;
mod field_index;
mod infer;
mod json_schema;
mod non_finite;
mod number;
mod plan;
mod project;
pub(crate) mod reader;
mod scan;
mod schema;
mod temporal;
mod uri;
mod value;

pub(crate) use error::JsonError;
pub use infer::Inference;
pub use non_finite::check_finite;
pub use schema::{Schema, is_full_time, is_json, is_omitted};
