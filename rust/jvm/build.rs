//! Empty build script, required for the features in `[build-dependencies]`.

fn main() {}
