"""The word count program of docs/guarantees.md counts from Kafka to Kafka exactly once, although it is killed
repeatedly.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from samsarrow import Consumer, Producer
from support.fixtures import create_topic
from support.guarantees import program
from support.kafka import KafkaServer
from support.peers.java_api import JavaPeer
from support.streams import wait_for_markers

KILLS = int(os.environ.get("SAMSARROW_KILLS", "6"))
pytestmark = pytest.mark.timeout(180 + 30 * KILLS)
PARTITIONS = 3
WORKERS = 2
WORDS = ["all", "batches", "count", "each", "exactly", "kafka", "lines", "once", "words"]


class Source:
    """Sends lines until it is stopped, and counts their words."""

    def __init__(self, servers: str, topic: str, chance: random.Random) -> None:
        self._servers, self._topic, self._chance = servers, topic, chance
        self.words: Counter[str] = Counter()
        self.lines = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with Producer(bootstrap_servers=self._servers, linger_ms=2) as producer:
            while not self._stop.wait(0.01):
                for _ in range(20):
                    line = self._chance.choices(WORDS, k=self._chance.randrange(6))
                    producer.send(self._topic, " ".join(line), partition=self.lines % PARTITIONS)
                    self.words.update(line)
                    self.lines += 1

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


class Work:
    """Workers that are restarted after each kill."""

    def __init__(self, code: str, folder: Path) -> None:
        self._folder = folder
        self.output = (folder / "output").open("ab")
        for i in range(WORKERS):
            mine = code.replace('"word-count-1"', f'"word-count-{folder.name}-{i}"').replace(
                '"worker-1"', f'"worker-{i}"'
            )
            (folder / f"worker{i}.py").write_text(mine)
        self.running = [self._start(i) for i in range(WORKERS)]

    def _start(self, i: int) -> subprocess.Popen[bytes]:
        script = self._folder / f"worker{i}.py"
        return subprocess.Popen([sys.executable, script], stdout=self.output, stderr=self.output)

    def check(self) -> None:
        for worker in self.running:
            if worker.poll() is not None:
                self.output.flush()
                raise AssertionError(f"a worker ended by itself:\n{(self._folder / 'output').read_text()}")

    def kill(self, i: int) -> None:
        self.running[i].send_signal(signal.SIGKILL)
        self.running[i].wait()

    def restart(self, i: int) -> None:
        self.kill(i)
        self.running[i] = self._start(i)


@pytest.mark.parametrize("protocol", ["second", "first"])
def test_words_are_counted_exactly_once(request: pytest.FixtureRequest, protocol: str, tmp_path: Path) -> None:
    kafka: KafkaServer = request.getfixturevalue("kafka" if protocol == "second" else "old_kafka")
    java: JavaPeer = request.getfixturevalue("java" if protocol == "second" else "old_java")
    servers = kafka.bootstrap_servers
    lines, counts = create_topic(kafka, PARTITIONS), create_topic(kafka, PARTITIONS)
    group = f"word-count-{lines}"
    code = program("Exactly once from Kafka to Kafka")
    for old, new in (
        ("localhost:9092", servers),
        ('"lines"', f'"{lines}"'),
        ('"counts"', f'"{counts}"'),
        ('"word-count"', f'"{group}"'),
    ):
        assert old in code
        code = code.replace(old, new)
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    source = Source(servers, lines, random.Random(seed + 1))
    work = Work(code, tmp_path)
    at_work = 0
    try:
        with Consumer(bootstrap_servers=servers, group_id=group) as looker:
            results = looker.partitions_for(counts)

            def written() -> int:
                return sum(looker.end_offsets(results).values())

            for _ in range(KILLS):
                # Most kills occur while records are processed, some during startup or joining.
                if chance.random() < 0.8:
                    before, deadline = written(), time.monotonic() + 60
                    while written() == before:
                        assert time.monotonic() < deadline, "nothing is counted"
                        work.check()
                        time.sleep(0.005)
                    at_work += 1
                    time.sleep(chance.uniform(0, 0.05))
                else:
                    time.sleep(chance.uniform(0.2, 1.0))
                work.restart(chance.randrange(WORKERS))
            source.stop()
            partitions = looker.partitions_for(lines)
            ends, deadline = looker.end_offsets(partitions), time.monotonic() + 90
            while {tp: at and at.offset for tp, at in looker.committed(partitions).items()} != ends:
                assert time.monotonic() < deadline, "the lines are not all counted"
                work.check()
                time.sleep(0.05)
    finally:
        source.stop()
        for i in range(WORKERS):
            work.kill(i)
        work.output.close()
    # Waits, because committed offsets may be visible before all markers are written.
    wait_for_markers(servers, counts)
    numbers = range(PARTITIONS)
    stable = java.ends(counts, list(numbers), isolation_level="read_committed")
    seen: dict[str, Counter[str]] = {}
    for level in ("read_committed", "read_uncommitted"):
        seen[level] = Counter()
        for poll in java.polls(counts, list(numbers), stable, isolation_level=level):
            for _, record in poll.records:
                assert record.key is not None
                assert record.value is not None
                seen[level][record.key.decode()] += int(record.value)
    offsets = java.committed(group, lines, list(numbers))
    aborted = sum((seen["read_uncommitted"] - seen["read_committed"]).values())
    sys.stdout.write(
        f"{KILLS} kills, {at_work} of them at work (seed {seed}): {source.lines} lines, {source.words.total()} words, "
        f"{sum(seen['read_committed'].values())} counted, {aborted} more in aborted transactions\n"
    )
    assert seen["read_committed"] == source.words
    assert [offset and offset[0] for offset in offsets] == list(ends.values())
