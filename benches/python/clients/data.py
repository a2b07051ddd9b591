"""The records of the benches: null keys, every value different, the same in each run."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

SIZES = {"100B": 100, "1KB": 1000}


def values(count: int, kind: str = "100B") -> pa.BinaryArray:
    """`count` values: of one size with random bytes, or `json` of about 134 bytes."""
    return events(count) if kind == "json" else noise(count, SIZES[kind])


def noise(count: int, size: int) -> pa.BinaryArray:
    """The row number, then bytes from a seeded generator."""
    rng = np.random.default_rng(7)
    block = rng.integers(0, 256, size=(count, size), dtype=np.uint8)
    block[:, :8] = np.arange(count, dtype=">u8").view(np.uint8).reshape(count, 8)
    offsets = np.arange(count + 1, dtype=np.int32) * size
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(block)])


def events(count: int) -> pa.BinaryArray:
    """JSON objects of a web shop."""
    rng = np.random.default_rng(7)

    def number(below: int) -> pa.Array:
        return pa.array(rng.integers(0, below, count)).cast(pa.string())

    kinds = pa.array(["view", "click", "buy", "search"]).take(pa.array(rng.integers(0, 4, count)))
    pieces = [
        '{"id":', pa.array(np.arange(count)).cast(pa.string()),
        ',"user":"u', number(1_000_000),
        '","event":"', kinds,
        '","page":"/shop/', number(5_000), "/", number(900),
        '","session":"', number(1 << 60),
        '","price":', number(90_000), ',"currency":"EUR"}',
    ]  # fmt: skip
    return pc.binary_join_element_wise(*pieces, "").cast(pa.binary())


def table(count: int, kind: str = "100B", chunk: int = 100_000) -> pa.Table:
    """The values as a table of chunks, one column `value`."""
    array = values(count, kind)
    return pa.table({"value": pa.chunked_array([array.slice(i, chunk) for i in range(0, count, chunk)])})
