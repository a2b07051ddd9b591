//! Fuzzing of untrusted input. [`TARGETS`] are the functions that read bytes from the network or from files; each
//! panics if an invariant is violated. They run in `cargo fuzz` (see `fuzz/`) and, on stable Rust, in a [`session`],
//! whose inputs a structure-aware mutator generates.
mod bytes;
pub mod memory;
mod random;
mod seeds;
pub mod session;
mod targets;
mod tree;

pub use seeds::Seeds;
pub use targets::{Input, Stream, TARGETS, Target, corpus_folder, target};

/// Runs a target on an input without measuring memory. Used by `cargo fuzz`, which has a memory limit of its own.
pub fn run(name: &str, input: &[u8]) {
    if let Some(target) = target(name) {
        (target.run)(input);
    }
}
