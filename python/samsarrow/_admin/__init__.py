"""The operations of `Admin` and `AsyncAdmin`, one module per kind of resource.

Each operation is a function that returns a pending call. Its signature and docstring are also those of the methods,
which `make generate` writes into `sync.py` and `aio.py`: methods of `Admin` wait for the call, and methods of
`AsyncAdmin` await it.
"""
