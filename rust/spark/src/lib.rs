//! What a Spark source and sink of Kafka decides, without Spark: options, where reading starts and ends, tasks,
//! micro-batches, columns that are written. The source in Python and that in Spark's JVM both ask it.

pub mod admission;
pub mod bounds;
pub mod brokers;
pub mod columns;
mod commits;
pub mod driver;
pub mod error;
pub mod exactly_once;
pub mod here;
mod kafka;
mod near;
pub mod notes;
pub mod offsets;
pub mod options;
mod plan;
pub mod planner;
pub mod predicates;
pub mod question;
pub mod ranges;
pub mod tokens;
pub mod typed;
mod values;
pub mod write_options;

pub use driver::Driver;
pub use error::{Error, Result};
pub use options::ReadOptions;
pub use write_options::WriteOptions;
