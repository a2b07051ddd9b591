"""Row groups of `ParquetWriter`. A thread writes complete row groups."""

import contextlib
import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from samsarrow._parquet import TOPIC, ParquetWriter

ROWS = 100
SCHEMA = pa.schema([("topic", TOPIC), ("offset", pa.int64()), ("value", pa.binary())])


def batch(number: int) -> pa.RecordBatch:
    """Returns rows whose topic is the first entry of a dictionary of their own."""
    topics = pa.DictionaryArray.from_arrays(pa.array([0] * ROWS, pa.int32()), pa.array([f"t{number % 3}"]))
    offsets = pa.array(range(number * ROWS, (number + 1) * ROWS))
    return pa.record_batch([topics, offsets, pa.array([b"x" * 100] * ROWS)], SCHEMA)


class FullDisk(io.RawIOBase):
    """Stream that fails after a number of bytes."""

    def __init__(self, space: int) -> None:
        super().__init__()
        self.space = space

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        size = len(memoryview(data))  # type: ignore[arg-type]
        self.space -= size
        if self.space < 0:
            raise OSError(28, "No space left on device")
        return size


def test_rows_keep_their_order_over_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    batches = [batch(number) for number in range(20)]
    with path.open("wb") as out:
        writer = ParquetWriter(out, SCHEMA, "none", group_bytes=5 * batches[0].nbytes)
        for rows in batches:
            writer.write(rows)
        writer.close()
    assert pyarrow.parquet.ParquetFile(path).metadata.num_row_groups == 4
    table = pyarrow.parquet.read_table(path)
    assert table["offset"].to_pylist() == list(range(20 * ROWS))
    assert table["topic"].to_pylist() == [f"t{number % 3}" for number in range(20) for _ in range(ROWS)]


def test_a_failed_row_group_is_reported() -> None:
    rows = batch(0)
    writer = ParquetWriter(FullDisk(1000), SCHEMA, "none", group_bytes=1)  # type: ignore[arg-type]
    writer.write(rows)
    with pytest.raises(OSError, match="No space left"):
        writer.write(rows)
    # The error is not forgotten, so the file never appears complete.
    with pytest.raises(OSError, match="No space left"):
        writer.close()
    with contextlib.suppress(OSError):
        writer.abandon()
