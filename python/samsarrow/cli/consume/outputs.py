"""Where rows go: text for terminals and pipes, CSV, Arrow and Parquet; files that are changed at a size or an age."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

import click
import pyarrow as pa

from samsarrow._core import Lines
from samsarrow.cli.consume.formats import COLUMNS, Rotation
from samsarrow.cli.consume.json_text import TypedLines
from samsarrow.offsets.disk import is_replaceable, sync_folder

# Rows of a row group of Parquet, and bytes, whichever is first: what readers take at a time.
GROUP_ROWS = 1 << 19
GROUP_BYTES = 128 << 20
TOPIC = pa.dictionary(pa.int32(), pa.string())


class Writer(Protocol):
    """Writes the rows of one file."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes rows."""

    def close(self) -> None:
        """Ends the file, which is whole then."""

    def abandon(self) -> None:
        """Ends without the rows that it holds: the file is thrown away, or stays as it is."""


class LineWriter:
    """Text, rendered by the core."""

    def __init__(self, out: IO[bytes], lines: Lines | TypedLines, array: bool) -> None:
        self._out, self._lines = out, lines
        self._array, self._begun = array, False

    def write(self, batch: pa.RecordBatch) -> None:  # noqa: D102 - see Writer
        text = self._lines.render(batch)
        if self._array and not self._begun:
            # Each item begins with the comma that parts it from the one before.
            self._begun = True
            text = b"[" + text[1:]
        self._out.write(text)

    def close(self) -> None:  # noqa: D102 - see Writer
        if self._array:
            self._out.write(b"\n]\n" if self._begun else b"[]\n")

    def abandon(self) -> None:  # noqa: D102 - see Writer
        pass


class CsvWriter:
    """CSV with a line of names, by pyarrow; its schema is that of the first rows."""

    def __init__(self, out: IO[bytes], schema: pa.Schema, names: bool = True) -> None:
        import pyarrow.csv

        options = pyarrow.csv.WriteOptions(include_header=names)
        self._writer = pyarrow.csv.CSVWriter(out, schema, write_options=options)

    @staticmethod
    def line_of_names(schema: pa.Schema) -> bytes:
        """Returns the first line of a file."""
        out = io.BytesIO()
        CsvWriter(out, schema).close()
        return out.getvalue()

    def write(self, batch: pa.RecordBatch) -> None:  # noqa: D102 - see Writer
        self._writer.write_batch(batch)

    def close(self) -> None:  # noqa: D102 - see Writer
        self._writer.close()

    def abandon(self) -> None:  # noqa: D102 - see Writer
        self._writer.close()


class ArrowWriter:
    """Arrow IPC: a stream in a pipe, a file in a file."""

    def __init__(self, out: IO[bytes], schema: pa.Schema, stream: bool, codec: str | None) -> None:
        options = pa.ipc.IpcWriteOptions(compression=codec)
        begin = pa.ipc.new_stream if stream else pa.ipc.new_file
        self._writer = begin(out, schema, options=options)

    def write(self, batch: pa.RecordBatch) -> None:  # noqa: D102 - see Writer
        self._writer.write_batch(batch)

    def close(self) -> None:  # noqa: D102 - see Writer
        self._writer.close()

    def abandon(self) -> None:  # noqa: D102 - see Writer
        self._writer.close()


class ParquetWriter:
    """Parquet, with row groups of a size that readers like."""

    def __init__(self, out: IO[bytes], schema: pa.Schema, codec: str) -> None:
        import pyarrow.parquet

        self._schema = schema
        # Keys and values seldom repeat, and nobody looks for the least of them: finding out costs a fifth of the time.
        payload = {"key", "value", "headers"} if schema.field("topic").type == TOPIC else set()
        payload -= {name for name in payload & set(schema.names) if pa.types.is_nested(schema.field(name).type)}
        payload |= {"headers", "raw_key", "raw_value"}
        rising = [name for name in ("offset", "timestamp") if name in schema.names]
        columns = [path for field in schema for path in _paths(field.name, field.type) if field.name not in payload]
        self._writer = pyarrow.parquet.ParquetWriter(
            out,
            schema,
            compression=codec,
            use_dictionary=[path for path in columns if path not in rising],
            write_statistics=columns,
            column_encoding=dict.fromkeys(rising, "DELTA_BINARY_PACKED"),
        )
        self._held: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:  # noqa: D102 - see Writer
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
            self._write()

    def _write(self) -> None:
        if self._held:
            # Chunks of topics may count differently in their dictionaries.
            table = pa.Table.from_batches(self._held, self._schema).unify_dictionaries()
            self._writer.write_table(table, row_group_size=GROUP_ROWS)
        self._held, self._rows, self._bytes = [], 0, 0

    def close(self) -> None:  # noqa: D102 - see Writer
        self._write()
        self._writer.close()

    def abandon(self) -> None:  # noqa: D102 - see Writer
        self._writer.close()


def _paths(name: str, kind: pa.DataType) -> list[str]:
    """The columns of Parquet that a column is written as."""
    if pa.types.is_struct(kind):
        return [path for field in kind for path in _paths(f"{name}.{field.name}", field.type)]
    if pa.types.is_list(kind):
        return _paths(f"{name}.list.element", kind.value_type)
    if pa.types.is_map(kind):
        return [f"{name}.key_value.key", *_paths(f"{name}.key_value.value", kind.item_type)]
    return [name]


@dataclass(frozen=True)
class Shape:
    """How rows look in a format.

    Attributes:
        form: one of `FORMATS`.
        lines: renders it, for the formats of text.
        text: whether keys and values are text in Arrow and Parquet.
        unpack: whether members of JSON values become columns.
        compress: the codec of arrow and parquet.
        typed: which of `key` and `value` came decoded.
    """

    form: str
    lines: Lines | TypedLines | None = None
    text: bool = False
    unpack: bool = False
    compress: str | None = None
    typed: frozenset[str] = frozenset()

    @property
    def wants_headers(self) -> bool:
        """Whether headers are written."""
        return self.lines.wants_headers if self.lines is not None else self.form != "csv"


@contextlib.contextmanager
def _writable(form: str) -> Iterator[None]:
    """Reports types that a format does not have, such as structs without fields in Parquet."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise click.ClickException(
            f"these rows cannot be written as {form}: {error}; with --value, --fields leaves a field out, and --format "
            "arrow has all types"
        ) from None


class Output:
    """Standard output, or a file, or one file after the other.

    A file of columns is there when it is whole: until then it has another name. Lines can be followed as they come.

    Args:
        shape: of the rows.
        path: of the file; None for standard output.
        rotation: when the next file begins.
        keep: whether rows go behind those that the file has, which a group will not read again.

    Raises:
        click.UsageError: the file has rows, and rows cannot be added to its format.
    """

    def __init__(self, shape: Shape, path: Path | None, rotation: Rotation | None, keep: bool = False) -> None:
        from samsarrow.cli.consume.layout import Shaper

        self._shaper = Shaper(shape)
        self._shape, self._path = shape, path
        self._rotation = rotation or Rotation()
        # Devices and pipes keep nothing.
        self._append = keep and rotation is None and path is not None and path.is_file() and path.stat().st_size > 0
        if self._append and (self._whole or shape.form == "json"):
            raise click.UsageError(
                f"{path} exists, and no rows can be added to {shape.form}: its rows would be lost, as the "
                "group does not read them again. Name another file, number the files with --rotate, or pass --overwrite"
            )
        self._number = 0
        self._writer: Writer | None = None
        self._out: IO[bytes] | None = None
        self._target: Path | None = None
        self._rows, self._since = 0, 0.0
        # Whether all that was written would outlive the process.
        self.settled = True

    def expect(self, schema: pa.Schema) -> None:
        """Says what batches look like, for the case that none has rows.

        Raises:
            click.UsageError: they cannot be written so.
        """
        self._shaper.schema = schema
        self._shaper.empty()

    @property
    def to_file(self) -> bool:
        """Whether standard output is left alone."""
        return self._path is not None

    @property
    def _whole(self) -> bool:
        """Whether a file is nothing before its end."""
        return self._shape.form in COLUMNS and self._shape.form != "csv"

    def write(self, batch: pa.RecordBatch) -> None:
        """Takes rows, some of which may lie in a file that is not yet whole: `settled` says so."""
        if self._path is not None and self._rotation.rows is not None:
            room = self._rotation.rows
            while batch.num_rows:
                part = batch.slice(0, room - self._rows)
                self._write(part)
                batch = batch.slice(part.num_rows)
        else:
            self._write(batch)

    def _write(self, batch: pa.RecordBatch) -> None:
        shaped = self._shaper.shaped(batch)
        with _writable(self._shape.form):
            writer = self._writer or self._open(shaped.schema)
            writer.write(shaped)
        self._rows += batch.num_rows
        self.settled = not self._whole
        self.tick()
        if not self._whole and self._out is not None:
            self._out.flush()

    def tick(self) -> None:
        """Looks whether the next file is due, also when no rows come."""
        if self._writer is None or self._path is None or self._out is None:
            return
        if self._rotation.due(self._rows, self._out.tell(), time.monotonic() - self._since):
            self._complete()

    def _open(self, schema: pa.Schema) -> Writer:
        self._out = sys.stdout.buffer if self._path is None else self._create()
        form, codec = self._shape.form, self._shape.compress
        stream = self._path is None or self._path.suffix == ".arrows"
        if self._shape.lines is not None:
            self._writer = LineWriter(self._out, self._shape.lines, form == "json")
        elif form == "csv":
            self._writer = CsvWriter(self._out, schema, names=not self._append or self._check_names(schema))
        elif form == "arrow":
            self._writer = ArrowWriter(self._out, schema, stream, None if codec == "none" else codec)
        else:
            self._writer = ParquetWriter(self._out, schema, codec or "snappy")
        self._rows, self._since = 0, time.monotonic()
        return self._writer

    def _create(self) -> IO[bytes]:
        """A file; with rotation the first number that is free, so that what an earlier run wrote stays."""
        assert self._path is not None
        # A draft takes the place of the file that a link names, not of the link.
        self._target = self._path.resolve()
        if self._rotation != Rotation():
            while True:
                self._number += 1
                self._target = self._path.with_name(f"{self._path.stem}-{self._number:06}{self._path.suffix}")
                if not self._target.exists():
                    break
        try:
            out = self._draft.open("ab+" if self._append else "wb")
            if self._append:
                # A command that was killed may have written a part of a line.
                out.seek(-1, io.SEEK_END)
                if out.read(1) != b"\n":
                    out.write(b"\n")
            return out
        except OSError as error:
            raise click.FileError(str(self._target), error.strerror) from None

    def _check_names(self, schema: pa.Schema) -> bool:
        """Returns False, as the file that rows are added to has a line of names.

        Raises:
            click.UsageError: the names are others.
        """
        assert self._path is not None
        names = CsvWriter.line_of_names(schema)
        with self._path.open("rb") as there:
            if there.read(len(names)).rstrip() != names.rstrip():
                raise click.UsageError(
                    f"{self._path} exists and has other columns than {names.decode().strip()}: no rows can be added. "
                    "Name another file, or pass --overwrite"
                )
        return False

    @property
    def _draft(self) -> Path:
        assert self._target is not None
        return self._target.with_name(f".{self._target.name}.part") if self._has_draft else self._target

    @property
    def _is_special(self) -> bool:
        """Returns whether the target is a device or a pipe, such as /dev/null: no file may replace it."""
        return self._target is not None and not is_replaceable(self._target)

    @property
    def _has_draft(self) -> bool:
        return self._whole and not self._is_special

    def _complete(self) -> None:
        import os

        if self._writer is None or self._out is None:
            return
        with _writable(self._shape.form):
            self._writer.close()
        self._out.flush()
        if self._path is not None and self._target is not None:
            special = self._is_special
            if not special:
                os.fsync(self._out.fileno())
            self._out.close()
            if not special:
                self._draft.replace(self._target)
                sync_folder(self._target.parent)
        self._writer, self._out, self._rows = None, None, 0
        self.settled = True

    def close(self) -> None:
        """Ends the file; one without rows is written too, with its columns, unless files follow each other."""
        if self._writer is None and (self._path is None or self._rotation == Rotation()) and not self._number:
            with _writable(self._shape.form):
                self._open(self._shaper.empty().schema)
        self._complete()
        self._number = self._number or 1

    def abandon(self) -> None:
        """Leaves no file that looks whole and is not."""
        if self._out is not None and self._path is not None:
            # A writer of pyarrow that is dropped open writes to its file, which is closed by then. The part that it
            # has yet to write may not be writable; the file is incomplete in both cases.
            with contextlib.suppress(OSError, pa.ArrowException):
                if self._writer is not None:
                    self._writer.abandon()
            with contextlib.suppress(OSError):
                self._out.close()
            if self._has_draft:
                self._draft.unlink(missing_ok=True)
        self._writer = self._out = None
