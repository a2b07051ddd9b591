"""Copies a topic to files exactly once, across crashes and restarts.

    python sink.py localhost:9092 lines /data/lines parquet
    python sink.py localhost:9092 lines /data/lines text

A file appears only when it is complete: it is written under a temporary name, flushed to disk and renamed. It carries
the next offset of every partition: a Parquet file in its footer, a text file in a companion file that is written first.
The newest file is sufficient to resume, and no offsets are committed to Kafka. The format `text` writes each value as a
line, and null as an empty line; values must be text or JSON without line breaks.

A file ends after `ROWS` rows, about `BYTES` bytes in memory, or `SECONDS`. Partitions added later are read after a
restart.
"""

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from samsarrow import Consumer, TopicPartition
from samsarrow.offsets import next_offsets

ROWS, BYTES, SECONDS = 1_000_000, 64 << 20, 60.0
KEY = b"samsarrow.next_offsets"


def write(path: Path, fill: Callable[[Path], object]) -> None:
    """Writes a file atomically: calls `fill` with a temporary path, flushes, and renames it durably."""
    other = path.with_name(f".{path.name}.part")
    fill(other)
    with other.open("rb") as file:
        os.fsync(file.fileno())
    other.rename(path)
    folder = os.open(path.parent, os.O_RDONLY)
    os.fsync(folder)
    os.close(folder)


class Parquet:
    """Parquet files with rows as they were polled."""

    suffix = ".parquet"

    def write(self, path: Path, rows: pa.Table, offsets: dict[int, int]) -> None:
        """Writes a file of rows; `offsets` are the next offsets to read."""
        kept = rows.replace_schema_metadata({**(rows.schema.metadata or {}), KEY: json.dumps(offsets)})
        write(path, lambda part: pq.write_table(kept, part, compression="zstd"))

    def offsets(self, path: Path) -> dict[str, int]:
        """Returns the offsets passed to `write`."""
        return dict(json.loads(pq.read_metadata(path).metadata[KEY]))


class Text:
    """Text files with a line per value."""

    suffix = ".txt"

    def write(self, path: Path, rows: pa.Table, offsets: dict[int, int]) -> None:
        """Writes a file of rows; `offsets` are the next offsets to read."""
        lines = [value or b"" for value in rows["value"].to_pylist()]
        if any(b"\n" in line for line in lines):
            raise ValueError("a value has a line end in it: write Parquet")
        write(path.with_suffix(".json"), lambda part: part.write_text(json.dumps(offsets)))
        write(path, lambda part: part.write_bytes(b"".join(line + b"\n" for line in lines)))

    def offsets(self, path: Path) -> dict[str, int]:
        """Returns the offsets passed to `write`."""
        return dict(json.loads(path.with_suffix(".json").read_text()))


FORMATS: dict[str, Parquet | Text] = {"parquet": Parquet(), "text": Text()}


def files(folder: Path, suffix: str) -> list[Path]:
    return sorted(folder.glob(f"[0-9]*{suffix}"))


def run(servers: str, topic: str, target: str, name: str) -> None:
    folder, form = Path(target), FORMATS[name]
    folder.mkdir(parents=True, exist_ok=True)
    # Waits for another sink on the same folder to end, because both together would write everything twice.
    lock = (folder / ".lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    last = files(folder, form.suffix)[-1:]
    number = int(last[0].stem) + 1 if last else 0
    offsets = {int(p): offset for p, offset in form.offsets(last[0]).items()} if last else {}
    with Consumer(
        bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        for partition, offset in offsets.items():
            consumer.seek(TopicPartition(topic, partition), offset)
        batches: list[pa.RecordBatch] = []
        rows, size, since = 0, 0, time.monotonic()
        while True:
            batch = consumer.poll(0.1)
            if batch.num_rows:
                since = since if batches else time.monotonic()
                batches.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
                offsets.update({tp.partition: at.offset for tp, at in next_offsets(batch).items()})
            if batches and (rows >= ROWS or size >= BYTES or time.monotonic() - since >= SECONDS):
                form.write(folder / f"{number:010}{form.suffix}", pa.Table.from_batches(batches), offsets)
                batches, rows, size, number = [], 0, 0, number + 1


if __name__ == "__main__":
    run(*sys.argv[1:])
