//! Consumer groups.
pub mod coordinator;
