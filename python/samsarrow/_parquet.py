"""Writer of record batches as Parquet, for the command line and backups."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

import pyarrow as pa

# Maximum rows and bytes of a Parquet row group. Readers load a row group as a whole.
GROUP_ROWS = 1 << 19
GROUP_BYTES = 128 << 20
TOPIC = pa.dictionary(pa.int32(), pa.string())


class ParquetWriter:
    """Writer of Parquet, which collects batches into row groups of a suitable size for readers.

    A thread writes each row group while the caller reads the rows of the next one, so that memory holds at most two.
    An error of that thread is raised by the next call.

    Args:
        out: stream to write to.
        schema: schema of all batches.
        codec: compression codec.
        group_bytes: bytes of batches after which a row group is written.
    """

    def __init__(self, out: IO[bytes], schema: pa.Schema, codec: str, group_bytes: int = GROUP_BYTES) -> None:
        import pyarrow.parquet

        self._schema, self._group_bytes = schema, group_bytes
        # Keys and values are written without dictionaries and statistics, because they seldom repeat, and computing
        # both takes a fifth of the time.
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
        # Started by the first complete row group, because most files have fewer rows.
        self._thread: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Writes rows.

        Raises:
            OSError: an earlier row group could not be written.
        """
        self._held.append(batch)
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= GROUP_ROWS or self._bytes >= self._group_bytes:
            self._wait()
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "samsarrow-parquet")
            self._pending = self._thread.submit(self._write, self._take())

    def _take(self) -> list[pa.RecordBatch]:
        """Returns the buffered rows, and begins the next row group."""
        held = self._held
        self._held, self._rows, self._bytes = [], 0, 0
        return held

    def _write(self, batches: list[pa.RecordBatch]) -> None:
        # Unifies the dictionaries of the topic column, which may differ between batches.
        table = pa.Table.from_batches(batches, self._schema).unify_dictionaries()
        self._writer.write_table(table, row_group_size=GROUP_ROWS)

    def _wait(self) -> None:
        """Waits until the previous row group has been written, and raises its error."""
        pending = self._pending
        if pending is not None:
            # A signal may interrupt the wait, which is then repeated.
            pending.result()
            self._pending = None

    def close(self) -> None:
        """Completes the file.

        Raises:
            OSError: rows could not be written.
        """
        self._wait()
        if self._held:
            self._write(self._take())
        self._end_thread()
        self._writer.close()

    def abandon(self) -> None:
        """Closes the writer without writing buffered rows. The caller then deletes the file."""
        self._end_thread()
        self._writer.close()

    def _end_thread(self) -> None:
        """Ends the thread after its last row group, because the caller closes the stream."""
        if self._thread is not None:
            self._thread.shutdown()


def _paths(name: str, kind: pa.DataType) -> list[str]:
    """Returns the paths of the Parquet columns to which a column of this type is written."""
    if pa.types.is_struct(kind):
        return [path for field in kind for path in _paths(f"{name}.{field.name}", field.type)]
    if pa.types.is_list(kind):
        return _paths(f"{name}.list.element", kind.value_type)
    if pa.types.is_map(kind):
        return [f"{name}.key_value.key", *_paths(f"{name}.key_value.value", kind.item_type)]
    return [name]
