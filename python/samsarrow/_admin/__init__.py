"""The operations of `Admin` and `AsyncAdmin`, one file a family."""
