//! Native library of the source and sink in Spark's JVM. Only the module `native` uses JNI. All other modules are plain
//! Rust and tested without a JVM.

pub mod clients;
pub mod column_layout;
mod consumer_pool;
mod dead_letters;
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
mod typed_columns;
mod unsafe_rows;
mod value_decoding;
pub mod writer;

/// Version of the native functions and of the column layout. It must be the same in the jar and in the library.
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

/// With glibc, up to 64 MiB of freed memory stayed in each of 8 arenas per core after buffers of this size had been
/// freed: half a gigabyte on two cores. mimalloc returns freed memory to the system (ADR 44).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
