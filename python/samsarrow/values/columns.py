"""The columns of a consumer's batches that come decoded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from samsarrow import _core
from samsarrow._faces import Do
from samsarrow._rows import slices
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.types import ConsumerRecord, TopicPartition
from samsarrow.values.dead_letter import DeadLetter
from samsarrow.values.decode import PLAIN, Format, bad_value, decoder_of

if TYPE_CHECKING:
    from collections.abc import Iterator

OnDecodeError = Literal["raise", "null"] | DeadLetter


# Bytes of decoded columns after which a batch ends: a value of a few bytes may become 64 MiB.
LIMIT = 256 << 20


class Read(NamedTuple):
    """What a batch comes to.

    Attributes:
        rows: decoded, up to the first bad value where that is an error.
        taken: how many rows of the batch these are, with the dead ones.
        error: of the value behind the last row.
        dead: numbers of the rows that go to another topic, which are not among `rows`, with what is wrong.
    """

    rows: pa.RecordBatch
    taken: int
    error: BadValueError | None
    dead: dict[int, str]


class TypedColumns:
    """Keys and values of batches, in the formats of a consumer. One schema holds for its life."""

    def __init__(
        self,
        key_format: Format | None,
        value_format: Format | None,
        on_decode_error: OnDecodeError,
        raw_values: bool,
        include_headers: bool,
    ) -> None:
        if not isinstance(on_decode_error, DeadLetter) and on_decode_error not in ("raise", "null"):
            raise ConfigurationError(f"on_decode_error must be raise, null or a DeadLetter, not {on_decode_error!r}")
        formats = {"key": key_format, "value": value_format}
        self._formats: dict[str, Format] = {name: one for name, one in formats.items() if one is not None}
        for name, one in self._formats.items():
            if not isinstance(one, str) and not hasattr(one, "_in_headers"):
                raise ConfigurationError(
                    f"{name}_format must be Avro(…), Json(…) or Protobuf(…), or one of {', '.join(PLAIN)}, not {one!r}"
                )
        if not self._formats and (raw_values or on_decode_error != "raise"):
            raise ConfigurationError("on_decode_error and raw_values need a format: pass value_format")
        self._decoders: dict[str, _core.ValueDecoder] = {}
        self._on_decode_error = on_decode_error if isinstance(on_decode_error, str) else None
        self.letters = None if isinstance(on_decode_error, str) else on_decode_error
        self._raw = raw_values or on_decode_error == "null"
        self._headers = include_headers

    @property
    def needs_headers(self) -> bool:
        """Whether records have to come with their headers, which may name schemas and go where bad values go."""
        return self.letters is not None or any(
            not isinstance(one, str) and one._in_headers for one in self._formats.values()
        )

    @property
    def ready(self) -> bool:
        """Whether it is known what rows look like."""
        return len(self._decoders) == len(self._formats)

    async def prepare(self, do: Do, topics: set[str]) -> None:
        """Finds out what rows look like, which a registry may have to say.

        Args:
            do: how calls are waited for.
            topics: that are read, as far as they are known.
        """
        topic = next(iter(topics)) if len(topics) == 1 else None
        found = {name: await decoder_of(one, do, topic, name == "key") for name, one in self._formats.items()}
        self._decoders = found

    def empty(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """No rows, in the schema of all batches."""
        none = pa.record_batch({"value": pa.nulls(0)})
        columns = {name: decoder.decode(none, False, False)[0] for name, decoder in self._decoders.items()}
        return self._assembled(raw.slice(0, 0), columns)

    async def read(self, do: Do, raw: pa.RecordBatch) -> Read:
        """Decodes a batch, or as many of its rows as become no more than `LIMIT`."""
        strict = self._on_decode_error == "raise"
        columns, first = {}, None
        for name, decoder in self._decoders.items():
            one, key = self._formats[name], name == "key"
            batch = pa.record_batch({"value": raw.column(name), **_headers(raw)})
            if not isinstance(one, str):
                await one._learn(do, decoder, batch, key)
            columns[name], bad = decoder.decode(batch, key, strict, LIMIT)
            if bad is not None and (first is None or bad[0] < first[1][0]):
                first = (name, bad)
        taken = min(rows.num_rows for rows in columns.values())
        columns = {name: rows.slice(0, taken) for name, rows in columns.items()}
        rows, dead = self._assembled(raw.slice(0, taken), columns), {}
        if first is not None and first[1][0] == taken:
            return Read(rows, taken, _error(raw, *first), {})
        if self.letters is not None:
            dead = _dead(columns)
            if dead:
                rows = slices(rows, [row for row in range(rows.num_rows) if row not in dead])
        return Read(rows, taken, None, dead)

    @staticmethod
    def records(batch: pa.RecordBatch) -> Iterator[ConsumerRecord]:
        """Rows of a batch that was decoded, one by one."""
        names = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value")
        columns: list[Sequence[Any]] = [
            batch.column(name).cast("int64").to_pylist() if name == "timestamp" else batch.column(name).to_pylist()
            for name in names
        ]
        headers = batch.column("headers").to_pylist() if "headers" in batch.schema.names else [None] * batch.num_rows
        for *row, pairs in zip(*columns, headers, strict=True):
            topic, partition, offset, timestamp, timestamp_type, key, value = row
            given = [(one["key"], one["value"]) for one in pairs or ()]
            yield ConsumerRecord(topic, partition, offset, timestamp, timestamp_type, key, value, given)

    def _assembled(self, raw: pa.RecordBatch, columns: dict[str, pa.RecordBatch]) -> pa.RecordBatch:
        made: list[tuple[pa.Field, pa.Array]] = []
        for field in raw.schema:
            if field.name in columns:
                column = columns[field.name].column("value")
                made.append((pa.field(field.name, column.type), column))
            elif field.name != "headers" or self._headers:
                made.append((field, raw.column(field.name)))
        for name in columns:
            if self._raw:
                made.append((raw.schema.field(name).with_name(f"raw_{name}"), raw.column(name)))
            if self._on_decode_error == "null":
                made.append((pa.field(f"{name}_error", pa.string()), columns[name].column("error")))
        schema = pa.schema([field for field, _ in made], raw.schema.metadata)
        return pa.record_batch([column for _, column in made], schema)


def _headers(raw: pa.RecordBatch) -> dict[str, pa.Array]:
    return {"headers": raw.column("headers")} if "headers" in raw.schema.names else {}


def _error(raw: pa.RecordBatch, name: str, bad: tuple[int, int | bytes | None, str, str, str | None]) -> BadValueError:
    topic, partition, offset = (raw.column(one)[bad[0]].as_py() for one in ("topic", "partition", "offset"))
    error = bad_value(bad, bad[0], f"{topic}-{partition}", f"offset {offset}", "key" if name == "key" else None)
    error.partition, error.offset = TopicPartition(topic, partition), offset
    return error


def _dead(columns: dict[str, pa.RecordBatch]) -> dict[int, str]:
    """What is wrong with keys and values, by row."""
    dead: dict[int, str] = {}
    for name, rows in columns.items():
        errors = rows.column("error")
        if errors.null_count < len(errors):
            for row, text in enumerate(errors.to_pylist()):
                if text is not None:
                    dead[row] = "; ".join(filter(None, (dead.get(row), f"{name}: {text}")))
    return dead
