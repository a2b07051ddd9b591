"""The operations of `Admin` and `AsyncAdmin`, one module per kind of resource."""
