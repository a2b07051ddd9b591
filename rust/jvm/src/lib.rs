//! The native library of the source and sink in Spark's JVM. JNI is in `native` alone: all else is plain Rust and tested as such.

mod alive;
mod block;
mod budget;
pub mod clients;
mod decoded;
pub mod failure;
pub mod frame;
mod frame_headers;
mod frame_nested;
pub mod handles;
mod idle;
pub mod lines;
mod native;
mod once;
mod pool;
mod producers;
pub mod range;
pub mod reader;
mod rest;
mod runtime;
pub mod writer;

/// Of the functions and the frame: a jar and a library of different numbers do not go together.
pub const ABI: u32 = 5;

/// What the library is, and what of it is in use.
pub fn about(readers: usize, writers: usize) -> String {
    let [made, freed, memory] = alive::counts();
    let version = env!("CARGO_PKG_VERSION");
    let granted = budget::BUDGET.granted();
    format!(
        r#"{{"version":"{version}","abi":{ABI},"readers":{readers},"writers":{writers},"made":{made},"freed":{freed},"memory":{memory},"granted":{granted}}}"#
    )
}

/// glibc keeps up to 64 MiB of free memory in each of eight arenas a core, once buffers as large as ours were freed: two
/// cores held half a gigabyte beside their heap. This one gives back what is free (ADR 44).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
