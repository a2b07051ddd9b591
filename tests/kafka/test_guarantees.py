"""The programs of docs/guarantees.md keep their guarantees when they are killed repeatedly."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from samsarrow import Consumer, Producer
from support import postgres
from support.guarantees import program
from support.kafka import KafkaServer

KILLS = int(os.environ.get("SAMSARROW_KILLS", "5"))
pytestmark = pytest.mark.timeout(180 + 30 * KILLS)
PARTITIONS = 3
Connect = Callable[[], Any]


class Source:
    """Sends ids 0, 1, 2 and so on, until it is stopped."""

    def __init__(self, servers: str, topic: str) -> None:
        self._servers, self._topic = servers, topic
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with Producer(bootstrap_servers=self._servers, linger_ms=2) as producer:
            while not self._stop.wait(0.01):
                for _ in range(20):
                    producer.send(self._topic, b"%d" % self.sent, partition=self.sent % PARTITIONS)
                    self.sent += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def results(connect: Connect) -> list[int]:
    with closing(connect()) as database:
        cursor = database.cursor()
        try:
            cursor.execute("SELECT id FROM results")
        except (sqlite3.OperationalError, psycopg.errors.UndefinedTable):
            return []
        return [row[0] for row in cursor.fetchall()]


def until(done: Callable[[], bool], worker: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert worker.poll() is None, "the worker ended by itself"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def finished(servers: str, topic: str, group: str) -> bool:
    """Returns true once the group has committed the end offsets."""
    with Consumer(bootstrap_servers=servers, group_id=group) as consumer:
        partitions = consumer.partitions_for(topic)
        ends = consumer.end_offsets(partitions)
        offsets = consumer.committed(partitions)
        return ends == {tp: at and at.offset for tp, at in offsets.items()}


def torture(
    code: str, servers: str, topic: str, folder: Path, connect: Connect, done: Callable[[], bool]
) -> Counter[int]:
    """Kills the program `KILLS` times, lets it finish, and counts the results per id."""
    script = folder / "program.py"
    script.write_text(code.replace("localhost:9092", servers).replace('"readings"', f'"{topic}"'))
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    source = Source(servers, topic)
    in_work = 0
    with (folder / "output").open("ab") as output:
        for kill in range(KILLS + 1):
            worker = subprocess.Popen([sys.executable, script], cwd=folder, stdout=output, stderr=output)
            try:
                if kill == KILLS:
                    source.stop()
                    until(done, worker)
                    # Waits for results that the program may wrongly write after the last commit.
                    time.sleep(0.5)
                # Most kills occur while records are processed, some during startup or joining.
                elif chance.random() < 0.8:
                    before = len(results(connect))
                    until(lambda before=before: len(results(connect)) > before, worker)
                    in_work += 1
                    time.sleep(chance.uniform(0, 0.05))
                else:
                    time.sleep(chance.uniform(0.2, 1.0))
            except AssertionError:
                output.flush()
                sys.stderr.write((folder / "output").read_text())
                raise
            finally:
                worker.send_signal(signal.SIGKILL)
                worker.wait()
    counts = Counter(results(connect))
    missing = [i for i in range(source.sent) if i not in counts]
    more = [i for i, count in counts.items() if count > 1]
    sys.stdout.write(
        f"{KILLS} kills, {in_work} of them at work (seed {seed}): {source.sent} ids sent, {len(counts)} there, "
        f"{len(missing)} missing, {len(more)} more than once\n"
    )
    assert counts.keys() <= set(range(source.sent))
    counts.update(dict.fromkeys(missing, 0))
    return counts


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(PARTITIONS)


@pytest.fixture
def sqlite(tmp_path: Path) -> Connect:
    return lambda: sqlite3.connect(tmp_path / "results.db", timeout=20)


def test_at_most_once(kafka: KafkaServer, topic: str, tmp_path: Path, sqlite: Connect) -> None:
    group = f"at-most-once-{topic}"
    code = program("At most once").replace('"at-most-once"', f'"{group}"')
    servers = kafka.bootstrap_servers
    counts = torture(code, servers, topic, tmp_path, sqlite, lambda: finished(servers, topic, group))
    assert max(counts.values()) == 1


def test_at_least_once(kafka: KafkaServer, topic: str, tmp_path: Path, sqlite: Connect) -> None:
    group = f"at-least-once-{topic}"
    code = program("At least once").replace('"at-least-once"', f'"{group}"')
    servers = kafka.bootstrap_servers
    counts = torture(code, servers, topic, tmp_path, sqlite, lambda: finished(servers, topic, group))
    assert min(counts.values()) >= 1


def check_exactly_once(code: str, servers: str, topic: str, folder: Path, connect: Connect) -> None:
    group = f"exactly-once-{topic}"
    code = code.replace('"exactly-once"', f'"{group}"')
    with Consumer(bootstrap_servers=servers) as consumer:
        partitions = consumer.partitions_for(topic)

        def done() -> bool:
            return len(results(connect)) >= sum(consumer.end_offsets(partitions).values())

        counts = torture(code, servers, topic, folder, connect, done)
    assert set(counts.values()) == {1}


def test_exactly_once_into_sqlite(kafka: KafkaServer, topic: str, tmp_path: Path, sqlite: Connect) -> None:
    check_exactly_once(program("Exactly once into a database"), kafka.bootstrap_servers, topic, tmp_path, sqlite)


@pytest.fixture
def database() -> Iterator[str]:
    try:
        postgres.programs()
    except postgres.PostgresUnavailableError as reason:
        pytest.skip(str(reason))
    with postgres.server() as where:
        yield where


def test_exactly_once_into_postgresql(kafka: KafkaServer, topic: str, tmp_path: Path, database: str) -> None:
    code = program("Exactly once into a database")
    for old, new in [
        ("import sqlite3", "import psycopg"),
        ('sqlite3.connect("results.db")', f'psycopg.connect("{database}")'),
        ("VALUES (?)", "VALUES (%s)"),
    ]:
        assert old in code
        code = code.replace(old, new)
    check_exactly_once(code, kafka.bootstrap_servers, topic, tmp_path, lambda: psycopg.connect(database))
