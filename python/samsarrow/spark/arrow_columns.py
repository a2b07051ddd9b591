"""Arrow columns for Spark: their schema, and the conversion of a consumer's batches."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from samsarrow import _core

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
# Types of columns, by the names of the types in the Rust client.
_KINDS: dict[str, pa.DataType] = {
    "binary": pa.binary(),
    "string": pa.string(),
    "int": pa.int32(),
    "long": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "headers": pa.list_(pa.field("element", _HEADER)),
}
_TYPES = {name: _KINDS[kind] for name, kind in _core.spark_columns()}


def arrow_schema(
    columns: Sequence[str], text: Iterable[str] = (), types: Mapping[str, DataType] | None = None
) -> pa.Schema:
    """Returns the Arrow schema for Spark, which accepts no views or dictionaries, and only times in microseconds."""
    known = _TYPES | dict.fromkeys(text, pa.string())
    if types:
        # Imported here because reads of bytes do not need the module.
        from samsarrow.spark.types import arrow_type

        known |= {name: arrow_type(kind) for name, kind in types.items()}
    return pa.schema([pa.field(name, known[name]) for name in columns])


class ToSpark:
    """Converts a consumer's batches of one partition to the columns and types of `schema`, almost without copying.

    Args:
        schema: schema of the batches for Spark.
        topic: topic of all rows.
        decoded: names of decoded columns.
    """

    def __init__(self, schema: pa.Schema, topic: str, decoded: Iterable[str] = ()) -> None:
        self._schema = schema
        self._decoded = frozenset(decoded)
        self._topic = topic
        # The name of the topic, repeated for the longest batch so far. Shorter batches use a slice.
        self._topics = pa.nulls(0, pa.string())

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Converts a batch to the columns and types of the schema."""
        columns = [self._column(batch, field) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name == "topic":
            if len(self._topics) < batch.num_rows:
                self._topics = _repeated(self._topic, batch.num_rows)
            return self._topics.slice(0, batch.num_rows)
        column = batch.column("timestamp_type" if field.name == "timestampType" else field.name)
        if field.name == "headers":
            return _null_where_empty(column)
        if field.name in self._decoded:
            from samsarrow.spark.types import converted

            return converted(column, field.type, field.name)
        if column.type == field.type:
            return column
        if field.name in ("key", "value"):
            # Imported here because planning does not need the module, and its import takes as long as all other imports
            # together.
            import pyarrow.compute as pc

            # Keeps invalid UTF-8, like Spark's own cast of binary to string.
            return pc.cast(column, options=pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True))
        return _cast(column, field.type)


# Milliseconds whose microseconds are 64-bit numbers.
_MAX_MS = (2**63 - 1) // 1000


def _cast(column: pa.Array, target: pa.DataType) -> pa.Array:
    """Converts timestamps to microseconds, and timestamp types to `int32`.

    `Array.cast` imports pyarrow.compute, which takes as long as all other imports of a task together. It is used only
    for nulls, which records of message format v0 have, for times out of range, for its error, and without numpy, which
    pyarrow does not require.
    """
    count = len(column)
    if column.null_count or not count:
        return column.cast(target)
    try:
        import numpy as np
    except ImportError:
        return column.cast(target)
    is_time = pa.types.is_timestamp(target)
    source, wide = (np.int64, np.int64) if is_time else (np.int8, np.int32)
    values = np.frombuffer(column.buffers()[1], source, count, column.offset * np.dtype(source).itemsize)
    if is_time:
        if values.max() > _MAX_MS or values.min() < -_MAX_MS:
            return column.cast(target)
        values = values * 1000
    return pa.Array.from_buffers(target, count, [None, pa.py_buffer(values.astype(wide, copy=False))])


def _repeated(text: str, count: int) -> pa.Array:
    """Returns a text `count` times.

    `pa.scalar` and `pa.array` import pandas, which would take longer than all other imports of a worker together.
    """
    data = text.encode()
    ends = array("i", range(0, (count + 1) * len(data), len(data)))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def _null_where_empty(headers: pa.Array) -> pa.Array:
    """Replaces empty lists of headers by null, as Spark's own connector does."""
    import pyarrow.compute as pc

    empty = pc.equal(pc.list_value_length(headers), 0)
    return pc.if_else(empty, pa.scalar(None, headers.type), headers).cast(_TYPES["headers"])
