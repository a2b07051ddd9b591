//! Zig-zag and unsigned varints.
