//! Consumer groups.
pub mod assignor;
pub mod coordinator;
