"""Columns of a DataFrame as typed keys and values: their schemas, which the driver settles, and tasks that encode."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa
from pyspark import TaskContext

from samsarrow._faces import Blocking, now
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.registry import RegisteredSchema
from samsarrow.spark.clients import on_this_host
from samsarrow.spark.types import converted
from samsarrow.spark.values import FORMATS, Schemed, arguments, registry_client
from samsarrow.values.decode import Format
from samsarrow.values.encode import Encoder, empty, encoder_of, raised

Ids: TypeAlias = tuple[tuple[tuple[str, str], int], ...]
"""Ids of schemas by subject and text."""


@dataclass(frozen=True)
class Encoded:
    """A column that is encoded as keys or values.

    Attributes:
        name: `key` or `value`.
        format: one of `FORMATS`, or of `PLAIN`.
        given: arguments of the format.
        registry: options of the registry's client; none without one. Tasks, which ask for nothing, have the url only.
        topic: that is written, where it is one.
        type: of the column.
        found: what the registry says is to be written, by subject.
        ids: of what was registered.
    """

    name: str
    format: str
    given: tuple[tuple[str, object], ...]
    registry: tuple[tuple[str, str], ...]
    topic: str | None
    type: pa.DataType
    found: tuple[tuple[str, RegisteredSchema], ...] = ()
    ids: Ids = ()

    def settled(self) -> Encoded:
        """The same with all that tasks need to know of a registry, where the schema is registered if it is to be.

        Raises:
            ConfigurationError: the column does not fit the schema, or there is none that says what is written.
            SchemaIncompatibleError: the registry refuses the schema, with its reasons.
            SchemaNotFoundError: the schema, or the subject, is to be registered already, and is not.
            RegistryError: the registry cannot be asked.
        """
        made = self._format()
        if isinstance(made, str):
            self._encoder(made)
            return self
        # What a micro-batch before has registered stays so; what is the latest may have changed.
        made._ids.update(_IDS.get(self, ()))
        self._encoder(made)
        _IDS[self] = ids = tuple(made._ids.items())
        while len(_IDS) > _MOST:
            _IDS.popitem(last=False)
        url = tuple(pair for pair in self.registry if pair[0] == "url")
        return replace(self, registry=url, found=tuple(made._found.items()), ids=ids)

    def encoder(self) -> Encoder:
        """What encodes the column in this process."""
        return self._encoder(self._format())

    def _encoder(self, made: Format) -> Encoder:
        like = empty(pa.schema([("value", self.type)]))
        try:
            return now(encoder_of(made, Blocking._do, like, self.topic, self.name == "key"))
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
        made: Schemed = FORMATS[self.format](**given)
        made._found.update(self.found)
        made._ids.update(self.ids)
        return made


# What was registered from this process, which Spark keeps from micro-batch to micro-batch: ids stay what they are.
_IDS: OrderedDict[Encoded, Ids] = OrderedDict()
_ENCODERS: OrderedDict[Encoded, Encoder] = OrderedDict()
_MOST = 32


def encoded(columns: Sequence[Encoded], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches of a task with keys and values as bytes.

    Raises:
        BadValueError: a row does not fit the schema; nothing of its batch is given.
    """
    row = 0
    for batch in batches:
        for one in columns:
            batch = _with_bytes(one, batch, row)
        yield batch
        row += batch.num_rows


def _with_bytes(one: Encoded, batch: pa.RecordBatch, before: int) -> pa.RecordBatch:
    column = converted(batch.column(one.name), one.type, one.name)
    done, bad = _encoder(one).encode(pa.record_batch({"value": column}))
    if done is None:
        error: BadValueError = raised(bad, before, one.topic)
        context = TaskContext.get()
        task = "" if context is None else f" of task {context.partitionId()}"
        error.add_note(f"It is in the column {one.name}; rows are counted from 0, among those{task}.")
        raise error
    # One that has more bytes than its offsets can count comes in several.
    parts = [part.column(0) for part in done]
    made = parts[0] if len(parts) == 1 else pa.concat_arrays([part.cast(pa.large_binary()) for part in parts])
    columns = {name: made if name == one.name else batch.column(name) for name in batch.schema.names}
    return pa.record_batch(columns)


def _encoder(one: Encoded) -> Encoder:
    """One for all tasks of a worker."""
    if one not in _ENCODERS:
        with on_this_host():
            _ENCODERS[one] = one.encoder()
        while len(_ENCODERS) > _MOST:
            _ENCODERS.popitem(last=False)
    return _ENCODERS[one]
