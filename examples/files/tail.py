"""Sends each line of a growing file to a topic exactly once, across crashes and restarts.

    python tail.py localhost:9092 /var/log/app.log lines

One transaction contains lines and the file position that follows them; read the topic with
`isolation.level=read_committed`. Positions are stored in a compacted topic, because offsets of a group expire a week
after its last commit. The key of every line is the path of the file, so the lines stay in one partition, in order.

- The first run reads the current file from its beginning.
- An incomplete last line waits for its line break; in a rotated file, it is sent after `PATIENCE` seconds.
- A file that was renamed to a name that begins with its own is read to its end, then files renamed after it, ordered by
  modification time (which file systems keep to a few milliseconds), then the new file. Compressed files are ignored.
- A truncated file is read from its beginning, after the unread rest of its copy, if one exists. Lines written between
  copy and truncation are lost unless they were already read, so prefer rotation by rename.

A second process for the same file fences the first one, which ends.
"""

import hashlib
import json
import os
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pyarrow as pa

from samsarrow import Admin, Consumer, NewTopic, Producer, TopicPartition
from samsarrow.exceptions import TopicAlreadyExistsError

POSITIONS = "file-positions"
PATIENCE = 1.0
CHUNK = 1 << 20
COMPRESSED = {".gz", ".bz2", ".xz", ".zst", ".lz4"}


@dataclass(frozen=True)
class FilePosition:
    """A position in a file, which is identified by its inode and a hash of its first bytes, since inodes are reused."""

    inode: int
    offset: int = 0
    head: str = ""
    changed: int = 0


def head(file: int, offset: int) -> str:
    return hashlib.sha256(os.pread(file, min(offset, 1024), 0)).hexdigest() if offset else ""


class Tail:
    """Reads the lines of a file and of its rotated predecessors."""

    def __init__(self, path: Path, position: FilePosition | None) -> None:
        self.path, self.position = path, position
        self._file: int | None = None
        self._quiet_since = 0.0

    def read(self) -> tuple[list[bytes], FilePosition] | None:
        """Returns the next lines, without line breaks, and the position after them; None if no new lines exist."""
        try:
            return self._read()
        except FileNotFoundError:
            # The file was renamed since the previous check. Its successor appears soon.
            return None

    def _read(self) -> tuple[list[bytes], FilePosition] | None:
        if self._file is not None and self.position is not None and not matches(self._file, self.position):
            os.close(self._file)
            self._file = None
        if self._file is None:
            self._file, self.position = self._open()
            self._quiet_since = time.monotonic()
        file, position = self._file, self.position
        assert position is not None
        # Rotation is checked before reading, so that lines written before the rotation are read now.
        rotated = self._rotated(file)
        about = os.fstat(file)
        data, size = b"", CHUNK
        while True:
            more = os.pread(file, size, position.offset + len(data))
            data += more
            cut = data.rfind(b"\n") + 1
            if cut or len(more) < size:
                break
        if cut:
            self._quiet_since = time.monotonic()
            offset = position.offset + cut
            self.position = FilePosition(position.inode, offset, head(file, offset), about.st_mtime_ns)
            return data[: cut - 1].split(b"\n"), self.position
        if not rotated:
            self._quiet_since = time.monotonic()
        elif time.monotonic() - self._quiet_since > PATIENCE:
            following = self._after(about.st_ino, about.st_mtime_ns)
            os.close(file)
            self._file, self.position = following, FilePosition(os.fstat(following).st_ino)
            return [data] if data else [], self.position
        return None

    def _open(self) -> tuple[int, FilePosition]:
        """Opens the file of the position; if that file is gone, its copy, or the first file modified later."""
        position = self.position
        if position is None:
            file = os.open(self.path, os.O_RDONLY)
            return file, FilePosition(os.fstat(file).st_ino)
        for same_inode in (True, False):
            for path in self._files():
                file = os.open(path, os.O_RDONLY)
                inode = os.fstat(file).st_ino
                if (inode == position.inode if same_inode else position.offset) and matches(file, position):
                    return file, replace(position, inode=inode)
                os.close(file)
        file = self._after(0, position.changed)
        return file, FilePosition(os.fstat(file).st_ino)

    def _rotated(self, file: int) -> bool:
        try:
            return self.path.stat().st_ino != os.fstat(file).st_ino
        except FileNotFoundError:
            # The old file was already renamed, but the new one does not exist yet.
            return False

    def _files(self) -> list[Path]:
        """Returns the current file and its rotated predecessors, oldest first."""
        older = [p for p in self.path.parent.glob(f"{self.path.name}?*") if p.suffix not in COMPRESSED]
        return [*sorted(older, key=lambda p: p.stat().st_mtime_ns), self.path]

    def _after(self, inode: int, changed: int) -> int:
        """Opens the first file that was modified after `changed`."""
        for path in self._files():
            about = path.stat()
            if about.st_ino != inode and (about.st_mtime_ns > changed or path == self.path):
                return os.open(path, os.O_RDONLY)
        raise FileNotFoundError(self.path)


def matches(file: int, position: FilePosition) -> bool:
    """Returns true if the part of the file already read is unchanged."""
    return os.fstat(file).st_size >= position.offset and head(file, position.offset) == position.head


def last_position(servers: str, name: str) -> FilePosition | None:
    """Returns the position stored by the last committed transaction."""
    positions, result = TopicPartition(POSITIONS, 0), None
    with Consumer(bootstrap_servers=servers) as everything:
        # The read_uncommitted end includes open transactions, among which a position of this process may lie.
        end = everything.end_offsets([positions])[positions]
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        consumer.assign([positions])
        consumer.seek_to_beginning(positions)
        while consumer.position(positions) < end:
            for record in consumer.records():
                if record.key == name.encode() and record.value is not None:
                    result = FilePosition(**json.loads(record.value))
    return result


def run(servers: str, path: str, topic: str) -> None:
    file = Path(path).absolute()
    name = f"{file} to {topic}"
    with Admin(bootstrap_servers=servers) as admin, suppress(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(POSITIONS, 1, -1, {"cleanup.policy": "compact"})])
    with Producer(bootstrap_servers=servers, transactional_id=f"tail {name}", compression_type="lz4") as producer:
        # Must precede the read of the position, because it aborts the transaction that this process left open when it
        # died.
        producer.init_transactions()
        tail = Tail(file, last_position(servers, name))
        while True:
            result = tail.read()
            if result is None:
                time.sleep(0.05)
                continue
            lines, position = result
            rows = pa.record_batch({"key": [str(file)] * len(lines), "value": pa.array(lines, pa.binary())})
            # Any failure ends the process; after a restart the process resumes at the last committed transaction.
            with producer.transaction():
                producer.send_batch(topic, rows)
                producer.send(POSITIONS, json.dumps(asdict(position)), name, partition=0)


if __name__ == "__main__":
    run(*sys.argv[1:])
