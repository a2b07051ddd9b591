"""Typed keys and values: what Spark sees of them, and how tasks decode them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, NullType, StringType

from samsarrow._faces import Blocking, now
from samsarrow._rows import slices
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.registry import RegisteredSchema, SchemaRegistry
from samsarrow.spark.clients import on_this_host, with_files
from samsarrow.spark.types import selected, spark_type
from samsarrow.values import Avro, DeadLetter, Json, Protobuf
from samsarrow.values.columns import TypedColumns

Schemed: TypeAlias = Avro | Json | Protobuf
"""A format that has schemas."""

Send: TypeAlias = Callable[[str, pa.RecordBatch, Mapping[int, str]], None]
"""Sends rows of a consumer to a topic: those with a text, which says what is wrong with them."""

# Those by name.
FORMATS: dict[str, Callable[..., Schemed]] = {"avro": Avro, "json": Json, "protobuf": Protobuf}
# What the options of the registry's client begin with.
REGISTRY = "schema.registry."
_UNKNOWN = NullType()


@dataclass(frozen=True)
class Typed:
    """A key or a value that is decoded.

    Attributes:
        name: `key` or `value`.
        format: one of `FORMATS`, or of `PLAIN`.
        given: arguments of the format.
        registry: options of the registry's client; none without one.
        bad: `raise`, `null` or `deadletter`.
        letters: the topic of bad records, with `deadletter`.
        topic: that is read, where it is one.
        evolution: seconds between looks for newer versions, which end a streaming query; None does not look.
        fields: only these; None is all.
        found: what the registry says that rows look like, once it was asked, by subject.
        type: of the column.
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
        """The columns that there are of it."""
        more = {f"raw_{self.name}": BinaryType(), f"{self.name}_error": StringType()} if self.bad == "null" else {}
        return {self.name: self.type, **more}

    def resolved(self) -> Typed:
        """The same with the type of its column, for which a registry may have to be asked.

        Raises:
            ConfigurationError: the schema cannot be read, or has a type that Spark has not.
            RegistryError: the registry cannot be asked.
        """
        format = self._format()  # noqa: A001 - as everywhere
        if not isinstance(format, str) and self.topic is None and not {"schema", "subject"} & set(dict(self.given)):
            raise ConfigurationError(
                f"what {self.name}s look like is unknown for several topics: set the option "
                f"{self.name}.subject or {self.name}.schema"
            )
        columns = self._columns(format)
        none = pa.record_batch({"key": pa.nulls(0, pa.binary()), "value": pa.nulls(0, pa.binary())})
        made = columns.empty(none).schema.field(self.name).type
        found = () if isinstance(format, str) else tuple(format._found.items())
        return replace(self, found=found, type=spark_type(made, self.name))

    def selected(self, wanted: Mapping[str, DataType]) -> Typed:
        """The same with those fields only that `.schema(...)` chooses.

        Args:
            wanted: types of its columns.

        Raises:
            ConfigurationError: one is no choice of what is there.
        """
        for name, there in self.columns.items():
            if name in wanted and wanted[name] != there:
                paths = selected(there, wanted[name], name)
                return replace(self, fields=tuple(paths), type=wanted[name])
        return self

    def decoder(self) -> TypedColumns:
        """What decodes batches in this process."""
        return self._columns(self._format())

    def _columns(self, format: Schemed | str) -> TypedColumns:  # noqa: A002
        columns = TypedColumns(
            format if self.name == "key" else None,  # type: ignore[arg-type]
            format if self.name == "value" else None,  # type: ignore[arg-type]
            # The task sends bad records itself, with a producer that outlives it.
            self.bad if self.letters is None else DeadLetter(self.letters, None),  # type: ignore[arg-type]
            raw_values=False,
            include_headers=True,
        )
        now(columns.prepare(Blocking._do, set() if self.topic is None else {self.topic}))
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
            made = FORMATS[self.format](**given)
        except ConfigurationError as error:
            error.add_note(f"This is about the options {self.name}.*.")
            raise
        made._found.update(self.found)
        return made


def decoded(
    typed: Sequence[Typed], batches: Iterator[pa.RecordBatch], send: Send | None = None
) -> Iterator[pa.RecordBatch]:
    """The batches with their keys and values decoded.

    Args:
        typed: keys and values.
        batches: of a consumer.
        send: sends bad records to their topic, before the rows beside them are given.

    Raises:
        BadValueError: one cannot be read; rows before it are given first.
        RegistryError: the registry cannot be asked what they were written with.
    """
    parts: Iterator[Part] = (Part(batch, batch, None) for batch in batches)
    # The second sees the rows before what is bad of the first: an error of its own is before that.
    for one in typed:
        parts = _stage(_decoder(one), one.letters, send, parts)
    for part in parts:
        if part.rows.num_rows:
            yield part.rows
        if part.error is not None:
            raise part.error


class Part(NamedTuple):
    """Rows of a batch.

    Attributes:
        rows: as far as they are decoded.
        raw: the same as they came.
        error: of what is behind the last row.
    """

    rows: pa.RecordBatch
    raw: pa.RecordBatch
    error: BadValueError | None


def _stage(decoder: TypedColumns, letters: str | None, send: Send | None, parts: Iterator[Part]) -> Iterator[Part]:
    """Decodes keys, or values. Of rows that become large there are several parts."""
    for rows, raw, error in parts:
        left = True
        while left:
            decoded, taken, bad, dead = now(decoder.read(Blocking._do, rows))
            part = raw.slice(0, taken)
            if dead and letters is not None and send is not None:
                send(letters, part, dead)
                part = slices(part, [row for row in range(taken) if row not in dead])
            left = bad is None and taken < rows.num_rows
            yield Part(decoded, part, None if left else bad or error)
            rows, raw = rows.slice(taken), raw.slice(taken)


def needs_headers(typed: Sequence[Typed]) -> bool:
    """Whether headers of records may say what keys or values were written with."""
    return any(_decoder(one).needs_headers for one in typed)


_DECODERS: OrderedDict[Typed, TypedColumns] = OrderedDict()
_MOST_DECODERS = 32


def _decoder(typed: Typed) -> TypedColumns:
    """One for all tasks of a worker, which knows the schemas that they met."""
    if typed not in _DECODERS:
        with on_this_host():
            _DECODERS[typed] = typed.decoder()
        while len(_DECODERS) > _MOST_DECODERS:
            _DECODERS.popitem(last=False)
    return _DECODERS[typed]


def arguments(given: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The arguments of a format, out of what can be hashed."""
    named = dict(given)
    if "imports" in named:
        named["imports"] = dict(named["imports"])
    return named


def registry_client(options: Iterable[tuple[str, str]]) -> SchemaRegistry:
    """The client of a registry, in this process.

    Args:
        options: without their prefix.

    Raises:
        ConfigurationError: they cannot be.
    """
    given = with_files(dict(options), REGISTRY)
    url, context = given.pop("url"), given.pop("context", None)
    name, password = given.pop("username", None), given.pop("password", None)
    if (name is None) != (password is None):
        raise ConfigurationError(f"options {REGISTRY}username and {REGISTRY}password must be set together")
    try:
        return SchemaRegistry(
            url, auth=None if name is None or password is None else (name, password), context=context, **given
        )
    except ConfigurationError as error:
        error.add_note(f"This is about the options {REGISTRY}*.")
        raise
