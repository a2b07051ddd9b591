"""Streaming writes for Spark 4.0, which passes rows instead of Arrow batches to a Python sink."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import DataType, StructType

from samsarrow.spark.sink import finish, write_rows
from samsarrow.spark.write_options import WriteOptions

_HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
_HEADER_NAME = "array<struct<key:string,value:binary>>"
# Maximum number of rows of an Arrow batch.
_ROWS = 10_000


class Spark40StreamWriter(DataSourceStreamWriter):
    """A streaming write: exactly once in transactions, otherwise at least once, because micro-batches may repeat."""

    def __init__(self, options: WriteOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Writes one task's rows of a micro-batch."""
        encoded = {column.name: column.type for column in self._options.encoded}
        return write_rows(self._options, to_batches(iterator, self._schema, encoded))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Completes a micro-batch after all its tasks have succeeded."""
        finish(self._options, messages)


def to_batches(
    rows: Iterator[Row], schema: StructType, encoded: Mapping[str, pa.DataType] | None = None
) -> Iterator[pa.RecordBatch]:
    """Converts rows to Arrow batches of the columns that can be sent.

    Args:
        rows: rows from Spark.
        schema: schema of the rows.
        encoded: types of the columns that will be encoded as keys or values, by name.
    """
    encoded = encoded or {}
    types = {field.name: encoded.get(field.name) or _arrow_type(field.dataType) for field in schema.fields}
    fields = [pa.field(name, arrow) for name, arrow in types.items() if arrow is not None]
    while chunk := list(islice(rows, _ROWS)):
        columns = [
            [
                _nested(row[field.name], field.type) if field.name in encoded else _converted(row[field.name])
                for row in chunk
            ]
            for field in fields
        ]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, fields, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _arrow_type(spark: DataType) -> pa.DataType | None:
    """Returns the Arrow type of a column, or None if no field of a record has this type."""
    types = {"string": pa.string(), "binary": pa.binary(), "int": pa.int32()}
    types |= {"timestamp": pa.timestamp("us", "UTC"), "array": _HEADERS}
    name = spark.simpleString()
    return types.get("array" if name == _HEADER_NAME else name)


def _converted(value: Any) -> Any:
    # Spark passes times as `datetime` without a time zone, in the local time of this process.
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    return [row.asDict() for row in value] if isinstance(value, list) else value


def _nested(value: Any, kind: pa.DataType) -> Any:
    """Converts a value to the Python type that pyarrow expects for this Arrow type."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {field.name: _nested(member, field.type) for field, member in zip(kind, value, strict=True)}
    if pa.types.is_map(kind):
        return [(_nested(key, kind.key_type), _nested(item, kind.item_type)) for key, item in value.items()]
    if pa.types.is_list(kind):
        return [_nested(item, kind.value_type) for item in value]
    return value.astimezone(UTC) if pa.types.is_timestamp(kind) and kind.tz is not None else value
