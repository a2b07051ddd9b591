"""Parquet files of a backup."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc

from samsarrow._backup.digests import RecordDigest
from samsarrow._backup.errors import BackupError
from samsarrow._backup.manifest import BackupFile
from samsarrow._parquet import ParquetWriter
from samsarrow.offsets.disk import sync_folder

COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
"""Columns of the files, which are those of `samsarrow consume -o parquet`."""

# Bytes of records in a row group, which a restore holds in memory.
_GROUP_BYTES = 32 << 20
# Maximum rows of the batches that are read from a file.
_READ_ROWS = 1 << 16
_CHUNK = 1 << 20


class _HashingFile(io.RawIOBase):
    """File whose written bytes are counted and hashed."""

    def __init__(self, out: IO[bytes]) -> None:
        super().__init__()
        self._out, self.sha256, self.size = out, hashlib.sha256(), 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self.size

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._out.write(view)
        self.sha256.update(view)
        self.size += len(view)
        return len(view)


class FileWriter:
    """Writer of one file, which gets its name when it is complete.

    Args:
        folder: folder of the backup.
        place: folder of the partition below it, such as `orders/0`.
        schema: schema of the batches.
        codec: compression codec.
    """

    def __init__(self, folder: Path, place: str, schema: pa.Schema, codec: str) -> None:
        self._folder, self._place = folder / place, place
        self._folder.mkdir(parents=True, exist_ok=True)
        self._draft = self._folder / ".part"
        self._out = self._draft.open("wb")
        self._file = _HashingFile(self._out)
        self._writer = ParquetWriter(self._file, schema, codec, _GROUP_BYTES)  # type: ignore[arg-type]
        self._digest = RecordDigest()
        self._first: int | None = None
        self._last = 0
        self.bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes at least one row."""
        offsets = batch.column("offset")
        if self._first is None:
            self._first = offsets[0].as_py()
        self._last = offsets[-1].as_py()
        self._writer.write(batch)
        self._digest.update(batch)
        self.bytes += batch.nbytes

    def complete(self) -> BackupFile:
        """Completes the file, flushes it to the disk and renames it."""
        self._writer.close()
        self._out.flush()
        os.fsync(self._out.fileno())
        self._out.close()
        name = f"{self._first or 0:020}.parquet"
        self._draft.replace(self._folder / name)
        sync_folder(self._folder)
        return BackupFile(
            f"{self._place}/{name}",
            self._first or 0,
            self._last,
            self._digest.rows,
            self._file.size,
            self._file.sha256.hexdigest(),
            self._digest.hexdigest(),
        )

    def abandon(self) -> None:
        """Deletes the incomplete file. Does nothing after `complete`."""
        if not self._out.closed:
            # Both write buffered bytes, which fails again if the disk is full.
            with contextlib.suppress(OSError):
                self._writer.abandon()
            with contextlib.suppress(OSError):
                self._out.close()
            self._draft.unlink(missing_ok=True)


def check_bytes(folder: Path, file: BackupFile, advance: Callable[[int], None]) -> None:
    """Compares size and SHA-256 of a file with those of the manifest.

    Args:
        folder: folder of the backup.
        file: the file.
        advance: called with the number of bytes after each part.

    Raises:
        BackupError: the file is missing or changed.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with (folder / file.path).open("rb") as stream:
            while part := stream.read(_CHUNK):
                digest.update(part)
                size += len(part)
                advance(len(part))
    except FileNotFoundError:
        raise _missing(folder, file) from None
    if size != file.size:
        raise _resized(folder, file, size)
    if digest.hexdigest() != file.sha256:
        raise BackupError(
            f"{_named(folder, file)} was changed: its SHA-256 is not that of the manifest; restore the file from a "
            "copy of the backup"
        )


def check_size(folder: Path, file: BackupFile) -> None:
    """Checks that a file of an earlier run exists and has its size, without reading it.

    Raises:
        BackupError: the file is missing or has another size.
    """
    try:
        size = (folder / file.path).stat().st_size
    except FileNotFoundError:
        raise _missing(folder, file) from None
    if size != file.size:
        raise _resized(folder, file, size)


def check_layout(folder: Path, file: BackupFile, topic: str, partition: int) -> None:
    """Compares columns, number of rows and offsets in the footer of a file with the manifest. Reads no records.

    Raises:
        BackupError: they differ, or the file is not Parquet.
    """
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(folder / file.path) as parquet:
            schema, footer = parquet.schema_arrow, parquet.metadata
    except (pa.ArrowInvalid, OSError) as error:
        raise BackupError(f"{_named(folder, file)} cannot be read as Parquet: {error}") from None
    for name in COLUMNS:
        if name not in schema.names or (name in ("key", "value") and not pa.types.is_binary(schema.field(name).type)):
            raise BackupError(
                f"{_named(folder, file)} does not have the columns of a backup ({', '.join(COLUMNS)}, with keys and "
                "values as binary): restore the file from a copy of the backup"
            )
    if footer.num_rows != file.rows:
        raise BackupError(
            f"{_named(folder, file)} has {footer.num_rows:,} rows in place of {file.rows:,}: restore the file from a "
            "copy of the backup"
        )
    expected = {"topic": (topic, topic), "partition": (partition, partition), "offset": (file.first, file.last)}
    columns = {footer.schema.column(number).path: number for number in range(footer.num_columns)}
    for name, (first, last) in expected.items():
        groups = [footer.row_group(group).column(columns[name]).statistics for group in range(footer.num_row_groups)]
        known = [group for group in groups if group is not None and group.has_min_max]
        # Files without statistics are compared by the records that they restore.
        if known and (found := (known[0].min, known[-1].max)) != (first, last):
            shown = [str(low) if low == high else f"{low} to {high}" for low, high in (found, (first, last))]
            raise BackupError(
                f"{_named(folder, file)} has {name} {shown[0]} in place of {shown[1]}: restore the file from a copy of "
                "the backup"
            )


def check_records(folder: Path, file: BackupFile, topic: str, partition: int) -> None:
    """Reads a file, and compares its records with those of the manifest.

    Raises:
        BackupError: the records differ.
    """
    digest, expected = RecordDigest(), file.first
    for batch in read_batches(folder, file):
        digest.update(batch)
        offsets = batch.column("offset")
        names = pc.unique(batch.column("topic")).to_pylist(), pc.unique(batch.column("partition")).to_pylist()
        if names != ([topic], [partition]):
            raise BackupError(
                f"{_named(folder, file)} has records of other topics or partitions than {topic}-{partition}"
            )
        rising = pc.min(pc.subtract(offsets[1:], offsets[:-1])).as_py() if len(offsets) > 1 else 1
        if rising < 1 or offsets[0].as_py() < expected:
            raise BackupError(f"{_named(folder, file)}: its offsets do not rise")
        expected = offsets[-1].as_py() + 1
    if (digest.rows, digest.hexdigest(), expected) != (file.rows, file.records, file.last + 1):
        raise BackupError(f"{_named(folder, file)}: its records are not those of the manifest")


def read_batches(folder: Path, file: BackupFile, skip: int = 0) -> Iterator[pa.RecordBatch]:
    """Yields the records of a file.

    Args:
        folder: folder of the backup.
        file: the file.
        skip: number of records to leave out at the beginning.

    Raises:
        BackupError: the file is missing, or is not Parquet.
    """
    import pyarrow.parquet

    try:
        with pyarrow.parquet.ParquetFile(folder / file.path) as parquet:
            for batch in parquet.iter_batches(_READ_ROWS, columns=list(COLUMNS)):
                left = max(batch.num_rows - skip, 0)
                skip = max(skip - batch.num_rows, 0)
                if left:
                    yield batch.slice(batch.num_rows - left)
    except FileNotFoundError:
        raise _missing(folder, file) from None
    except pa.ArrowInvalid as error:
        raise BackupError(f"{_named(folder, file)} cannot be read as Parquet: {error}") from None


def rows_before(folder: Path, file: BackupFile, offset: int) -> int:
    """Returns the number of records in a file whose offsets are smaller. Reads only the column of offsets.

    Raises:
        BackupError: the file is missing, or is not Parquet.
    """
    import pyarrow.parquet

    if offset <= file.first or offset > file.last:
        return 0 if offset <= file.first else file.rows
    count = 0
    try:
        with pyarrow.parquet.ParquetFile(folder / file.path) as parquet:
            for batch in parquet.iter_batches(_READ_ROWS, columns=["offset"]):
                count += pc.sum(pc.less(batch.column("offset"), offset)).as_py()
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise BackupError(f"{_named(folder, file)} cannot be read: {error}") from None
    return count


def older_rows(folder: Path, file: BackupFile, limit: int) -> int:
    """Returns the number of records in a file with earlier timestamps. Reads those of row groups that may have some.

    Args:
        folder: folder of the backup.
        file: the file.
        limit: a timestamp in milliseconds since 1970.

    Raises:
        BackupError: the file is missing, or is not Parquet.
    """
    import pyarrow.parquet

    count, bound = 0, pa.scalar(limit, pa.int64())
    try:
        with pyarrow.parquet.ParquetFile(folder / file.path) as parquet:
            footer = parquet.metadata
            number = next(
                (one for one in range(footer.num_columns) if footer.schema.column(one).path == "timestamp"), None
            )
            for group in range(footer.num_row_groups if number is not None else 0):
                found = footer.row_group(group).column(number).statistics
                first = found.min if found is not None and found.has_min_max else None
                # The statistics of a group without timestamps have no minimum.
                if first is None or first.timestamp() * 1000 < limit:
                    times = parquet.read_row_group(group, columns=["timestamp"])["timestamp"].cast(pa.int64())
                    count += pc.sum(pc.less(times, bound)).as_py() or 0
    except (FileNotFoundError, pa.ArrowInvalid) as error:
        raise BackupError(f"{_named(folder, file)} cannot be read: {error}") from None
    return count


def _missing(folder: Path, file: BackupFile) -> BackupError:
    return BackupError(f"{_named(folder, file)} is missing: restore the file from a copy of the backup")


def _resized(folder: Path, file: BackupFile, size: int) -> BackupError:
    return BackupError(
        f"{_named(folder, file)} has {size:,} bytes in place of {file.size:,}: restore the file from a copy of the "
        "backup"
    )


def _named(folder: Path, file: BackupFile) -> str:
    topic, partition, _ = file.path.split("/")
    return f"{folder / file.path} (offsets {file.first} to {file.last} of {topic}-{partition})"
