//! Encoding of columns into Protobuf messages.

mod bind;
mod json;
mod run;
mod source;

pub use bind::Writer;
pub(crate) use source::Source;
