"""Records of the benches: null keys by default, distinct values, and equal in each run."""

import zlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .checksum import checksum

# Number of different keys and of partitions in the tables of `placed`.
KEYS, PARTITIONS = 100_000, 12
SIZES = {"100B": 100, "1KB": 1000}


def values(count: int, kind: str = "100B") -> pa.BinaryArray:
    """Returns `count` values: random bytes of one size, or with `json` JSON texts of about 134 bytes."""
    return events(count) if kind == "json" else noise(count, SIZES[kind])


def noise(count: int, size: int) -> pa.BinaryArray:
    """Returns values of a row number and bytes from a seeded generator."""
    rng = np.random.default_rng(7)
    block = rng.integers(0, 256, size=(count, size), dtype=np.uint8)
    block[:, :8] = np.arange(count, dtype=">u8").view(np.uint8).reshape(count, 8)
    offsets = np.arange(count + 1, dtype=np.int32) * size
    return pa.BinaryArray.from_buffers(pa.binary(), count, [None, pa.py_buffer(offsets), pa.py_buffer(block)])


def events(count: int) -> pa.BinaryArray:
    """Returns `count` synthetic web shop events, encoded as JSON objects."""
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
    """Returns the values as a table of chunks with one column `value`."""
    array = values(count, kind)
    return pa.table({"value": pa.chunked_array([array.slice(i, chunk) for i in range(0, count, chunk)])})


def placed(table: pa.Table) -> pa.Table:
    """Adds a column of repeating keys and a column of random partitions."""
    rng = np.random.default_rng(11)
    names = pa.array(rng.integers(0, KEYS, table.num_rows)).cast(pa.string())
    keys = pc.binary_join_element_wise("customer-", names, "").cast(pa.binary())
    partitions = pa.array(rng.integers(0, PARTITIONS, table.num_rows).astype(np.int32))
    columns = {"value": table.column("value"), "key": keys, "partition": partitions}
    chunk = len(table.column("value").chunks[0])
    return pa.Table.from_batches(pa.table(columns).combine_chunks().to_batches(chunk))


def described(batches: Iterable[pa.RecordBatch]) -> dict[str, Any]:
    """Returns checksums of `noise` records of several partitions, in the order of their row numbers.

    `ordered` is true if the row numbers of each partition ascend.
    """
    table = pa.Table.from_batches(batches).select(["value", "key", "partition"])
    numbers = b"".join(pc.binary_slice(table.column("value"), 0, 8).to_pylist())
    rows, partitions = np.frombuffer(numbers, ">u8"), table.column("partition").to_numpy()
    by_partition = np.argsort(partitions, kind="stable")
    forward, same = np.diff(rows[by_partition].astype(np.int64)) > 0, np.diff(partitions[by_partition]) == 0
    # Sorts one column at a time, because sorting all of them together would double the memory.
    order = pa.array(np.argsort(rows))
    values, keys = (checksum(table.column(name).take(order).chunks)[1] for name in ("value", "key"))
    where = zlib.crc32(partitions[order.to_numpy()].astype("<i4").tobytes())
    ordered = bool((forward | ~same).all())
    return {"rows": len(rows), "values": values, "keys": keys, "partitions": where, "ordered": ordered}
