"""The records of the benches: 100-byte values, null keys, every value different, the same in each run."""

import numpy as np
import pyarrow as pa

VALUE_SIZE = 100


def values(count: int) -> pa.BinaryArray:
    """`count` values of 100 bytes: the row number, then bytes from a seeded generator."""
    rng = np.random.default_rng(7)
    block = rng.integers(0, 256, size=(count, VALUE_SIZE), dtype=np.uint8)
    block[:, :8] = np.arange(count, dtype=">u8").view(np.uint8).reshape(count, 8)
    offsets = np.arange(count + 1, dtype=np.int32) * VALUE_SIZE
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(block)])


def table(count: int, chunk: int = 100_000) -> pa.Table:
    """The values as a table of chunks, one column `value`."""
    array = values(count)
    return pa.table({"value": pa.chunked_array([array.slice(i, chunk) for i in range(0, count, chunk)])})
