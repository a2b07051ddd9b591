//! Fuzzing of untrusted input. [`TARGETS`] are the functions that read bytes from the network or from files; each
//! panics if an invariant is violated. They are driven by `cargo fuzz` (see `fuzz/`), and by [`session`] on stable
//! Rust, with inputs of a structure-aware mutator.
mod bytes;
pub mod memory;
mod random;
mod seeds;
pub mod session;
mod targets;
mod tree;

pub use seeds::Seeds;
pub use targets::{Input, Stream, TARGETS, Target, corpus_folder, target};

/// Runs a target on an input without measuring memory: for `cargo fuzz`, which has its own limits.
pub fn run(name: &str, input: &[u8]) {
    if let Some(target) = target(name) {
        (target.run)(input);
    }
}
