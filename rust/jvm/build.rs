//! Nothing to do: this is here for the features in `[build-dependencies]`.

fn main() {}
