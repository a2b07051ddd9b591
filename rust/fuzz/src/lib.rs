//! Hostile bytes. [`TARGETS`] are what can be handed bytes off the wire or off a disk; each panics when a promise is
//! broken that goes beyond not panicking. `cargo fuzz` drives them (see `fuzz/`), and so does [`session`], on stable
//! Rust, with inputs of a mutator that knows the formats.
mod bytes;
pub mod memory;
mod random;
mod seeds;
pub mod session;
mod targets;
mod tree;

pub use seeds::Seeds;
pub use targets::{Input, Stream, TARGETS, Target, corpus_folder, target};

/// Runs a target on an input, memory not counted: for `cargo fuzz`, which has guards of its own.
pub fn run(name: &str, input: &[u8]) {
    if let Some(target) = target(name) {
        (target.run)(input);
    }
}
