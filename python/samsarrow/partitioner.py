"""Support for partitioners that are written in Python: `Producer(partitioner=function)`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import index
from typing import Any

import pyarrow as pa

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError

Partitioner = Callable[[str, bytes | None, bytes | None, int], int]
"""`partitioner(topic, key, value, partitions)` returns a number from 0 to `partitions` - 1."""


def take_partitioner(pairs: list[tuple[str, Any]]) -> tuple[Partitioner | None, list[tuple[str, Any]]]:
    """Returns the option `partitioner` if its value is a function, and all other options.

    Raises:
        ConfigurationError: the option is set twice.
    """
    values = [value for name, value in pairs if name == "partitioner"]
    functions = [value for value in values if callable(value)]
    if not functions:
        return None, pairs
    if len(values) > 1:
        raise ConfigurationError("option partitioner is given twice")
    return functions[0], [(name, value) for name, value in pairs if name != "partitioner"]


def as_bytes(payload: Any, what: str) -> bytes | None:
    """Returns a key or value as the bytes that are sent.

    Raises:
        TypeError: the type is not supported. Integers are rejected, because `bytes(5)` would be five zero bytes.
    """
    if payload is None or isinstance(payload, bytes):
        return payload
    if isinstance(payload, str):
        return payload.encode()
    if isinstance(payload, bytearray | memoryview):
        return bytes(payload)
    raise TypeError(f"{what} must be bytes, bytearray, memoryview, str or None, not {type(payload).__name__}")


def choose_partition(partitioner: Partitioner, topic: str, key: Any, value: Any, partitions: int) -> int:
    """Returns the partition that a partitioner chooses.

    Raises:
        TypeError: the partitioner does not return an integer.
    """
    result = partitioner(topic, as_bytes(key, "key"), as_bytes(value, "value"), partitions)
    try:
        return index(result)
    except TypeError:
        raise TypeError(f"the partitioner returned {result!r} for topic {topic}, not a number of a partition") from None


class Partitioned:
    """Arrow data with an additional column, which contains the partition that the partitioner chooses for each row.

    With a `value_format`, values are encoded here, because the partitioner is called with encoded values. Batches are
    read one after another while they are sent.
    """

    def __init__(
        self,
        partitioner: Partitioner,
        topic: str,
        partitions: int,
        data: Any,
        key: str | None,
        value: str | list[str] | None,
        partition: str | None,
        value_format: str | None,
    ) -> None:
        self._partitioner, self._topic, self._partitions = partitioner, topic, partitions
        source = reader_of(data)
        batches: Iterator[pa.RecordBatch] = iter(source)
        schema = source.schema
        self.value = value
        if value_format is not None:
            self.value = unused("value", schema)
            schema = schema.append(pa.field(self.value, pa.large_binary()))
            batches = with_encoded_values(batches, schema, value, value_format)
        self._columns = {
            "key": key or "key",
            "value": self.value if isinstance(self.value, str) else "value",
            "partition": partition,
        }
        self.name = unused("partition", schema)
        schema = schema.append(pa.field(self.name, pa.int64()))
        self.reader = pa.RecordBatchReader.from_batches(schema, self._batches(batches, schema))

    def _batches(self, source: Iterator[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        for batch in source:
            partitions = pa.array(self._rows(batch), pa.int64())
            yield pa.RecordBatch.from_arrays([*batch.columns, partitions], schema=schema)

    def _rows(self, batch: pa.RecordBatch) -> Iterator[int]:
        def column(role: str) -> list[Any]:
            name = self._columns[role]
            return batch.column(name).to_pylist() if name in batch.schema.names else [None] * batch.num_rows

        for key, value, partition in zip(column("key"), column("value"), column("partition"), strict=True):
            if partition is None:
                partition = choose_partition(self._partitioner, self._topic, key, value, self._partitions)
            yield index(partition)


def reader_of(data: Any) -> pa.RecordBatchReader:
    """Returns a reader of any Arrow data.

    A reader is returned as is, because its Arrow stream would lose exceptions.
    """
    if isinstance(data, pa.RecordBatchReader):
        return data
    if hasattr(data, "__arrow_c_stream__"):
        return pa.RecordBatchReader.from_stream(data)
    if hasattr(data, "__arrow_c_array__"):
        batch = pa.record_batch(data)
        return pa.RecordBatchReader.from_batches(batch.schema, [batch])
    raise TypeError(
        f"data must be Arrow data (with __arrow_c_stream__ or __arrow_c_array__), not {type(data).__name__}"
    )


def unused(name: str, schema: pa.Schema) -> str:
    """Returns `name`, with underscores appended until no column has that name."""
    while name in schema.names:
        name += "_"
    return name


def with_encoded_values(
    source: Iterator[pa.RecordBatch], schema: pa.Schema, value: str | list[str] | None, value_format: str
) -> Iterator[pa.RecordBatch]:
    """Yields the rows with an additional column of encoded values."""
    for batch in source:
        start = 0
        while start < batch.num_rows:
            encoded, failure = _core.write_values(batch.slice(start), value, value_format)
            if encoded is None:
                row, _, field, reason, _ = failure or (0, None, "", "", None)
                raise ConfigurationError(f"row {start + row}{', field ' if field else ''}{field}: {reason}")
            [values] = encoded.columns
            rows = batch.slice(start, len(values))
            yield pa.RecordBatch.from_arrays([*rows.columns, values], schema=schema)
            start += len(values)
