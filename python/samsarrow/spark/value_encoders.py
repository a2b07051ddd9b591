"""Encoding of DataFrame columns as typed keys and values. The driver resolves schemas, and tasks encode."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
from pyspark import TaskContext

from samsarrow._sync import Blocking, run_sync
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.registry import RegisteredSchema
from samsarrow.spark.clients import on_this_host
from samsarrow.spark.types import converted
from samsarrow.spark.values import FORMATS, Schemed, arguments, registry_client
from samsarrow.values.decode import Format
from samsarrow.values.encode import Encoder, empty_batch, encode_error, make_encoder
from samsarrow.values.headers import InHeaders, header_name, with_header

Ids: TypeAlias = tuple[tuple[tuple[str, str], int | bytes], ...]
"""Ids of schemas by subject and text."""
Headers: TypeAlias = tuple[tuple[int, bytes], ...]
"""Values of the record headers that identify schemas, by the id of the schema."""


@dataclass(frozen=True)
class Encoded:
    """A column that is encoded as keys or values, with the settings of its encoder.

    Attributes:
        name: `key` or `value`.
        format: a name in `FORMATS` or `PLAIN`.
        given: arguments of the format.
        registry: options of the registry client; empty without a registry. Tasks send no requests to the registry, so
            they get only the url.
        topic: topic of all rows; None if the column `topic` has the topics.
        type: type of the column.
        found: schemas from the registry with which values are written, by subject.
        ids: ids of registered schemas, by subject and text.
        headers: values of the record headers that identify schemas, by the id of the schema.
    """

    name: str
    format: str
    given: tuple[tuple[str, object], ...]
    registry: tuple[tuple[str, str], ...]
    topic: str | None
    type: pa.DataType
    found: tuple[tuple[str, RegisteredSchema], ...] = ()
    ids: Ids = ()
    headers: Headers = ()

    @property
    def writes_header(self) -> bool:
        """True if a record header identifies the schema."""
        return dict(self.given).get("framing") == "header"

    def resolved(self) -> Encoded:
        """Returns a copy with the schemas and ids that tasks need. Registers the schema if so configured.

        Raises:
            ConfigurationError: the column does not fit the schema, or the options do not determine the schema to write
                with.
            SchemaIncompatibleError: the registry rejects the schema, with its reasons.
            SchemaNotFoundError: the schema or the subject is not registered, and the options do not allow registering
                it.
            RegistryError: the registry cannot be reached, or returns an error.
        """
        format = self._format()  # noqa: A001 - the name of the argument everywhere
        if isinstance(format, str):
            self._encoder(format)
            return self
        # Ids that an earlier micro-batch registered stay valid, but the latest version may have changed.
        earlier_ids, earlier_headers = _IDS.get(self, ((), ()))
        format._ids.update(earlier_ids)
        format._headers.update(earlier_headers)
        self._encoder(format)
        _IDS[self] = ids, headers = tuple(format._ids.items()), tuple(format._headers.items())
        while len(_IDS) > _MAX_CACHED:
            _IDS.popitem(last=False)
        url = tuple(pair for pair in self.registry if pair[0] == "url")
        return replace(self, registry=url, found=tuple(format._schemas.items()), ids=ids, headers=headers)

    def encoder(self) -> Encoder:
        """Creates the encoder of the column in this process."""
        return self._encoder(self._format())

    def _encoder(self, format: Format) -> Encoder:  # noqa: A002
        like = empty_batch(pa.schema([("value", self.type)]))
        try:
            return run_sync(make_encoder(format, Blocking._run, like, self.topic, self.name == "key"))
        except ConfigurationError as error:
            error.add_note(f"This is about the column {self.name}, with {self.name}.format={self.format}.")
            raise

    def _format(self) -> Format:
        if self.format not in FORMATS:
            return self.format  # type: ignore[return-value]
        given = arguments(self.given)
        if self.registry:
            given["registry"] = registry_client(self.registry)
        elif self.format == "json" and "schema" not in given:
            given["schema"] = self.type
        format: Schemed = FORMATS[self.format](**given)  # noqa: A001 - the name of the argument everywhere
        format._schemas.update(self.found)
        format._ids.update(self.ids)
        format._headers.update(self.headers)
        return format


# Ids of schemas that this process registered, and their headers. Spark keeps the process across micro-batches, and ids
# do not change.
_IDS: OrderedDict[Encoded, tuple[Ids, Headers]] = OrderedDict()
_ENCODERS: OrderedDict[Encoded, Encoder] = OrderedDict()
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
    if isinstance(encoder, InHeaders):
        name = header_name(column.name == "key")
        columns["headers"] = with_header(columns.get("headers"), encoded, name, encoder.header)
    return pa.record_batch(columns)


def _encoder(column: Encoded) -> Encoder:
    """Returns the encoder that all tasks of a worker share."""
    if column not in _ENCODERS:
        with on_this_host():
            _ENCODERS[column] = column.encoder()
        while len(_ENCODERS) > _MAX_CACHED:
            _ENCODERS.popitem(last=False)
    return _ENCODERS[column]
