"""A Python source without work of its own, which shows the upper limit of Spark's path from Python to rows.

It imports no module of samsarrow, pyarrow only in tasks, and creates its arrays from buffers, because `pa.array` and
`pa.scalar` import pandas. What remains is the time of Spark itself: its Python processes, their imports and the
transfer of batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

if TYPE_CHECKING:
    import pyarrow as pa

PARTITIONS = 2
ROWS = 8_000
TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
}


class Prebuilt(DataSource):
    """Yields a batch of the source's schema until the requested number of rows is reached.

    A stream has micro-batches of `maxOffsetsPerTrigger` rows until it is stopped.
    """

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> str:
        return ", ".join(f"{name} {TYPES[name]}" for name in self._columns())

    def _columns(self) -> tuple[str, ...]:
        return tuple(self.options["columns"].split(",")) if "columns" in self.options else tuple(TYPES)

    def reader(self, schema: Any) -> DataSourceReader:
        return PrebuiltReader(self._columns(), int(self.options["rows"]) // PARTITIONS)

    def streamReader(self, schema: Any) -> DataSourceStreamReader:  # noqa: N802
        return PrebuiltStream(self._columns(), int(self.options["maxOffsetsPerTrigger"]) // PARTITIONS)


class PrebuiltReader(DataSourceReader):
    def __init__(self, columns: tuple[str, ...], rows: int) -> None:
        self._columns, self._rows = columns, rows

    def partitions(self) -> Any:
        return [InputPartition(p) for p in range(PARTITIONS)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return batches(self._columns, self._rows)


class PrebuiltStream(DataSourceStreamReader):
    def __init__(self, columns: tuple[str, ...], rows: int) -> None:
        self._columns, self._rows = columns, rows

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"rows": 0}

    # Spark passes arguments only to sources that have the class of 4.2 for read limits as a base.
    def latestOffset(self) -> dict[str, int]:  # noqa: N802
        self._end = getattr(self, "_end", 0) + self._rows * PARTITIONS
        return {"rows": self._end}

    def partitions(self, start: Any, end: Any) -> Any:
        return [InputPartition(p) for p in range(PARTITIONS)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        return batches(self._columns, self._rows)


def batches(columns: tuple[str, ...], rows: int) -> Iterator[pa.RecordBatch]:
    """Yields slices of one batch."""
    import pyarrow as pa

    batch = pa.RecordBatch.from_arrays([column(name) for name in columns], list(columns))
    left = rows
    while left > 0:
        yield batch.slice(0, min(ROWS, left))
        left -= ROWS


def column(name: str) -> pa.Array:
    """Returns a column of `ROWS` rows."""
    import numpy as np
    import pyarrow as pa

    types = {"binary": pa.binary(), "string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
    kind = types.get(TYPES[name], pa.timestamp("us", "UTC"))
    if name == "key":
        return pa.nulls(ROWS, kind)
    texts = {"value": b"".join(b"%0100d" % i for i in range(ROWS)), "topic": b"bench-plain" * ROWS}
    if name in texts:
        ends = np.arange(ROWS + 1, dtype=np.int32) * np.int32(len(texts[name]) // ROWS)
        return pa.Array.from_buffers(kind, ROWS, [None, pa.py_buffer(ends), pa.py_buffer(texts[name])])
    wide = np.int64 if name in ("offset", "timestamp") else np.int32
    numbers = np.arange(ROWS, dtype=wide) if name == "offset" else np.zeros(ROWS, wide)
    return pa.Array.from_buffers(kind, ROWS, [None, pa.py_buffer(numbers)])
