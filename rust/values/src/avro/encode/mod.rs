//! Encoding of Arrow columns into Avro values.

mod bind;
mod leaf;
mod run;
mod source;
mod symbols;
mod unions;

pub(crate) use bind::valid;
pub(crate) use run::{at, unprefixed};
pub(crate) use source::Source;
