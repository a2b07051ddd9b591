"""Reader of log segments, the files in which brokers store partitions. No broker is needed."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator
from typing import Any, Literal

import pyarrow as pa

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError, CorruptRecordError

# Name of a partition's folder, to which a broker adds a suffix while it deletes or moves the partition.
_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d{1,10})(\.[0-9a-f]{32}-(delete|future|stray))?")


def read_segment(
    path: str | os.PathLike[str],
    *,
    layout: Literal["binary", "view"] = "binary",
    include_headers: bool = False,
    include_control: bool = False,
    check_crcs: bool = True,
    from_offset: int | None = None,
    until_offset: int | None = None,
    batch_rows: int | None = None,
    batch_bytes: int = 1 << 20,
    mmap: bool = True,
    corrupt_tail: Literal["raise", "stop"] = "raise",
) -> pa.RecordBatchReader:
    """Reads a broker's `.log` file into Arrow batches, one after another, with bounded memory.

    Returns records in file order, including those of aborted and unfinished transactions: the outcome of a transaction
    is often only in a later segment. With `include_control`, transaction markers are returned, too.

    A running broker may be writing to the file; records that it appends after this call are not read. Zeros at the end
    are preallocated space, and are treated like the end of the file.

    Args:
        path: path of the file. Topic and partition are derived from the name of the folder if it has the form that
            brokers use (`flights-3/00000000000000000000.log`); otherwise they are null.
        layout: `binary` copies keys and values; with `view` they point into the mapped memory of the file, or into
            decompressed data.
        include_headers: whether to add the column `headers`, `list<struct<key: string, value: binary>>`.
        include_control: whether to return the records of control batches too.
        check_crcs: whether to check the CRC of each batch.
        from_offset: first offset to read.
        until_offset: first offset not to read.
        batch_rows: maximum number of rows of a batch.
        batch_bytes: approximate maximum bytes of records in a batch; only a single Kafka batch can be larger.
        mmap: whether to map the file into memory. If a mapped file is truncated while it is read, SIGBUS ends the
            process. Brokers truncate the newest segment of a follower, and a preallocated segment when it is full.
            Without mapping, the file is read in parts, and truncation raises an error.
        corrupt_tail: `raise` raises an error at the first corrupt batch, after all rows before it have been returned;
            `stop` ends the reader there, as at the end of the file.

    Returns:
        A reader of batches with the columns `key`, `value`, `topic`, `partition`, `offset`, `timestamp` and
        `timestamp_type` as from `Consumer.poll`.

    Raises:
        CorruptRecordError: raised by the reader if a batch is corrupt, or if the file ends within a batch. The message
            has the position in the file, the offset and the cause.
        OSError: the file does not exist, or cannot be read.
        ConfigurationError: an argument is invalid.
    """
    if corrupt_tail not in ("raise", "stop"):
        raise ConfigurationError(f"corrupt_tail must be raise or stop, not {corrupt_tail!r}")
    if batch_rows is not None and batch_rows < 1:
        raise ConfigurationError(f"batch_rows must be 1 or more, not {batch_rows}")
    if not 1 <= batch_bytes < 1 << 31:
        raise ConfigurationError(f"batch_bytes must be 1 or more and below 2 GiB, not {batch_bytes}")
    name = os.fsdecode(path)
    core = _core.SegmentReader(
        _source(name, mmap),
        # Name of the file for messages. It is converted to text, because file names need not be valid text.
        os.fsencode(name).decode(errors="replace"),
        _topic_partition(name),
        layout,
        include_headers,
        include_control,
        check_crcs,
        from_offset,
        until_offset,
        batch_rows,
        batch_bytes,
    )
    return pa.RecordBatchReader.from_batches(core.empty().schema, _batches(core, stop=corrupt_tail == "stop"))


def _batches(core: _core.SegmentReader, *, stop: bool) -> Iterator[pa.RecordBatch]:
    try:
        while (batch := core.next()) is not None:
            yield batch
    except CorruptRecordError:
        if not stop:
            raise


def _source(name: str, mmap: bool) -> Any:
    """Returns the source that the Rust reader reads: the path, or the mapped file as an Arrow column of bytes."""
    if os.path.isdir(name):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    # An empty file cannot be mapped, so its path is returned. `stat` raises if the file does not exist.
    if os.stat(name).st_size == 0 or not mmap:
        return name
    with pa.memory_map(os.fsencode(name), "r") as file:
        buffer = file.read_buffer()
    return pa.record_batch([pa.Array.from_buffers(pa.uint8(), buffer.size, [None, buffer])], ["bytes"])


def _topic_partition(name: str) -> tuple[str, int] | None:
    """Returns topic and partition from the name of the file's folder; None if the name has another form."""
    match = _FOLDER.fullmatch(os.path.basename(os.path.dirname(os.path.abspath(name))))
    if match is None or int(match["partition"]) >= 1 << 31:
        return None
    # Names of topics are ASCII, but names of other folders need not be valid text.
    return os.fsencode(match["topic"]).decode(errors="replace"), int(match["partition"])
