"""Encoding of DataFrame columns as typed keys and values. The driver resolves schemas, and tasks encode."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark import TaskContext

from samsarrow import _core
from samsarrow.exceptions import BadValueError
from samsarrow.spark.clients import REGISTRY, on_this_host, with_registry_files
from samsarrow.spark.types import converted
from samsarrow.values.encode import encode_error
from samsarrow.values.headers import header_name, with_header


@dataclass(frozen=True)
class Encoded:
    """A column that is encoded as keys or values, with the settings of its encoder.

    Attributes:
        name: `key` or `value`.
        options: options of keys, values and the registry client, which the Rust client parses. Tasks send no requests
            to the registry, so they get only its URL.
        columns: columns of the DataFrame: names, Spark types, and types in Spark's JSON.
        topic: topic of all rows; None if the column `topic` has the topics.
        type: type of the column.
        writes_header: true if a record header identifies the schema.
        schema: schema to write with and its id, as JSON for the Rust client.
    """

    name: str
    options: tuple[tuple[str, str], ...]
    columns: tuple[tuple[str, str, str], ...]
    topic: str | None
    type: pa.DataType
    writes_header: bool
    schema: str = ""

    def resolved(self) -> Encoded:
        """Returns a copy with the schema and id that tasks need. Registers the schema if so configured.

        Raises:
            ConfigurationError: the column does not fit the schema, or the options do not determine the schema to write
                with.
            SchemaIncompatibleError: the registry rejects the schema, with its reasons.
            SchemaNotFoundError: the schema or the subject is not registered, and the options do not allow registering
                it.
            RegistryError: the registry cannot be reached, or returns an error.
        """
        schema = self._core().resolve(self.name, _SCHEMAS.get(self))
        _SCHEMAS[self] = schema
        while len(_SCHEMAS) > _MAX_CACHED:
            _SCHEMAS.popitem(last=False)
        own = (
            (name, value) for name, value in self.options if not name.startswith(REGISTRY) or name == f"{REGISTRY}url"
        )
        return replace(self, options=tuple(own), schema=schema)

    def encoder(self) -> _core.SparkEncoder:
        """Creates the encoder of the column in this process."""
        return self._core().encoder(self.name, self.schema)

    def _core(self) -> _core.SparkWrittenColumns:
        return _core.SparkWrittenColumns(with_registry_files(dict(self.options)), list(self.columns))


# Schemas of the last micro-batch. Spark keeps the process across micro-batches, and ids of registered schemas stay
# valid. The latest version of a subject may change, and is requested again.
_SCHEMAS: OrderedDict[Encoded, str] = OrderedDict()
_ENCODERS: OrderedDict[Encoded, _core.SparkEncoder] = OrderedDict()
_MAX_CACHED = 32


def encoded(columns: Sequence[Encoded], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the batches of a task with encoded keys and values.

    Raises:
        BadValueError: a row does not fit the schema. No row of its batch is yielded.
    """
    row = 0
    for batch in batches:
        for column in columns:
            batch = _with_encoded(column, batch, row)
        yield batch
        row += batch.num_rows


def _with_encoded(column: Encoded, batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
    values = converted(batch.column(column.name), column.type, column.name)
    encoder = _encoder(column)
    done, bad = encoder.encode(pa.record_batch({"value": values}))
    if done is None:
        error: BadValueError = encode_error(bad, before, column.topic)
        context = TaskContext.get()
        task = "" if context is None else f" of task {context.partitionId()}"
        error.add_note(f"It is in the column {column.name}; rows are counted from 0, among those{task}.")
        raise error
    # The encoder returns several arrays if one would exceed the range of 32-bit offsets.
    parts = [part.column(0) for part in done]
    encoded = parts[0] if len(parts) == 1 else pa.concat_arrays([part.cast(pa.large_binary()) for part in parts])
    columns = {name: encoded if name == column.name else batch.column(name) for name in batch.schema.names}
    if encoder.header is not None:
        name = header_name(column.name == "key")
        columns["headers"] = with_header(columns.get("headers"), encoded, name, encoder.header)
    return pa.record_batch(columns)


def _encoder(column: Encoded) -> _core.SparkEncoder:
    """Returns the encoder that all tasks of a worker share."""
    if column not in _ENCODERS:
        with on_this_host():
            _ENCODERS[column] = column.encoder()
        while len(_ENCODERS) > _MAX_CACHED:
            _ENCODERS.popitem(last=False)
    return _ENCODERS[column]
