"""A growing file into a topic, a record for each line: whatever dies and is started again, none is lost or there twice.

    python tail.py localhost:9092 /var/log/app.log lines

Lines and the place in the file behind them are one transaction, so both are there or neither; read the topic with
`isolation.level=read_committed`. Places are kept in a compacted topic, as a group would forget its offsets a week after
its last commit. All lines of a file have its path as their key, and so are in one partition, in their order.

- The first start reads the file that has the name then, from its start.
- A last line without its end waits for it, and in a file that was rotated away for `PATIENCE` seconds.
- A file that was renamed, to a name that begins with its own, is read to its end, then those renamed after it, by the
  time of their last change (which a disk keeps to some milliseconds), then the new one. Compressed files are left out.
- A file that was truncated is read from its start, after what is new in a copy of it, if there is one. What was written
  between copy and truncation is lost if it was not read by then, so have files renamed.

Two at work on the same file fence each other: the earlier one ends.
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

PLACES = "file-places"
PATIENCE = 1.0
CHUNK = 1 << 20
COMPRESSED = {".gz", ".bz2", ".xz", ".zst", ".lz4"}


@dataclass(frozen=True)
class Place:
    """Where to read on. A file is known by its inode and its first bytes: inodes are given out again."""

    inode: int
    offset: int = 0
    head: str = ""
    changed: int = 0


def head(file: int, offset: int) -> str:
    return hashlib.sha256(os.pread(file, min(offset, 1024), 0)).hexdigest() if offset else ""


class Tail:
    """The lines of a file and of those that it was before it was rotated."""

    def __init__(self, path: Path, place: Place | None) -> None:
        self.path, self.place = path, place
        self._file: int | None = None
        self._quiet_since = 0.0

    def read(self) -> tuple[list[bytes], Place] | None:
        """The lines that follow, without their ends, and the place behind them; None if there are none for now."""
        try:
            return self._read()
        except FileNotFoundError:
            # Renamed between two looks: another one follows.
            return None

    def _read(self) -> tuple[list[bytes], Place] | None:
        if self._file is not None and self.place is not None and not matches(self._file, self.place):
            os.close(self._file)
            self._file = None
        if self._file is None:
            self._file, self.place = self._open()
            self._quiet_since = time.monotonic()
        file, place = self._file, self.place
        assert place is not None
        # Asked before it is read: what was written until then is read now.
        rotated = self._rotated(file)
        about = os.fstat(file)
        data, size = b"", CHUNK
        while True:
            more = os.pread(file, size, place.offset + len(data))
            data += more
            cut = data.rfind(b"\n") + 1
            if cut or len(more) < size:
                break
        if cut:
            self._quiet_since = time.monotonic()
            offset = place.offset + cut
            self.place = Place(place.inode, offset, head(file, offset), about.st_mtime_ns)
            return data[: cut - 1].split(b"\n"), self.place
        if not rotated:
            self._quiet_since = time.monotonic()
        elif time.monotonic() - self._quiet_since > PATIENCE:
            following = self._after(about.st_ino, about.st_mtime_ns)
            os.close(file)
            self._file, self.place = following, Place(os.fstat(following).st_ino)
            return [data] if data else [], self.place
        return None

    def _open(self) -> tuple[int, Place]:
        """The file of the place; where it is gone, a copy of it, or the first one that was changed since."""
        place = self.place
        if place is None:
            file = os.open(self.path, os.O_RDONLY)
            return file, Place(os.fstat(file).st_ino)
        for same_inode in (True, False):
            for path in self._files():
                file = os.open(path, os.O_RDONLY)
                inode = os.fstat(file).st_ino
                if (inode == place.inode if same_inode else place.offset) and matches(file, place):
                    return file, replace(place, inode=inode)
                os.close(file)
        file = self._after(0, place.changed)
        return file, Place(os.fstat(file).st_ino)

    def _rotated(self, file: int) -> bool:
        try:
            return self.path.stat().st_ino != os.fstat(file).st_ino
        except FileNotFoundError:
            # It is renamed already and the new one is not there yet.
            return False

    def _files(self) -> list[Path]:
        """The oldest first."""
        older = [p for p in self.path.parent.glob(f"{self.path.name}?*") if p.suffix not in COMPRESSED]
        return [*sorted(older, key=lambda p: p.stat().st_mtime_ns), self.path]

    def _after(self, inode: int, changed: int) -> int:
        """The first file that was changed after another one."""
        for path in self._files():
            about = path.stat()
            if about.st_ino != inode and (about.st_mtime_ns > changed or path == self.path):
                return os.open(path, os.O_RDONLY)
        raise FileNotFoundError(self.path)


def matches(file: int, place: Place) -> bool:
    """Whether what was read is still there, unchanged."""
    return os.fstat(file).st_size >= place.offset and head(file, place.offset) == place.head


def last_place(servers: str, name: str) -> Place | None:
    """The place that the last committed transaction says."""
    places, found = TopicPartition(PLACES, 0), None
    with Consumer(bootstrap_servers=servers) as everything:
        # The end that counts open transactions of others too, among which a place of ours may lie.
        end = everything.end_offsets([places])[places]
    with Consumer(bootstrap_servers=servers, isolation_level="read_committed") as consumer:
        consumer.assign([places])
        consumer.seek_to_beginning(places)
        while consumer.position(places) < end:
            for record in consumer.records():
                if record.key == name.encode() and record.value is not None:
                    found = Place(**json.loads(record.value))
    return found


def run(servers: str, path: str, topic: str) -> None:
    file = Path(path).absolute()
    name = f"{file} to {topic}"
    with Admin(bootstrap_servers=servers) as admin, suppress(TopicAlreadyExistsError):
        admin.create_topics([NewTopic(PLACES, 1, -1, {"cleanup.policy": "compact"})])
    with Producer(bootstrap_servers=servers, transactional_id=f"tail {name}", compression_type="lz4") as producer:
        # Before the place is asked for: it ends what this program left open when it died.
        producer.init_transactions()
        tail = Tail(file, last_place(servers, name))
        while True:
            found = tail.read()
            if found is None:
                time.sleep(0.05)
                continue
            lines, place = found
            rows = pa.record_batch({"key": [str(file)] * len(lines), "value": pa.array(lines, pa.binary())})
            # What fails ends the program; started again, it goes on where the last transaction ended.
            with producer.transaction():
                producer.send_batch(topic, rows)
                producer.send(PLACES, json.dumps(asdict(place)), name, partition=0)


if __name__ == "__main__":
    run(*sys.argv[1:])
