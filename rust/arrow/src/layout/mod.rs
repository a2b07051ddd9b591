//! How values lie in memory.
pub mod binary;
pub mod view;
