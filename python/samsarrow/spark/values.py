"""Decoding of typed keys and values in tasks, and their Spark types."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, NullType, StringType

from samsarrow._bounded_reader import slice_rows
from samsarrow._sync import Blocking, run_sync
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.registry import RegisteredSchema, SchemaRegistry
from samsarrow.spark.clients import on_this_host, with_files
from samsarrow.spark.types import selected, spark_type
from samsarrow.values import Avro, DeadLetter, Json, Protobuf
from samsarrow.values.typed_columns import TypedColumns

Schemed: TypeAlias = Avro | Json | Protobuf
"""A format that has schemas."""

Send: TypeAlias = Callable[[str, pa.RecordBatch, Mapping[int, str]], None]
"""Sends those rows of a consumer's batch that have an error, by row number, to a topic."""

# Formats with schemas, by name.
FORMATS: dict[str, Callable[..., Schemed]] = {"avro": Avro, "json": Json, "protobuf": Protobuf}
# Prefix of the options of the registry client.
REGISTRY = "schema.registry."
_UNKNOWN = NullType()


@dataclass(frozen=True)
class Typed:
    """A key or value column that is decoded, with the settings of its decoder.

    Attributes:
        name: `key` or `value`.
        format: a name in `FORMATS` or `PLAIN`.
        given: arguments of the format.
        registry: options of the registry client; empty without a registry.
        bad: effect of a value that cannot be decoded: `raise`, `null` or `deadletter`.
        letters: dead letter topic, with `deadletter`.
        topic: topic that is read; None if several topics are read.
        evolution: seconds between checks for newer schema versions, which end a streaming query; None for no checks.
        fields: paths of the fields to decode; None for all.
        found: row schemas from the registry, by subject.
        type: type of the decoded column.
    """

    name: str
    format: str
    given: tuple[tuple[str, Any], ...]
    registry: tuple[tuple[str, str], ...]
    bad: str
    topic: str | None
    evolution: float | None = None
    letters: str | None = None
    fields: tuple[str, ...] | None = None
    found: tuple[tuple[str, RegisteredSchema], ...] = ()
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
        format = self._format()  # noqa: A001 - the name of the argument everywhere
        if not isinstance(format, str) and self.topic is None and not {"schema", "subject"} & set(dict(self.given)):
            raise ConfigurationError(
                f"what {self.name}s look like is unknown for several topics: set the option "
                f"{self.name}.subject or {self.name}.schema"
            )
        columns = self._columns(format)
        none = pa.record_batch({"key": pa.nulls(0, pa.binary()), "value": pa.nulls(0, pa.binary())})
        arrow = columns.empty(none).schema.field(self.name).type
        schemas = () if isinstance(format, str) else tuple(format._schemas.items())
        return replace(self, found=schemas, type=spark_type(arrow, self.name))

    def selected(self, requested: Mapping[str, DataType]) -> Typed:
        """Returns a copy that decodes only the fields that `.schema(...)` selects.

        Args:
            requested: requested types by column.

        Raises:
            ConfigurationError: a type is not a selection of the column's fields.
        """
        for name, full in self.columns.items():
            if name in requested and requested[name] != full:
                paths = selected(full, requested[name], name)
                return replace(self, fields=tuple(paths), type=requested[name])
        return self

    def decoder(self) -> TypedColumns:
        """Creates the decoder of batches in this process."""
        return self._columns(self._format())

    def _columns(self, format: Schemed | str) -> TypedColumns:  # noqa: A002
        columns = TypedColumns(
            format if self.name == "key" else None,  # type: ignore[arg-type]
            format if self.name == "value" else None,  # type: ignore[arg-type]
            # The decoder gets no producer, because the task sends bad records itself, with a cached producer.
            self.bad if self.letters is None else DeadLetter._without_producer(self.letters),  # type: ignore[arg-type]
            raw_values=False,
            include_headers=True,
        )
        run_sync(columns.prepare(Blocking._run, set() if self.topic is None else {self.topic}))
        return columns

    def _format(self) -> Schemed | str:
        if self.format not in FORMATS:
            return self.format
        given = arguments(self.given)
        if self.registry:
            given["registry"] = registry_client(self.registry)
        if self.fields is not None:
            given["fields"] = self.fields
        try:
            format = FORMATS[self.format](**given)  # noqa: A001 - the name of the argument everywhere
        except ConfigurationError as error:
            error.add_note(f"This is about the options {self.name}.*.")
            raise
        format._schemas.update(self.found)
        return format


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


def arguments(given: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Converts the arguments of a format back from their hashable form."""
    named = dict(given)
    if "imports" in named:
        named["imports"] = dict(named["imports"])
    return named


def registry_client(options: Iterable[tuple[str, str]]) -> SchemaRegistry:
    """Creates a registry client in this process.

    Args:
        options: options of the registry client, without their prefix.

    Raises:
        ConfigurationError: an option is invalid.
    """
    config = with_files(dict(options), REGISTRY)
    url, context = config.pop("url"), config.pop("context", None)
    name, password = config.pop("username", None), config.pop("password", None)
    if (name is None) != (password is None):
        raise ConfigurationError(f"options {REGISTRY}username and {REGISTRY}password must be set together")
    try:
        return SchemaRegistry(
            url, auth=None if name is None or password is None else (name, password), context=context, **config
        )
    except ConfigurationError as error:
        error.add_note(f"This is about the options {REGISTRY}*.")
        raise
