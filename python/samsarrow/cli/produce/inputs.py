"""Records out of files and pipes, as Arrow batches: lines, JSON, envelopes, CSV, Arrow, Parquet."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import IO, TypeVar

import click
import pyarrow as pa

from samsarrow import _core
from samsarrow.cli.produce import json_text
from samsarrow.cli.produce.json_text import Json
from samsarrow.cli.produce.quotes import Quotes

CHUNK = 1 << 20
LONGEST_LINE = 128 << 20
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# What `consume` writes: such a table is sent as it was read.
OURS = {"topic", "partition", "offset", "timestamp", "key", "value"}
Headers = list[tuple[str, bytes | None]]
T = TypeVar("T")


class InputError(click.ClickException):
    """What is to be sent cannot be read."""


@dataclass(frozen=True)
class Reading:
    """How input is read.

    Attributes:
        key_separator: parts key and value of a line.
        tombstone: whether an empty value is null.
        repartition: whether partitions of envelopes and tables are forgotten.
        headers: for each record, after its own.
        key: column of the keys.
        value: columns of the values.
        partition: column of the partitions.
        timestamp: column of the times.
        types: of columns of CSV; cells of all others are the bytes that the file has.
        key_type: of the key in CSV, where a format takes no text.
        value_type: of the value, or of a record of all its columns, likewise.
    """

    key_separator: bytes | None = None
    tombstone: bool = False
    repartition: bool = False
    headers: tuple[tuple[str, bytes | None], ...] = ()
    key: str | None = None
    value: tuple[str, ...] = ()
    partition: str | None = None
    timestamp: str | None = None
    types: dict[str, pa.DataType] = field(default_factory=dict)
    key_type: pa.DataType | None = None
    value_type: pa.DataType | None = None


@dataclass(frozen=True)
class Chunk:
    """Rows to send, and which columns are what.

    `first` is the number of the first line or row. `complete` rows have the headers of the command line already.
    """

    rows: pa.RecordBatch
    first: int
    key: str | None = None
    value: str | list[str] | None = None
    headers: str | None = None
    partition: str | None = None
    timestamp: str | None = None
    value_format: str | None = None
    complete: bool = False

    def with_headers(self, headers: Headers) -> Chunk:
        """The same with headers on each row.

        Raises:
            InputError: the rows have headers of their own.
        """
        if self.headers is not None:
            raise InputError("the rows have headers, which -H would replace")
        name = _free("headers", self.rows)
        every = pa.array([[{"key": key, "value": value} for key, value in headers]], HEADERS)
        column = every.take(pa.array([0] * self.rows.num_rows, pa.int32()))
        return replace(self, rows=self.rows.append_column(name, column), headers=name)

    def with_partition(self, partition: int) -> Chunk:
        """The same, all rows in one partition."""
        name = _free("partition", self.rows)
        column = pa.array([partition] * self.rows.num_rows, pa.int32())
        return replace(self, rows=self.rows.append_column(name, column), partition=name)


def _free(name: str, rows: pa.RecordBatch) -> str:
    while name in rows.schema.names:
        name = f"_{name}"
    return name


def chunks(form: str, stream: IO[bytes], name: str, reading: Reading) -> Iterator[Chunk]:
    """All rows of a file.

    Args:
        form: value, raw, json, ndjson, envelope, csv, arrow or parquet.
        stream: to read from.
        name: of the file, for messages.
        reading: what the command line says about it.

    Raises:
        InputError: it is not of that format; what came before was given already.
    """
    try:
        if form == "value":
            yield from _values(stream, name, reading)
        elif form == "raw":
            value = stream.read()
            yield Chunk(pa.record_batch({"value": pa.array([value], pa.large_binary())}), 1, value="value")
        elif form == "json":
            yield from _json(stream, name, reading)
        elif form in ("ndjson", "envelope"):
            parse = _envelope if form == "envelope" else _object
            for first, lines in _lines(stream, name):
                yield _records(
                    [parse(_loaded(json_text.members, line, f"{name}, line {at}"), f"{name}, line {at}") for at, line in
                     enumerate(lines, first) if line.strip()], first, reading,
                )  # fmt: skip
        else:
            yield from _tables(form, stream, name, reading)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InputError(f"{name} cannot be read as {form}: {error}") from None


def _lines(stream: IO[bytes], name: str) -> Iterator[tuple[int, list[bytes]]]:
    """Lines as they come, some at a time, with the number of the first."""
    # What is there already is sent already: a pipe may be slow.
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    rest, number = b"", 1
    while piece := read(CHUNK):
        whole, newline, rest = (rest + piece).rpartition(b"\n")
        if newline:
            lines = whole.split(b"\n")
            yield number, lines
            number += len(lines)
        if len(rest) > LONGEST_LINE:
            raise InputError(f"{name}, line {number}: longer than {LONGEST_LINE >> 20} MiB")
    if rest:
        yield number, [rest]


def _values(stream: IO[bytes], name: str, reading: Reading) -> Iterator[Chunk]:
    for first, lines in _lines(stream, name):
        values: list[bytes | None] = list(lines)
        columns = {}
        if (separator := reading.key_separator) is not None:
            parted = [line.partition(separator) for line in lines]
            for at, (_, found, _) in enumerate(parted, first):
                if not found:
                    # The lines before it are fine.
                    if at > first:
                        yield from _plain(parted[: at - first], first, reading)
                    raise InputError(f"{name}, line {at}: there is no {separator.decode()!r} between key and value")
            yield from _plain(parted, first, reading)
            continue
        if reading.tombstone:
            values = [value or None for value in lines]
        columns["value"] = pa.array(values, pa.binary())
        yield Chunk(pa.record_batch(columns), first, value="value")


def _plain(parted: list[tuple[bytes, bytes, bytes]], first: int, reading: Reading) -> Iterator[Chunk]:
    values = [(value or None) if reading.tombstone else value for _, _, value in parted]
    columns = {"key": pa.array([key for key, _, _ in parted], pa.binary()), "value": pa.array(values, pa.binary())}
    yield Chunk(pa.record_batch(columns), first, key="key", value="value")


@dataclass(frozen=True)
class Record:
    """One record as JSON has it; nothing is said of a partition or time that is None."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None = None
    timestamp: int | None = None


def _records(records: list[Record], first: int, reading: Reading) -> Chunk:
    headers = [
        [{"key": key, "value": value} for key, value in (*record.headers, *reading.headers)] for record in records
    ]
    partitions = [None if reading.repartition else record.partition for record in records]
    rows = pa.record_batch(
        {
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "headers": pa.array(headers, HEADERS),
            "partition": pa.array(partitions, pa.int32()),
            "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
        }
    )
    return Chunk(rows, first, "key", "value", "headers", "partition", "timestamp", complete=True)


def _loaded(read: Callable[[bytes], T], text: bytes, where: str) -> T:
    try:
        return read(text)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else f"it cannot be read: {error}"
        raise InputError(f"{where}: not JSON: {why}") from None


def _json(stream: IO[bytes], name: str, reading: Reading) -> Iterator[Chunk]:
    whole = _loaded(json_text.objects, stream.read(), name)
    if whole is None:
        raise InputError(f"{name} is not a JSON array; --format ndjson takes one object per line")
    for start in range(0, len(whole), 10_000):
        some = whole[start : start + 10_000]
        yield _records(
            [_object(one, f"{name}, item {at}") for at, one in enumerate(some, start + 1)], start + 1, reading
        )


def _object(given: dict[str, Json] | None, where: str) -> Record:
    """A record as `consume --format ndjson` writes it."""
    if given is None or not {"value", "value_base64"} & given.keys():
        raise InputError(
            f"{where}: a record is an object with a member value or value_base64 (and key, headers); --format value "
            "sends lines as they are"
        )
    return Record(_either(given, "key", where), _either(given, "value", where), _headers(given, where, _text))


def _either(given: dict[str, Json], name: str, where: str) -> bytes | None:
    if f"{name}_base64" in given:
        return _base64(given[f"{name}_base64"], f"{where}: {name}_base64")
    return _text(given[name], f"{where}: {name}") if name in given else None


def _text(given: Json, where: str) -> bytes | None:
    """Returns text as bytes, and anything else as it stands in the file."""
    value = given.value
    if value is None:
        return None
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return _base64(given.members()["base64"], where)
    try:
        return (value if isinstance(value, str) else given.raw).encode()
    except UnicodeEncodeError:
        raise InputError(f"{where}: half of a surrogate pair is not text") from None


def _base64(given: Json, where: str) -> bytes | None:
    if given.value is None:
        return None
    try:
        return base64.b64decode(given.value, validate=True)
    except (binascii.Error, TypeError, ValueError):
        raise InputError(f"{where}: not base64") from None


def _headers(given: dict[str, Json], where: str, read: Callable[[Json, str], bytes | None]) -> Headers:
    headers = given.get("headers")
    if headers is None or headers.value is None:
        return []
    if isinstance(headers.value, dict):
        return [(name, read(value, f"{where}: header {name}")) for name, value in headers.members().items()]
    found: Headers = []
    for pair in headers.items() if isinstance(headers.value, list) else [headers]:
        its = pair.items() if isinstance(pair.value, list) else []
        if len(its) != 2 or not isinstance(name := its[0].value, str):
            raise InputError(f'{where}: headers are pairs, [["name", "value"], …]')
        found.append((name, read(its[1], f"{where}: header {name}")))
    return found


def _envelope(given: dict[str, Json] | None, where: str) -> Record:
    """A record as `consume --format envelope` writes it."""
    if given is None or not {"key", "value", "headers", "partition", "timestamp"} <= given.keys():
        raise InputError(f"{where}: not an envelope, which has key, value, headers, partition and timestamp")
    for name, most in (("partition", 2**31), ("timestamp", 2**63)):
        number = given[name].value
        if number is not None and (not isinstance(number, int) or not 0 <= number < most):
            raise InputError(f"{where}: {name} is out of range")
    return Record(
        _base64(given["key"], f"{where}: key"),
        _base64(given["value"], f"{where}: value"),
        _headers(given, where, _base64),
        given["partition"].value,
        given["timestamp"].value,
    )


def _tables(form: str, stream: IO[bytes], name: str, reading: Reading) -> Iterator[Chunk]:
    first = 1
    for batch in _csv(stream, name, reading) if form == "csv" else _batches(form, stream):
        if batch.num_rows:
            yield _shaped(batch, first, name, reading)
        first += batch.num_rows


def _csv(stream: IO[bytes], name: str, reading: Reading) -> Iterator[pa.RecordBatch]:
    """Cells as the bytes that the file has, or of the types that were requested: Arrow's guesses are never used."""
    import pyarrow.csv

    names, lines = _csv_names(stream, name)
    _check_columns(names, name, reading)
    roles = _roles(names, reading)
    # Arrow rejects a stream of no rows.
    if not (first := stream.read(1)):
        return
    convert = pyarrow.csv.ConvertOptions(
        column_types={column: _csv_type(column, roles, reading) for column in names},
        # `consume` writes null as an empty cell, and empty text in quotes.
        strings_can_be_null=roles.ours,
        quoted_strings_can_be_null=False,
        null_values=[""],
    )
    quotes = Quotes(lines)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from pyarrow.csv.open_csv(
            _Prefixed(first, stream, quotes),
            read_options=pyarrow.csv.ReadOptions(column_names=names),
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
            convert_options=convert,
        )

    for batch in _closed(batches(), name, quotes):
        at = batch.schema.get_field_index(roles.timestamp) if roles.timestamp is not None else -1
        yield batch if at < 0 else batch.set_column(at, roles.timestamp, _times(batch.column(at)))


def _closed(batches: Iterator[pa.RecordBatch], name: str, quotes: Quotes) -> Iterator[pa.RecordBatch]:
    """Returns the batches without a last row that an unclosed quote has made of all rows behind it."""
    last: pa.RecordBatch | None = None
    try:
        for batch in batches:
            if last is not None:
                yield last
            last = batch
    except pa.ArrowInvalid as error:
        if (line := quotes.unclosed()) is None:
            raise
        raise InputError(f"{name}, line {line}: a cell in quotes is too long, or not closed: {error}") from None
    line = quotes.unclosed()
    if last is not None:
        yield last if line is None else last.slice(0, max(last.num_rows - 1, 0))
    if line is not None:
        raise InputError(f'{name}, line {line}: a quote is not closed: add the closing quote, or write it as ""')


class _Prefixed(io.RawIOBase):
    """A stream behind bytes that were read from it, whose quotes are followed."""

    def __init__(self, first: bytes, rest: IO[bytes], quotes: Quotes) -> None:
        self._first, self._rest, self._quotes = first, rest, quotes

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        first, self._first = self._first, b""
        data = first + self._rest.read(size - len(first) if size > 0 else size)
        self._quotes.feed(data)
        return data


def _csv_names(stream: IO[bytes], name: str) -> tuple[list[str], int]:
    """Returns the names in the first line, which may be quoted and have line ends of their own, and the lines read."""
    number = itertools.count()
    lines = (line.decode() for line in iter(lambda: stream.readline(LONGEST_LINE), b"") if next(number) >= 0)
    # A name in quotes is quoted only where no byte order mark is before it.
    first = (line.removeprefix("\ufeff") for line in itertools.islice(lines, 1))
    try:
        # Lines before it may be empty.
        names = next((names for names in csv.reader(itertools.chain(first, lines), strict=True) if names), None)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{name} cannot be read as csv: its line of names: {error}") from None
    if names is None:
        raise InputError(f"{name} cannot be read as csv: it has no line of names")
    return names, next(number)


def _csv_type(column: str, roles: Roles, reading: Reading) -> pa.DataType:
    if (requested := reading.types.get(column)) is not None:
        return requested
    if column == roles.partition:
        return pa.int32()
    if column == roles.timestamp:
        return pa.string()
    if column in roles.value and (roles.whole or len(roles.value) > 1):
        record = reading.value_type
        at = -1 if record is None or not pa.types.is_struct(record) else record.get_field_index(column)
        return pa.string() if record is None or at < 0 else _csv_scalar(record.field(at).type, pa.string())
    if column == roles.key:
        return _csv_scalar(reading.key_type, pa.binary())
    return _csv_scalar(reading.value_type if column in roles.value else None, pa.binary())


def _csv_scalar(kind: pa.DataType | None, default: pa.DataType) -> pa.DataType:
    """The type of cells for a type that a format takes."""
    if kind is None or pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return default
    kind = getattr(kind, "storage_type", kind)
    return default if _is_bytes(pa.nulls(0, kind)) and kind not in (pa.string(), pa.binary()) else kind


def _times(column: pa.Array) -> pa.Array:
    """Milliseconds since 1970, or times as ISO 8601 has them."""
    column = column.cast(pa.binary()).cast(pa.string())
    try:
        return column.cast(pa.int64())
    except pa.ArrowInvalid:
        pass
    try:
        return column.cast(pa.timestamp("ms", "UTC"))
    except pa.ArrowInvalid:
        return column.cast(pa.timestamp("ms"))


def _batches(form: str, stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
    if form == "parquet":
        import pyarrow.parquet

        seekable = stream if stream.seekable() else pa.BufferReader(stream.read())
        yield from pyarrow.parquet.ParquetFile(seekable).iter_batches()
    else:
        start = b"ARROW1"
        if stream.seekable() and stream.read(len(start)) == start:
            stream.seek(0)
            with pa.ipc.open_file(stream) as file:
                yield from (file.get_batch(number) for number in range(file.num_record_batches))
            return
        if stream.seekable():
            stream.seek(0)
        yield from pa.ipc.open_stream(stream)


@dataclass(frozen=True)
class Roles:
    """The columns of keys, values, partitions and timestamps; `ours` is whether `consume` wrote the table."""

    key: str | None
    value: list[str]
    whole: bool
    partition: str | None
    timestamp: str | None
    ours: bool


def _check_columns(names: list[str], name: str, reading: Reading) -> None:
    for column in (reading.key, *reading.value, reading.partition, reading.timestamp, *reading.types):
        if column is not None and column not in names:
            raise InputError(f"{name} has no column {column!r}; it has {', '.join(names)}")


def _roles(names: list[str], reading: Reading) -> Roles:
    ours = names.count("value") == 1 and set(names) >= OURS and not reading.value
    partition = reading.partition or ("partition" if ours and not reading.repartition else None)
    timestamp = reading.timestamp or ("timestamp" if ours else None)
    if reading.value or "value" in names:
        key = reading.key or ("key" if "key" in names else None)
        return Roles(key, list(reading.value) or ["value"], False, partition, timestamp, ours)
    value = [column for column in names if column not in (reading.key, reading.partition, reading.timestamp)]
    return Roles(reading.key, value, True, partition, timestamp, ours)


def _shaped(batch: pa.RecordBatch, first: int, name: str, reading: Reading) -> Chunk:
    """Returns the rows with the roles of their columns."""
    names = batch.schema.names
    _check_columns(names, name, reading)
    roles = _roles(names, reading)
    headers = "headers" if "headers" in names and pa.types.is_list(batch.schema.field("headers").type) else None
    value: str | list[str] = roles.value
    form: str | None = "json"
    if roles.whole:
        value = [column for column in roles.value if column != headers]
        if not value:
            raise InputError(f"{name} has no column for the value")
    elif len(roles.value) == 1:
        [value] = roles.value
        form = None if _is_bytes(batch.column(value)) else "json"
    return Chunk(batch, first, roles.key, value, headers, roles.partition, roles.timestamp, form)


def _is_bytes(column: pa.Array) -> bool:
    """Returns whether `send_batch` sends a column unchanged."""
    return _core.is_bytes(pa.record_batch([column], ["value"]))
