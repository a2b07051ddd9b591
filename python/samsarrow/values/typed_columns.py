"""Decoding of the key and value columns of a consumer's batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from samsarrow import _core
from samsarrow._bounded_reader import slice_rows
from samsarrow._sync import RunCall
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.types import ConsumerRecord, TopicPartition
from samsarrow.values.dead_letter import DeadLetter
from samsarrow.values.decode import Format, check_format, decode_error, make_decoder

if TYPE_CHECKING:
    from collections.abc import Iterator

OnDecodeError = Literal["raise", "null"] | DeadLetter


# Maximum bytes of decoded columns in a batch. The limit is needed because a value of a few bytes can decode to 64 MiB.
LIMIT = 256 << 20


class Read(NamedTuple):
    """Result of decoding a batch.

    Attributes:
        rows: decoded rows, up to the first bad value if bad values are errors.
        taken: number of rows of the batch that were processed, including rows in `dead`.
        error: decode error of the row that follows the processed rows; None if that row is valid or does not exist.
        dead: decode errors of the rows that go to the dead letter topic, by row number. These rows are not in `rows`.
    """

    rows: pa.RecordBatch
    taken: int
    error: BadValueError | None
    dead: dict[int, str]


class TypedColumns:
    """Decoders of a consumer's keys and values. All decoded batches of the consumer have the same schema."""

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
        self._formats: dict[str, Format] = {name: value for name, value in formats.items() if value is not None}
        for name, value in self._formats.items():
            check_format(value, f"{name}_format")
        if not self._formats and (raw_values or on_decode_error != "raise"):
            raise ConfigurationError("on_decode_error and raw_values need a format: pass value_format")
        self._decoders: dict[str, _core.ValueDecoder] = {}
        self._on_decode_error = on_decode_error if isinstance(on_decode_error, str) else None
        self.letters = None if isinstance(on_decode_error, str) else on_decode_error
        self._raw = raw_values or on_decode_error == "null"
        self._headers = include_headers

    @property
    def needs_headers(self) -> bool:
        """True if batches must include headers, because headers may identify schemas, or are sent with dead letters."""
        return self.letters is not None or any(
            not isinstance(value, str) and value._in_headers for value in self._formats.values()
        )

    @property
    def ready(self) -> bool:
        """True once `prepare` has set the schema of the rows."""
        return len(self._decoders) == len(self._formats)

    async def prepare(self, run: RunCall, topics: set[str]) -> None:
        """Creates the decoders. Fetches row schemas from the registry if necessary.

        Args:
            run: function that waits for a call of the Rust client, by blocking or awaiting.
            topics: topics that are read, if they are known.
        """
        topic = next(iter(topics)) if len(topics) == 1 else None
        self._decoders = {
            name: await make_decoder(value, run, topic, name == "key") for name, value in self._formats.items()
        }

    def empty(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """Returns an empty batch with the schema of all batches."""
        none = pa.record_batch({"value": pa.nulls(0)})
        columns = {name: decoder.decode(none, False, False)[0] for name, decoder in self._decoders.items()}
        return self._assembled(raw.slice(0, 0), columns)

    async def read(self, run: RunCall, raw: pa.RecordBatch) -> Read:
        """Decodes a batch, or its first rows if the decoded batch would exceed `LIMIT` bytes."""
        strict = self._on_decode_error == "raise"
        columns, first_error = {}, None
        for name, decoder in self._decoders.items():
            format, key = self._formats[name], name == "key"  # noqa: A001 - the name of the argument everywhere
            batch = pa.record_batch({"value": raw.column(name), **_headers(raw)})
            if not isinstance(format, str):
                await format._learn(run, decoder, batch, key)
            columns[name], bad = decoder.decode(batch, key, strict, LIMIT)
            if bad is not None and (first_error is None or bad[0] < first_error[1][0]):
                first_error = (name, bad)
        taken = min(rows.num_rows for rows in columns.values())
        columns = {name: rows.slice(0, taken) for name, rows in columns.items()}
        rows, dead = self._assembled(raw.slice(0, taken), columns), {}
        if first_error is not None and first_error[1][0] == taken:
            return Read(rows, taken, _error(raw, *first_error), {})
        if self.letters is not None:
            dead = _dead(columns)
            if dead:
                rows = slice_rows(rows, [row for row in range(rows.num_rows) if row not in dead])
        return Read(rows, taken, None, dead)

    @staticmethod
    def records(batch: pa.RecordBatch) -> Iterator[ConsumerRecord]:
        """Yields the rows of a decoded batch as records."""
        names = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value")
        columns: list[Sequence[Any]] = [
            batch.column(name).cast("int64").to_pylist() if name == "timestamp" else batch.column(name).to_pylist()
            for name in names
        ]
        headers, epochs, counts = (
            batch.column(name).to_pylist() if name in batch.schema.names else [None] * batch.num_rows
            for name in ("headers", "leader_epoch", "delivery_count")
        )
        for *row, pairs, epoch, count in zip(*columns, headers, epochs, counts, strict=True):
            topic, partition, offset, timestamp, timestamp_type, key, value = row
            of_record = [(pair["key"], pair["value"]) for pair in pairs or ()]
            yield ConsumerRecord(
                topic, partition, offset, timestamp, timestamp_type, key, value, of_record, epoch, count
            )

    def _assembled(self, raw: pa.RecordBatch, columns: dict[str, pa.RecordBatch]) -> pa.RecordBatch:
        assembled: list[tuple[pa.Field, pa.Array]] = []
        for field in raw.schema:
            if field.name in columns:
                column = columns[field.name].column("value")
                assembled.append((pa.field(field.name, column.type), column))
            elif field.name != "headers" or self._headers:
                assembled.append((field, raw.column(field.name)))
        for name in columns:
            if self._raw:
                assembled.append((raw.schema.field(name).with_name(f"raw_{name}"), raw.column(name)))
            if self._on_decode_error == "null":
                assembled.append((pa.field(f"{name}_error", pa.string()), columns[name].column("error")))
        schema = pa.schema([field for field, _ in assembled], raw.schema.metadata)
        return pa.record_batch([column for _, column in assembled], schema)


def _headers(raw: pa.RecordBatch) -> dict[str, pa.Array]:
    return {"headers": raw.column("headers")} if "headers" in raw.schema.names else {}


def _error(raw: pa.RecordBatch, name: str, bad: tuple[int, int | bytes | None, str, str, str | None]) -> BadValueError:
    topic, partition, offset = (raw.column(column)[bad[0]].as_py() for column in ("topic", "partition", "offset"))
    error = decode_error(bad, bad[0], f"{topic}-{partition}", f"offset {offset}", "key" if name == "key" else None)
    error.partition, error.offset = TopicPartition(topic, partition), offset
    return error


def _dead(columns: dict[str, pa.RecordBatch]) -> dict[int, str]:
    """Returns the decode errors of keys and values, by row number."""
    dead: dict[int, str] = {}
    for name, rows in columns.items():
        errors = rows.column("error")
        if errors.null_count < len(errors):
            for row, text in enumerate(errors.to_pylist()):
                if text is not None:
                    dead[row] = "; ".join(filter(None, (dead.get(row), f"{name}: {text}")))
    return dead
