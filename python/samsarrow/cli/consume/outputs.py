"""Output of rows as text, CSV, Arrow or Parquet, to standard output or to files with rotation."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import click
import pyarrow as pa
import pyarrow.compute as pc

from samsarrow._core import csv_lines
from samsarrow._parquet import ParquetWriter
from samsarrow.cli.consume.formats import COLUMNS, Rotation
from samsarrow.offsets.disk import is_replaceable, sync_folder

# Milliseconds of the first and last time that is written with a year of four digits.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999


class Writer(Protocol):
    """Writer of the rows of one file."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes rows."""

    def close(self) -> None:
        """Completes the file."""

    def abandon(self) -> None:
        """Closes the writer without writing buffered rows. The caller then deletes the file, or leaves it as it is."""


class LineRenderer(Protocol):
    """Renderer of rows as lines of text."""

    @property
    def wants_headers(self) -> bool:
        """True if headers are written."""

    def render(self, batch: pa.RecordBatch) -> Iterable[bytes]:
        """Returns the text of all rows of a batch, in parts."""


class LineWriter:
    """Writer of text formats."""

    def __init__(self, out: IO[bytes], lines: LineRenderer, array: bool) -> None:
        self._out, self._lines = out, lines
        self._array, self._begun = array, False

    def write(self, batch: pa.RecordBatch) -> None:  # noqa: D102 - see Writer
        for text in self._lines.render(batch):
            if self._array and not self._begun:
                # Each rendered item begins with a comma, which is removed from the first item.
                self._begun = True
                text = b"[" + text[1:]
            self._out.write(text)

    def close(self) -> None:  # noqa: D102 - see Writer
        if self._array:
            self._out.write(b"\n]\n" if self._begun else b"[]\n")

    def abandon(self) -> None:  # noqa: D102 - see Writer
        pass


class CsvWriter:
    """Writer of CSV, by default with a header line. All rows have the schema of the first rows.

    The lines equal those of `pyarrow.csv`, which takes five times longer.
    """

    def __init__(self, out: IO[bytes], schema: pa.Schema, names: bool = True) -> None:
        self._out, self._schema = out, schema
        if names:
            out.write(self.line_of_names(schema))

    @staticmethod
    def line_of_names(schema: pa.Schema) -> bytes:
        """Returns the header line of a file with this schema."""
        return (",".join('"' + name.replace('"', '""') + '"' for name in schema.names) + "\n").encode()

    def write(self, batch: pa.RecordBatch) -> None:  # noqa: D102 - see Writer
        if not batch.schema.equals(self._schema):
            raise pa.ArrowInvalid(f"the columns changed from {self._schema} to {batch.schema}")
        columns = [_csv_column(column) for column in batch.columns]
        for text in csv_lines(pa.record_batch(columns, batch.schema.names)):
            self._out.write(text)

    def close(self) -> None:  # noqa: D102 - see Writer
        pass

    def abandon(self) -> None:  # noqa: D102 - see Writer
        pass


def _csv_column(column: Any) -> Any:
    """Returns a column as `csv_lines` takes it: text that is not quoted is binary."""
    kind = column.type
    if kind == pa.string() or (pa.types.is_integer(kind) and kind != pa.uint64()):
        return column
    if kind == pa.timestamp("ms", "UTC"):
        limits = pc.min_max(column.cast(pa.int64())).as_py()
        if limits["min"] is None or (limits["min"] >= FIRST_MS and limits["max"] <= LAST_MS):
            return column
    text = column.cast(pa.string())
    quoted = pa.types.is_large_string(kind) or pa.types.is_binary(kind) or pa.types.is_dictionary(kind)
    return text if quoted else text.cast(pa.binary())


class ArrowWriter:
    """Writer of Arrow IPC, in the stream or the file format."""

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


@dataclass(frozen=True)
class OutputFormat:
    """An output format and its options.

    Attributes:
        form: one of `FORMATS`.
        lines: renderer of text formats.
        text: whether keys and values are written as text in Arrow and Parquet.
        unpack: whether members of JSON values become columns.
        compress: compression codec of Arrow and Parquet; None for the default.
        typed: names of the decoded columns, `key` or `value` or both.
    """

    form: str
    lines: LineRenderer | None = None
    text: bool = False
    unpack: bool = False
    compress: str | None = None
    typed: frozenset[str] = frozenset()

    @property
    def wants_headers(self) -> bool:
        """True if the format writes record headers."""
        return self.lines.wants_headers if self.lines is not None else self.form != "csv"


@contextlib.contextmanager
def _writable(form: str) -> Iterator[None]:
    """Explains errors about types that a format does not support, such as structs without fields in Parquet."""
    try:
        yield
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise click.ClickException(
            f"these rows cannot be written as {form}: {error}; with --value, --fields leaves a field out, and --format "
            "arrow has all types"
        ) from None


class Output:
    """Writer of rows to standard output, to a file, or to a sequence of files.

    Arrow and Parquet files have a temporary name until they are complete. Lines are flushed after each batch.

    Args:
        output_format: format of the rows.
        path: path of the file; None for standard output.
        rotation: limits of each file.
        keep: whether rows are appended to an existing file, because the group will not read the rows in it again.

    Raises:
        click.UsageError: rows must be appended to the file, and its format does not allow it.
    """

    def __init__(
        self, output_format: OutputFormat, path: Path | None, rotation: Rotation | None, keep: bool = False
    ) -> None:
        from samsarrow.cli.consume.layout import Layout

        self._layout = Layout(output_format)
        self._output_format, self._path = output_format, path
        self._rotation = rotation or Rotation()
        # Devices and pipes are not regular files and have no rows to keep.
        self._append = keep and rotation is None and path is not None and path.is_file() and path.stat().st_size > 0
        if self._append and (self._appears_complete or output_format.form == "json"):
            raise click.UsageError(
                f"{path} exists, and no rows can be added to {output_format.form}: its rows would be lost, as the "
                "group does not read them again. Name another file, number the files with --rotate, or pass --overwrite"
            )
        self._number = 0
        self._writer: Writer | None = None
        self._out: IO[bytes] | None = None
        self._target: Path | None = None
        self._rows, self._opened = 0, 0.0
        # Rows and bytes of complete files, and their number. The size of pipes and devices is unknown.
        self.rows, self.size, self.files = 0, 0, 0
        self._start = 0
        # True if all written rows would survive a crash of the process.
        self.durable = True

    def set_schema(self, schema: pa.Schema) -> None:
        """Sets the schema of decoded batches, so that an output without rows has the right columns.

        Raises:
            click.UsageError: the format does not support the schema.
        """
        self._layout.schema = schema
        self._layout.empty()

    @property
    def to_file(self) -> bool:
        """True if rows are not written to standard output."""
        return self._path is not None

    @property
    def destination(self) -> str:
        """Name of the file, or the number of files with the name of the last."""
        if self._rotation == Rotation():
            return click.format_filename(self._path or "-")
        last = "" if self._target is None else f", the last {click.format_filename(self._target.name)}"
        return f"{self.files} file{'s' if self.files != 1 else ''}{last if self.files else ''}"

    @property
    def _appears_complete(self) -> bool:
        """True for Arrow and Parquet, whose files cannot be read until they are complete."""
        return self._output_format.form in COLUMNS and self._output_format.form != "csv"

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes rows. `durable` is false while some rows are in an incomplete file."""
        if self._path is not None and self._rotation.rows is not None:
            capacity = self._rotation.rows
            while batch.num_rows:
                part = batch.slice(0, capacity - self._rows)
                self._write(part)
                batch = batch.slice(part.num_rows)
        else:
            self._write(batch)

    def _write(self, batch: pa.RecordBatch) -> None:
        converted = self._layout.convert(batch)
        with _writable(self._output_format.form):
            writer = self._writer or self._open(converted.schema)
            writer.write(converted)
        self._rows += batch.num_rows
        self.rows += batch.num_rows
        self.durable = not self._appears_complete
        self.check_rotation()
        if not self._appears_complete and self._out is not None:
            self._out.flush()

    def check_rotation(self) -> None:
        """Completes the file if a limit is reached. Called even without new rows, because the age may be limited."""
        if self._writer is None or self._path is None or self._out is None:
            return
        if self._rotation.due(self._rows, self._out.tell(), time.monotonic() - self._opened):
            self._complete()

    def _open(self, schema: pa.Schema) -> Writer:
        if self._path is None and getattr(sys.stdout, "name", None) == os.devnull:
            raise click.ClickException("standard output is closed: rows would be lost; write them to a file with -O")
        self._out = sys.stdout.buffer if self._path is None else self._create()
        form, codec = self._output_format.form, self._output_format.compress
        stream = self._path is None or self._path.suffix == ".arrows"
        if self._output_format.lines is not None:
            self._writer = LineWriter(self._out, self._output_format.lines, form == "json")
        elif form == "csv":
            self._writer = CsvWriter(self._out, schema, names=not self._append or self._check_names(schema))
        elif form == "arrow":
            self._writer = ArrowWriter(self._out, schema, stream, None if codec == "none" else codec)
        else:
            self._writer = ParquetWriter(self._out, schema, codec or "snappy")
        self.files += 1
        self._rows, self._opened = 0, time.monotonic()
        return self._writer

    def _create(self) -> IO[bytes]:
        """Opens the file. With rotation, its name has the first unused number, to keep files of earlier runs."""
        assert self._path is not None
        # Resolves links, so that the complete file replaces the target of the link, not the link.
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
                # A command that was killed may have left an incomplete last line.
                out.seek(-1, io.SEEK_END)
                if out.read(1) != b"\n":
                    out.write(b"\n")
            self._start = out.tell() if self._append else 0
            return out
        except OSError as error:
            raise click.FileError(str(self._target), error.strerror) from None

    def _check_names(self, schema: pa.Schema) -> bool:
        """Checks the header line of the file to which rows are appended. Returns False: no header line is written.

        Raises:
            click.UsageError: the columns of the file differ from the schema.
        """
        assert self._path is not None
        names = CsvWriter.line_of_names(schema)
        with self._path.open("rb") as existing:
            if existing.read(len(names)).rstrip() != names.rstrip():
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
        """True if the target is a device or a pipe, such as /dev/null, which must not be replaced."""
        return self._target is not None and not is_replaceable(self._target)

    @property
    def _has_draft(self) -> bool:
        return self._appears_complete and not self._is_special

    def _complete(self) -> None:
        import os

        if self._writer is None or self._out is None:
            return
        with _writable(self._output_format.form):
            self._writer.close()
        self._out.flush()
        if self._path is not None and self._target is not None:
            special = self._is_special
            if not special:
                os.fsync(self._out.fileno())
                self.size += self._out.tell() - self._start
            self._out.close()
            if not special:
                self._draft.replace(self._target)
                sync_folder(self._target.parent)
        self._writer, self._out, self._rows = None, None, 0
        self.durable = True

    def close(self) -> None:
        """Completes the file. If no rows were written and files are not rotated, writes a file without rows."""
        if self._writer is None and (self._path is None or self._rotation == Rotation()) and not self._number:
            with _writable(self._output_format.form):
                self._open(self._layout.empty().schema)
        self._complete()
        self._number = self._number or 1

    def abandon(self) -> None:
        """Closes an incomplete file, and deletes it if it has a temporary name."""
        if self._out is not None and self._path is not None:
            # Closes the writer first, because a pyarrow writer that is not closed would write to the closed file when
            # it is garbage collected. Errors are ignored, because the file is incomplete anyway.
            with contextlib.suppress(OSError, pa.ArrowException):
                if self._writer is not None:
                    self._writer.abandon()
            with contextlib.suppress(OSError):
                self._out.close()
            if self._has_draft:
                self._draft.unlink(missing_ok=True)
        self._writer = self._out = None
