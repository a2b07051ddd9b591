//! Columns into the bytes of messages.

mod bind;
mod json;
mod run;
mod source;

pub use bind::Writer;
pub(crate) use source::Source;
