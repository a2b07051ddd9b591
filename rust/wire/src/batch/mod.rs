//! Record batches, format v2.
pub mod control;
pub mod encode;
pub mod header;
pub mod records;
