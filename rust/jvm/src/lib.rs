//! Native library of the source and sink in Spark's JVM. JNI is limited to the module `native`; the rest is plain Rust,
//! tested as such.

pub mod clients;
pub mod column_layout;
mod consumer_pool;
mod deferred_free;
mod exactly_once_task;
pub mod failure;
pub mod handles;
mod idle_pool;
mod leak_counters;
pub mod log_queue;
mod memory_budget;
mod native;
mod producers;
pub mod range;
pub mod reader;
mod row_block;
mod runtime;
mod value_decoding;
pub mod writer;

/// Version of the native functions and of the column layout; a jar and a library must have the same.
pub const ABI: u32 = 5;

/// Returns the version and the counters of the library as JSON.
pub fn about(readers: usize, writers: usize) -> String {
    let [created, freed, memory] = leak_counters::counts();
    let version = env!("CARGO_PKG_VERSION");
    let granted = memory_budget::BUDGET.granted();
    format!(
        r#"{{"version":"{version}","abi":{ABI},"readers":{readers},"writers":{writers},"made":{created},"freed":{freed},"memory":{memory},"granted":{granted}}}"#
    )
}

/// glibc keeps up to 64 MiB of free memory in each of 8 arenas per core once buffers of this size were freed: two cores
/// held half a gigabyte beside their heap. mimalloc returns free memory (ADR 44).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
