"""Decoding of typed keys and values in tasks, and their Spark types."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, NullType, StringType, StructField

from samsarrow import _core
from samsarrow._bounded_reader import slice_rows
from samsarrow._sync import Blocking, RunCall, run_sync
from samsarrow.exceptions import BadValueError
from samsarrow.spark.clients import on_this_host, with_registry_files
from samsarrow.values.dead_letter import DeadLetter
from samsarrow.values.typed_columns import TypedColumns

Send: TypeAlias = Callable[[str, pa.RecordBatch, Mapping[int, str]], None]
"""Sends those rows of a consumer's batch that have an error, by row number, to a topic."""

_UNKNOWN = NullType()


@dataclass(frozen=True)
class Typed:
    """A key or value column that is decoded, with the settings of its decoder.

    Attributes:
        name: `key` or `value`.
        options: options of keys, values and the registry client, which the Rust client parses.
        bad: effect of a value that cannot be decoded: `raise`, `null` or `deadletter`.
        letters: dead letter topic, with `deadletter`.
        schema: row schema from the registry, as JSON for the Rust client; None if the options have the schema.
        fields: paths of the fields to decode; None for those that the options select.
        type: type of the decoded column.
    """

    name: str
    options: tuple[tuple[str, str], ...]
    bad: str
    letters: str | None = None
    schema: str | None = None
    fields: tuple[str, ...] | None = None
    type: DataType = _UNKNOWN

    @property
    def columns(self) -> dict[str, DataType]:
        """Types of the decoded column and of the columns that decoding adds, by name."""
        extra = {f"raw_{self.name}": BinaryType(), f"{self.name}_error": StringType()} if self.bad == "null" else {}
        return {self.name: self.type, **extra}

    def resolved(self) -> Typed:
        """Returns a copy with the type of the column. Its schema may be fetched from the registry.

        Raises:
            ConfigurationError: the schema cannot be read, or Spark has no type for one of its types.
            RegistryError: the registry cannot be reached, or returns an error.
        """
        with on_this_host():
            text, schema = _core.SparkReadColumns(with_registry_files(dict(self.options))).resolve(self.name)
        column = {"name": self.name, "type": json.loads(text), "nullable": True, "metadata": {}}
        return replace(self, schema=schema, type=StructField.fromJson(column).dataType)

    def selected(self, requested: Mapping[str, DataType]) -> Typed:
        """Returns a copy that decodes only the fields that `.schema(...)` selects.

        Args:
            requested: requested types by column.

        Raises:
            ConfigurationError: a type is not a selection of the column's fields.
        """
        for name, full in self.columns.items():
            if name in requested and requested[name] != full:
                paths = _core.spark_selected(full.json(), requested[name].json(), name)
                return replace(self, fields=tuple(paths), type=requested[name])
        return self

    def decoder(self) -> TypedColumns:
        """Creates the decoder of batches in this process."""
        format = _Format(self)  # noqa: A001 - the name of the argument everywhere
        columns = TypedColumns(
            format if self.name == "key" else None,  # type: ignore[arg-type]
            format if self.name == "value" else None,  # type: ignore[arg-type]
            # The decoder gets no producer, because the task sends bad records itself, with a cached producer.
            self.bad if self.letters is None else DeadLetter._without_producer(self.letters),  # type: ignore[arg-type]
            raw_values=False,
            include_headers=True,
        )
        run_sync(columns.prepare(Blocking._run, set()))
        return columns


class _Format:
    """Format of a column, with the methods of `Avro`, `Json` and `Protobuf` that `TypedColumns` calls."""

    def __init__(self, column: Typed) -> None:
        core = _core.SparkReadColumns(with_registry_files(dict(column.options)))
        fields = None if column.fields is None else list(column.fields)
        self._made = core.decoder(column.name, column.schema, fields)
        self._registry, self._lookup = core.registry(), core.lookup(column.name)
        self._in_headers = core.reads_headers(column.name)

    async def _decoder(self, run: RunCall, topic: str | None, key: bool) -> _core.ValueDecoder:
        return self._made

    async def _learn(self, run: RunCall, decoder: _core.ValueDecoder, batch: pa.RecordBatch, key: bool) -> None:
        if (
            self._registry is not None
            and (call := decoder.learn(self._registry, batch, key, *self._lookup)) is not None
        ):
            await run(call)


def decoded(
    typed: Sequence[Typed], batches: Iterator[pa.RecordBatch], send: Send | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the batches with decoded keys and values.

    Args:
        typed: keys and values to decode.
        batches: batches of a consumer.
        send: function that sends bad records to the dead letter topic. It is called before the other rows of the batch
            are yielded.

    Raises:
        BadValueError: a key or value cannot be decoded. The rows before it are yielded first.
        RegistryError: a writer's schema cannot be fetched from the registry.
    """
    parts: Iterator[Part] = (Part(batch, batch, None) for batch in batches)
    # The second stage receives only the rows before an error of the first stage, so an error of the second stage is in
    # an earlier row.
    for column in typed:
        parts = _stage(_decoder(column), column.letters, send, parts)
    for part in parts:
        if part.rows.num_rows:
            yield part.rows
        if part.error is not None:
            raise part.error


class Part(NamedTuple):
    """Rows of a batch between two decoding stages.

    Attributes:
        rows: the rows with the columns decoded so far.
        raw: the undecoded rows.
        error: decode error of the row that follows the rows of this part; None if that row is valid or does not exist.
    """

    rows: pa.RecordBatch
    raw: pa.RecordBatch
    error: BadValueError | None


def _stage(decoder: TypedColumns, letters: str | None, send: Send | None, parts: Iterator[Part]) -> Iterator[Part]:
    """Decodes the keys or the values of each `Part`. A part whose decoded rows would be too large is split."""
    for rows, raw, error in parts:
        remaining = True
        while remaining:
            decoded, taken, bad, dead = run_sync(decoder.read(Blocking._run, rows))
            part = raw.slice(0, taken)
            if dead and letters is not None and send is not None:
                send(letters, part, dead)
                part = slice_rows(part, [row for row in range(taken) if row not in dead])
            remaining = bad is None and taken < rows.num_rows
            yield Part(decoded, part, None if remaining else bad or error)
            rows, raw = rows.slice(taken), raw.slice(taken)


def needs_headers(typed: Sequence[Typed]) -> bool:
    """Returns true if decoding needs record headers, which may identify schemas."""
    return any(_decoder(column).needs_headers for column in typed)


_DECODERS: OrderedDict[Typed, TypedColumns] = OrderedDict()
_MAX_DECODERS = 32


def _decoder(typed: Typed) -> TypedColumns:
    """Returns the decoder that all tasks of a worker share, with the schemas that it has fetched."""
    if typed not in _DECODERS:
        with on_this_host():
            _DECODERS[typed] = typed.decoder()
        while len(_DECODERS) > _MAX_DECODERS:
            _DECODERS.popitem(last=False)
    return _DECODERS[typed]
