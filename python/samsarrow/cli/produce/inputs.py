"""Readers of input files and pipes as Arrow batches: lines, JSON, envelopes, CSV, Arrow, Parquet."""

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
from samsarrow.types import to_milliseconds

CHUNK = 1 << 20
MAX_LINE = 128 << 20
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# Columns of tables that `consume` writes. Rows of such tables are sent with their partitions and timestamps.
CONSUME_COLUMNS = {"topic", "partition", "offset", "timestamp", "key", "value"}
Headers = list[tuple[str, bytes | None]]
T = TypeVar("T")


class InputError(click.ClickException):
    """The input cannot be read as the expected format."""


@dataclass(frozen=True)
class InputOptions:
    """Options of the input.

    Attributes:
        key_separator: separator between key and value in a line; None if lines have no keys.
        tombstone: whether an empty value is sent as null.
        repartition: whether partition numbers in the input are ignored.
        headers: headers of the command line, which are added to each record.
        key: name of the column of keys.
        value: names of the columns of values.
        partition: name of the column of partition numbers.
        timestamp: name of the column of timestamps.
        types: types of CSV columns. Cells of other columns are sent as the bytes in the file.
        key_type: type of the key column in CSV; None if the key is sent as bytes.
        value_type: type of the value column in CSV, or of the record of all value columns; None if the value is sent as
            bytes.
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
    """Rows to send, and the names of their columns for keys, values and so on.

    `first` is the number of the first line or row. `complete` is true if the rows already include the headers given
    with `-H`.
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
        """Returns the chunk with the same headers added to each row.

        Raises:
            InputError: the rows already have headers.
        """
        if self.headers is not None:
            raise InputError("the rows have headers, which -H would replace")
        name = _unused("headers", self.rows)
        every = pa.array([[{"key": key, "value": value} for key, value in headers]], HEADERS)
        column = every.take(pa.array([0] * self.rows.num_rows, pa.int32()))
        return replace(self, rows=self.rows.append_column(name, column), headers=name)

    def with_partition(self, partition: int) -> Chunk:
        """Returns the chunk with a partition number added to each row."""
        name = _unused("partition", self.rows)
        column = pa.array([partition] * self.rows.num_rows, pa.int32())
        return replace(self, rows=self.rows.append_column(name, column), partition=name)


def _unused(name: str, rows: pa.RecordBatch) -> str:
    while name in rows.schema.names:
        name = f"_{name}"
    return name


def chunks(form: str, stream: IO[bytes], name: str, options: InputOptions) -> Iterator[Chunk]:
    """Yields all rows of a file.

    Args:
        form: value, raw, json, ndjson, envelope, csv, arrow or parquet.
        stream: stream to read from.
        name: name of the file, for messages.
        options: options of the input.

    Raises:
        InputError: the input does not have this format. The rows before the error have been yielded.
    """
    try:
        if form == "value":
            yield from _values(stream, name, options)
        elif form == "raw":
            value = stream.read()
            yield Chunk(pa.record_batch({"value": pa.array([value], pa.large_binary())}), 1, value="value")
        elif form == "json":
            yield from _json(stream, name, options)
        elif form in ("ndjson", "envelope"):
            parse = _envelope if form == "envelope" else _object
            for first, lines in _lines(stream, name):
                yield _records(
                    [parse(_loaded(json_text.members, line, f"{name}, line {at}"), f"{name}, line {at}") for at, line in
                     enumerate(lines, first) if line.strip()], first, options,
                )  # fmt: skip
        else:
            yield from _tables(form, stream, name, options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InputError(f"{name} cannot be read as {form}: {error}") from None


def _lines(stream: IO[bytes], name: str) -> Iterator[tuple[int, list[bytes]]]:
    """Yields lists of lines as they arrive, each list with the number of its first line."""
    # `read1` returns available data without waiting for a full chunk, because a pipe may be slow.
    read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
    rest, number = b"", 1
    while piece := read(CHUNK):
        complete, newline, rest = (rest + piece).rpartition(b"\n")
        if newline:
            lines = complete.split(b"\n")
            yield number, lines
            number += len(lines)
        if len(rest) > MAX_LINE:
            raise InputError(f"{name}, line {number}: longer than {MAX_LINE >> 20} MiB")
    if rest:
        yield number, [rest]


def _values(stream: IO[bytes], name: str, options: InputOptions) -> Iterator[Chunk]:
    for first, lines in _lines(stream, name):
        values: list[bytes | None] = list(lines)
        columns = {}
        if (separator := options.key_separator) is not None:
            pairs = [line.partition(separator) for line in lines]
            for number, (_, matched, _) in enumerate(pairs, first):
                if not matched:
                    # Sends the lines before the invalid line.
                    if number > first:
                        yield from _pairs(pairs[: number - first], first, options)
                    raise InputError(f"{name}, line {number}: there is no {separator.decode()!r} between key and value")
            yield from _pairs(pairs, first, options)
            continue
        if options.tombstone:
            values = [value or None for value in lines]
        columns["value"] = pa.array(values, pa.binary())
        yield Chunk(pa.record_batch(columns), first, value="value")


def _pairs(pairs: list[tuple[bytes, bytes, bytes]], first: int, options: InputOptions) -> Iterator[Chunk]:
    values = [(value or None) if options.tombstone else value for _, _, value in pairs]
    columns = {"key": pa.array([key for key, _, _ in pairs], pa.binary()), "value": pa.array(values, pa.binary())}
    yield Chunk(pa.record_batch(columns), first, key="key", value="value")


@dataclass(frozen=True)
class Record:
    """A record that was read from JSON. Partition and timestamp are None if not set."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    partition: int | None = None
    timestamp: int | None = None


def _records(records: list[Record], first: int, options: InputOptions) -> Chunk:
    headers = [
        [{"key": key, "value": value} for key, value in (*record.headers, *options.headers)] for record in records
    ]
    partitions = [None if options.repartition else record.partition for record in records]
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
        reason = error.msg if isinstance(error, json.JSONDecodeError) else f"it cannot be read: {error}"
        raise InputError(f"{where}: not JSON: {reason}") from None


def _json(stream: IO[bytes], name: str, options: InputOptions) -> Iterator[Chunk]:
    items = _loaded(json_text.objects, stream.read(), name)
    if items is None:
        raise InputError(f"{name} is not a JSON array; --format ndjson takes one object per line")
    for start in range(0, len(items), 10_000):
        part = items[start : start + 10_000]
        records = [_object(item, f"{name}, item {number}") for number, item in enumerate(part, start + 1)]
        yield _records(records, start + 1, options)


def _object(given: dict[str, Json] | None, where: str) -> Record:
    """Reads a record in the format of `consume --format ndjson`."""
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
    """Returns a string as UTF-8 bytes, and any other value as the bytes of its JSON text in the file."""
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
        parts = pair.items() if isinstance(pair.value, list) else []
        if len(parts) != 2 or not isinstance(name := parts[0].value, str):
            raise InputError(f'{where}: headers are pairs, [["name", "value"], …]')
        found.append((name, read(parts[1], f"{where}: header {name}")))
    return found


def _envelope(given: dict[str, Json] | None, where: str) -> Record:
    """Reads a record in the format of `consume --format envelope`."""
    if given is None or not {"key", "value", "headers", "partition", "timestamp"} <= given.keys():
        raise InputError(f"{where}: not an envelope, which has key, value, headers, partition and timestamp")
    for name, limit in (("partition", 2**31), ("timestamp", 2**63)):
        number = given[name].value
        if number is not None and (not isinstance(number, int) or not 0 <= number < limit):
            raise InputError(f"{where}: {name} is out of range")
    return Record(
        _base64(given["key"], f"{where}: key"),
        _base64(given["value"], f"{where}: value"),
        _headers(given, where, _base64),
        given["partition"].value,
        given["timestamp"].value,
    )


def _tables(form: str, stream: IO[bytes], name: str, options: InputOptions) -> Iterator[Chunk]:
    first = 1
    for batch in _csv(stream, name, options) if form == "csv" else _batches(form, stream):
        if batch.num_rows:
            yield _shaped(batch, first, name, options)
        first += batch.num_rows


def _csv(stream: IO[bytes], name: str, options: InputOptions) -> Iterator[pa.RecordBatch]:
    """Reads cells as bytes, or with the requested types. Arrow's type inference is not used."""
    import pyarrow.csv

    names, lines = _csv_names(stream, name)
    _check_columns(names, name, options)
    roles = _roles(names, options)
    # Returns if the file has no rows, because Arrow raises an error then.
    if not (first := stream.read(1)):
        return
    convert = pyarrow.csv.ConvertOptions(
        column_types={column: _csv_type(column, roles, options) for column in names},
        # `consume` writes null as an empty cell, and empty text as two quotes.
        strings_can_be_null=roles.from_consume,
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

    for batch in _check_quotes(batches(), name, quotes):
        at = batch.schema.get_field_index(roles.timestamp) if roles.timestamp is not None else -1
        yield batch if at < 0 else batch.set_column(at, roles.timestamp, _times(batch.column(at)))


def _check_quotes(batches: Iterator[pa.RecordBatch], name: str, quotes: Quotes) -> Iterator[pa.RecordBatch]:
    """Yields batches. If a quote is not closed, omits the last row, which contains it, and raises an error."""
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
    """A stream of `first` and `rest`, which passes all bytes that are read to `Quotes`."""

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
    """Returns the column names in the header, and the number of lines read. Quoted names may contain line breaks."""
    number = itertools.count()
    lines = (line.decode() for line in iter(lambda: stream.readline(MAX_LINE), b"") if next(number) >= 0)
    # Removes a byte order mark, because the quote of the first name would not be recognized after it.
    first = (line.removeprefix("\ufeff") for line in itertools.islice(lines, 1))
    try:
        # Skips empty lines before the header line.
        names = next((names for names in csv.reader(itertools.chain(first, lines), strict=True) if names), None)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError(f"{name} cannot be read as csv: its line of names: {error}") from None
    if names is None:
        raise InputError(f"{name} cannot be read as csv: it has no line of names")
    return names, next(number)


def _csv_type(column: str, roles: Roles, options: InputOptions) -> pa.DataType:
    if (requested := options.types.get(column)) is not None:
        return requested
    if column == roles.partition:
        return pa.int32()
    if column == roles.timestamp:
        return pa.string()
    if column in roles.value and (roles.whole or len(roles.value) > 1):
        record = options.value_type
        at = -1 if record is None or not pa.types.is_struct(record) else record.get_field_index(column)
        return pa.string() if record is None or at < 0 else _csv_scalar(record.field(at).type, pa.string())
    if column == roles.key:
        return _csv_scalar(options.key_type, pa.binary())
    return _csv_scalar(options.value_type if column in roles.value else None, pa.binary())


def _csv_scalar(kind: pa.DataType | None, default: pa.DataType) -> pa.DataType:
    """Returns the type as which CSV cells are parsed, so that a format can encode them as `kind`."""
    if kind is None or pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
        return default
    kind = getattr(kind, "storage_type", kind)
    return default if _is_bytes(pa.nulls(0, kind)) and kind not in (pa.string(), pa.binary()) else kind


def _times(column: pa.Array) -> pa.Array:
    """Parses a column of milliseconds since 1970, or of ISO 8601 times."""
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
    """Names of the columns of keys, values, partitions and timestamps.

    `whole` is true if all other columns form the value. `from_consume` is true for a table that `consume` wrote.
    """

    key: str | None
    value: list[str]
    whole: bool
    partition: str | None
    timestamp: str | None
    from_consume: bool


def _check_columns(names: list[str], name: str, options: InputOptions) -> None:
    for column in (options.key, *options.value, options.partition, options.timestamp, *options.types):
        if column is not None and column not in names:
            raise InputError(f"{name} has no column {column!r}; it has {', '.join(names)}")


def _roles(names: list[str], options: InputOptions) -> Roles:
    from_consume = names.count("value") == 1 and set(names) >= CONSUME_COLUMNS and not options.value
    partition = options.partition or ("partition" if from_consume and not options.repartition else None)
    timestamp = options.timestamp or ("timestamp" if from_consume else None)
    if options.value or "value" in names:
        key = options.key or ("key" if "key" in names else None)
        return Roles(key, list(options.value) or ["value"], False, partition, timestamp, from_consume)
    value = [column for column in names if column not in (options.key, options.partition, options.timestamp)]
    return Roles(options.key, value, True, partition, timestamp, from_consume)


def _shaped(batch: pa.RecordBatch, first: int, name: str, options: InputOptions) -> Chunk:
    """Returns the rows as a chunk, with the columns of keys, values and so on."""
    names = batch.schema.names
    _check_columns(names, name, options)
    roles = _roles(names, options)
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
    if roles.timestamp is not None:
        at = batch.schema.get_field_index(roles.timestamp)
        batch = batch.set_column(at, roles.timestamp, _in_utc(batch.column(at)))
    return Chunk(batch, first, roles.key, value, headers, roles.partition, roles.timestamp, form)


def _in_utc(column: pa.Array) -> pa.Array:
    """Converts timestamps without a time zone, which are local times as in all commands; returns others unchanged."""
    if not pa.types.is_timestamp(column.type) or column.type.tz is not None:
        return column
    times = column.cast(pa.timestamp("us"), safe=False).to_pylist()
    return pa.array([None if time is None else to_milliseconds(time) for time in times], pa.timestamp("ms", "UTC"))


def _is_bytes(column: pa.Array) -> bool:
    """Returns true if `send_batch` sends a column unchanged."""
    return _core.is_bytes(pa.record_batch([column], ["value"]))
