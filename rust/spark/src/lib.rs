//! Planning of the Kafka source and sink for Spark: options, start and end of reads, tasks, micro-batches and the
//! columns of writes. This crate does not need Spark. The Python source and the JVM source share it.

pub mod bounds;
pub mod columns;
pub mod commit_markers;
mod commits;
pub mod driver;
pub mod error;
pub mod exactly_once;
mod kafka;
pub mod kafka_metadata;
pub mod local_options;
pub mod offsets;
mod option_values;
pub mod options;
mod plan;
pub mod planner;
pub mod predicates;
pub mod ranges;
pub mod rate_limit;
pub mod replay;
pub mod rpc;
mod suggest;
pub mod tokens;
pub mod typed;
pub mod write_options;

pub use driver::Driver;
pub use error::{Error, Result};
pub use options::ReadOptions;
pub use write_options::WriteOptions;
