"""The programs of examples/files copy a file to a topic and the topic to files, and are killed repeatedly."""

from __future__ import annotations

import importlib.util
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka as ck
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from samsarrow import Producer
from support.kafka import KafkaServer

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "files"
KILLS = int(os.environ.get("SAMSARROW_KILLS", "3"))
pytestmark = pytest.mark.timeout(180 + 30 * KILLS)
# Shorter intervals for tests.
FASTER = {
    "tail.py": [("PATIENCE = 1.0", "PATIENCE = 0.2"), ("CHUNK = 1 << 20", "CHUNK = 8000")],
    "sink.py": [("ROWS, BYTES, SECONDS = 1_000_000, 64 << 20, 60.0", "ROWS, BYTES, SECONDS = 300, 64 << 20, 0.2")],
}


def copied(name: str, folder: Path) -> Path:
    code = (EXAMPLES / name).read_text()
    for old, new in FASTER[name]:
        assert old in code
        code = code.replace(old, new)
    script = folder / name
    script.write_text(code)
    return script


@pytest.fixture
def tail(tmp_path: Path) -> Any:
    """The example loaded as a module."""
    spec = importlib.util.spec_from_file_location("tail_example", copied("tail.py", tmp_path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


class Log:
    """An application that writes lines, some of them in two steps, and sometimes rotates its file."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path, self._chance = path, chance
        self.path.write_bytes(b"line 0\n")
        self.lines, self.rotations = 1, 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            with self.path.open("ab", buffering=0) as file:
                for _ in range(self._chance.randrange(10, 40)):
                    for _ in range(20):
                        line = b"line %d %s\n" % (self.lines, b"." * self._chance.randrange(60))
                        cut = self._chance.randrange(len(line)) if self._chance.random() < 0.2 else len(line)
                        file.write(line[:cut])
                        file.write(line[cut:])
                        self.lines += 1
                    time.sleep(0.01)
            if not self._stop.is_set():
                self._rotate()

    def _rotate(self) -> None:
        """Rotates like logrotate: .1 is the newest."""
        for number in range(self.rotations, 0, -1):
            self.path.with_name(f"app.log.{number}").rename(self.path.with_name(f"app.log.{number + 1}"))
        self.path.rename(self.path.with_name("app.log.1"))
        self.rotations += 1

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()


class Worker:
    """A program that is restarted after each kill."""

    def __init__(self, script: Path, *arguments: str) -> None:
        self._command = [sys.executable, str(script), *arguments]
        self._output = script.with_suffix(".out")
        self._start()

    def _start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(self._command, stdout=output, stderr=output)

    def check(self) -> None:
        assert self._process.poll() is None, f"it ended by itself:\n{self._output.read_text()}"

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def restart(self) -> None:
        self.kill()
        self._start()


def written(folder: Path, form: str) -> list[str]:
    if form == "text":
        return [line for path in sorted(folder.glob("0*.txt")) for line in path.read_text().splitlines()]
    values: list[bytes] = []
    for path in sorted(folder.glob("0*.parquet")):
        values += pq.read_table(path)["value"].to_pylist()
    return [value.decode() for value in values]


class Folder:
    """Counts the rows of a folder's files, which never change after they appear."""

    def __init__(self, folder: Path, form: str) -> None:
        self._folder, self._form = folder, form
        self._rows: dict[Path, int] = {}

    def rows(self) -> int:
        for path in self._folder.glob("0*.parquet" if self._form == "parquet" else "0*.txt"):
            if path not in self._rows:
                parquet = self._form == "parquet"
                self._rows[path] = pq.read_metadata(path).num_rows if parquet else path.read_bytes().count(b"\n")
        return sum(self._rows.values())


def in_topic(servers: str, topic: str) -> list[str]:
    """Returns the committed values of a partition, as read by librdkafka."""
    config = {"bootstrap.servers": servers, "group.id": "files", "enable.partition.eof": True}
    consumer = ck.Consumer({**config, "isolation.level": "read_committed"})
    consumer.assign([ck.TopicPartition(topic, 0, 0)])
    results: list[str] = []
    try:
        while True:
            for message in consumer.consume(1000, 0.2):
                if message.error():
                    assert message.error().code() == ck.KafkaError._PARTITION_EOF
                    return results
                results.append(message.value().decode())
    finally:
        consumer.close()


@pytest.mark.parametrize("form", ["parquet", "text"])
def test_lines_are_copied_exactly_once(
    kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path, form: str
) -> None:
    servers, topic, folder = kafka.bootstrap_servers, new_topic(), tmp_path / "out"
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    log = Log(tmp_path / "app.log", random.Random(seed + 1))
    workers = [
        Worker(copied("tail.py", tmp_path), servers, str(log.path), topic),
        Worker(copied("sink.py", tmp_path), servers, topic, str(folder), form),
    ]

    there = Folder(folder, form)

    def until(rows: int) -> None:
        before, deadline = there.rows(), time.monotonic() + 60
        while (result := there.rows()) < rows:
            assert time.monotonic() < deadline, f"stalled at {result} of {rows} rows"
            if result > before:
                before, deadline = result, time.monotonic() + 60
            for worker in workers:
                worker.check()
            time.sleep(0.01)

    try:
        # The first run begins with the current file and ignores files that were rotated earlier.
        until(1)
        log.start()
        at_work = 0
        for kill in range(2 * KILLS):
            # Most kills occur while lines are processed, some during startup.
            if chance.random() < 0.8:
                until(there.rows() + 1)
                at_work += 1
                time.sleep(chance.uniform(0, 0.05))
            else:
                time.sleep(chance.uniform(0.1, 0.5))
            workers[kill % 2].restart()
        log.stop()
        until(log.lines)
        # Waits a moment for records that should not exist.
        time.sleep(0.5)
    finally:
        log.stop()
        for worker in workers:
            worker.kill()
    names = sorted(tmp_path.glob("app.log*"), key=lambda p: -int(p.suffix[1:]) if p.suffix != ".log" else 0)
    lines = [line for path in names for line in path.read_text().splitlines()]
    rows = written(folder, form)
    sys.stdout.write(
        f"{2 * KILLS} kills, {at_work} of them at work (seed {seed}): {log.lines} lines in {log.rotations + 1} files, "
        f"{len(rows)} rows in {len(list(folder.glob('0*')))} files\n"
    )
    assert [line.split()[1] for line in lines] == [str(i) for i in range(log.lines)]
    assert in_topic(servers, topic) == lines
    assert rows == lines


def test_order_within_partitions(kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path) -> None:
    servers, topic, folder = kafka.bootstrap_servers, new_topic(3), tmp_path / "out"
    sink = Worker(copied("sink.py", tmp_path), servers, topic, str(folder), "parquet")
    try:
        with Producer(bootstrap_servers=servers, transactional_id=f"feeds-{topic}") as producer:
            for start in range(0, 3000, 300):
                rows = pa.table({"value": [str(i) for i in range(start, start + 300)], "to": [0, 1, 2] * 100})
                producer.begin_transaction()
                producer.send_batch(topic, rows, partition="to")
                # Records of aborted transactions must not be in the files.
                if start % 900 == 300:
                    producer.abort_transaction()
                else:
                    producer.commit_transaction()
                if start % 1200 == 0:
                    sink.restart()
        expected = [i for i in range(3000) if i // 300 % 3 != 1]
        deadline = time.monotonic() + 90
        while len(written(folder, "parquet")) < len(expected):
            assert time.monotonic() < deadline
            sink.check()
            time.sleep(0.05)
    finally:
        sink.kill()
    table = pa.concat_tables(pq.read_table(path) for path in sorted(folder.glob("0*.parquet")))
    for number in range(3):
        mine = table.filter(pa.compute.equal(table["partition"], number))
        assert [int(v) for v in mine["value"].to_pylist()] == [i for i in expected if i % 3 == number]
        offsets = mine["offset"].to_pylist()
        assert offsets == sorted(set(offsets))


def drained(tail: Any) -> Iterator[bytes]:
    """Yields lines until 20 consecutive reads find none. Together these reads take longer than the `PATIENCE` of the
    shortened example.
    """
    looks = 0
    while looks < 20:
        result = tail.read()
        looks = looks + 1 if result is None else 0
        if result is None:
            time.sleep(0.02)
        else:
            yield from result[0]


def test_incomplete_line_is_held_back(tail: Any, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    reader = tail.Tail(path, None)
    assert reader.read() is None
    path.write_bytes(b"one\n\ntw")
    assert list(drained(reader)) == [b"one", b""]
    with path.open("ab") as file:
        file.write(b"o\n" + b"x" * 5000 + b"\nlast")
    assert list(drained(reader)) == [b"two", b"x" * 5000]
    # A renamed file is not written to any more, so its last line needs no line break.
    path.rename(tmp_path / "app.log.1")
    assert list(drained(reader)) == []
    path.write_bytes(b"new\n")
    assert list(drained(reader)) == [b"last", b"new"]


def test_files_rotated_while_stopped(tail: Any, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"1\n2\n")
    reader = tail.Tail(path, None)
    lines, place = reader.read()
    assert lines == [b"1", b"2"]

    def rotate(new: bytes) -> None:
        time.sleep(0.02)
        for number in (2, 1):
            if (older := tmp_path / f"app.log.{number}").exists():
                older.rename(tmp_path / f"app.log.{number + 1}")
        path.rename(tmp_path / "app.log.1")
        path.write_bytes(new)

    with path.open("ab") as file:
        file.write(b"3\n")
    rotate(b"4\n")
    rotate(b"5\n")
    (tmp_path / "app.log.4.gz").write_bytes(b"no line\n")
    assert list(drained(tail.Tail(path, place))) == [b"3", b"4", b"5"]
    # The file that the position refers to was deleted, so all files modified later are read.
    (tmp_path / "app.log.2").unlink()
    assert list(drained(tail.Tail(path, place))) == [b"4", b"5"]


def test_truncation(tail: Any, tmp_path: Path) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(b"1\n2\n")
    reader = tail.Tail(path, None)
    _, place = reader.read()
    path.write_bytes(b"3\n")
    assert list(drained(reader)) == [b"3"]
    # The file is longer than before, so its size alone does not show the truncation.
    path.write_bytes(b"other\n6\n")
    assert list(drained(reader)) == [b"other", b"6"]
    assert list(drained(tail.Tail(path, place))) == [b"other", b"6"]
    # The copy of the file contains lines that were not read before the truncation.
    (tmp_path / "app.log.1").write_bytes(b"1\n2\nmissed\n")
    time.sleep(0.02)
    path.write_bytes(b"7\n")
    assert list(drained(tail.Tail(path, place))) == [b"missed", b"7"]
