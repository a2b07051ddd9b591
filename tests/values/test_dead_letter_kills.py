"""An application that sends bad records to another topic, killed repeatedly (SAMSARROW_KILLS=20)."""

from __future__ import annotations

import os
import random
import sqlite3
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest

from samsarrow import Consumer, Producer, TopicPartition
from samsarrow.offsets import SqlOffsetStore
from support.examples import Program
from support.kafka import KafkaServer

KILLS = int(os.environ.get("SAMSARROW_KILLS", "5"))
SEED = int(os.environ.get("SAMSARROW_KILLS_SEED", "10"))
pytestmark = pytest.mark.timeout(120 + 20 * KILLS)
PARTITIONS = 3
# Number of records sent during each run of the application; and number of consecutive bad records among them, which is
# larger than a batch.
RECORDS, RUN = 600, 130

PROGRAM = """
import sqlite3
import sys
import time

from samsarrow import Avro, Consumer, DeadLetter, Producer, RebalanceListener
from samsarrow.offsets import SqlOffsetStore, next_offsets

servers, topic, dead, path = sys.argv[1:]
order = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
database = sqlite3.connect(path, timeout=20)
# Only processes are killed, not machines, so no fsync is needed.
database.execute("PRAGMA synchronous = OFF")
database.execute('CREATE TABLE IF NOT EXISTS results ("partition" INTEGER, "offset" INTEGER, id INTEGER)')
database.commit()
store = SqlOffsetStore(database, topic, owner="worker")

with (
    Producer(bootstrap_servers=servers) as producer,
    Consumer(
        bootstrap_servers=servers,
        group_id=topic,
        group_instance_id="worker",
        # The group waits this long for members killed while joining.
        session_timeout_ms=10_000,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_poll_records=50,
        value_format=Avro(order, writers={1: order}),
        on_decode_error=DeadLetter(dead, producer),
    ) as consumer,
):

    def go_on(partitions):
        for partition, stored in store.claim(partitions).items():
            consumer.seek(partition, stored.offset if stored else 0)

    consumer.subscribe([topic], listener=RebalanceListener(on_partitions_assigned=go_on))
    for batch in consumer:
        rows = batch.select(["partition", "offset", "value"]).to_pylist()
        cursor = database.cursor()
        found = [(row["partition"], row["offset"], row["value"]["id"]) for row in rows]
        cursor.executemany("INSERT INTO results VALUES (?, ?, ?)", found)
        store.store(next_offsets(batch), cursor)
        database.commit()
"""


class Position(NamedTuple):
    """The position of a record: its partition and offset."""

    partition: int
    offset: int


def zigzag(number: int) -> bytes:
    out, number = b"", number << 1
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def value(number: int, chance: random.Random, *, good: bool) -> bytes:
    """Returns the value of the record with this number. Bad values are damaged in one of several ways."""
    whole = b"\0\0\0\0\1" + zigzag(number)
    spoiled = [b"", b"\0\0\0\0\2" + whole[5:], whole + b"\0", whole[:5], b"{}", b"\0\0\0\0\1" + b"\xff" * 11]
    return whole if good else chance.choice(spoiled)


class Orders:
    """Sends records, and keeps the numbers of good and of bad records."""

    def __init__(self, servers: str, topic: str, chance: random.Random) -> None:
        self._servers, self._topic, self._chance = servers, topic, chance
        self.good: set[int] = set()
        self.bad: set[int] = set()

    def send(self) -> None:
        """Sends the records for one run of the application; the last records of each partition are good."""
        first = len(self.good) + len(self.bad)
        run = range(self._chance.randrange(RECORDS - RUN - PARTITIONS), RECORDS)[:RUN]
        with Producer(bootstrap_servers=self._servers) as producer:
            for at in range(RECORDS):
                number = first + at
                last = at >= RECORDS - PARTITIONS
                good = last or (at not in run and self._chance.random() > 0.1)
                (self.good if good else self.bad).add(number)
                made = value(number, self._chance, good=good)
                # All bad records of the sequence go to one partition, so that some batches have only bad records.
                partition = 0 if at in run else number % PARTITIONS
                producer.send(self._topic, made, key=b"%d" % number, partition=partition)


class Worker:
    """Reads the results of the application."""

    def __init__(self, servers: str, topic: str, dead: str, path: Path) -> None:
        self._servers, self._topic, self._dead, self._path = servers, topic, dead, path

    def _table(self, topic: str, partitions: int) -> list[dict[str, Any]]:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "include_headers": True}
        with Consumer(bootstrap_servers=self._servers, **options) as reader:
            reader.assign([TopicPartition(topic, number) for number in range(partitions)])
            rows: list[dict[str, Any]] = pa.Table.from_batches(reader.reader()).to_pylist()
            return rows

    def positions(self) -> dict[int, Position]:
        """Returns the position of each record in the topic, by its number."""
        rows = self._table(self._topic, PARTITIONS)
        return {int(row["key"]): Position(row["partition"], row["offset"]) for row in rows}

    def results(self, what: str = '"partition", "offset", id') -> list[tuple[int, ...]]:
        """Returns the rows of the application's table of results."""
        with closing(sqlite3.connect(self._path, timeout=20)) as database:
            try:
                return database.execute(f"SELECT {what} FROM results").fetchall()
            except sqlite3.OperationalError:
                return []

    def done(self) -> int:
        """Returns the number of rows in the table of results."""
        return sum(count for (count,) in self.results("count(*)"))

    def stored(self) -> dict[int, int]:
        """Returns the offsets stored with the table."""
        with closing(sqlite3.connect(self._path, timeout=20)) as database:
            partitions = [TopicPartition(self._topic, number) for number in range(PARTITIONS)]
            result = SqlOffsetStore(database, self._topic).load(partitions)
            return {partition.partition: one.offset for partition, one in result.items() if one is not None}

    def letters(self) -> list[tuple[int, Position]]:
        """Returns the number of each dead letter, and the position in its headers."""
        results = []
        for row in self._table(self._dead, 1):
            headers = {header["key"].removeprefix("__connect.errors."): header["value"] for header in row["headers"]}
            assert headers["topic"] == self._topic.encode()
            results.append((int(row["key"]), Position(int(headers["partition"]), int(headers["offset"]))))
        return results


def test_dead_letters_survive_kills_and_results_are_exactly_once(
    kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, dead = new_topic(PARTITIONS), new_topic()
    chance, lives = random.Random(SEED), random.Random(SEED)
    servers, script, path = kafka.bootstrap_servers, tmp_path / "program.py", tmp_path / "results.db"
    script.write_text(PROGRAM)
    orders, worker = Orders(servers, topic, chance), Worker(servers, topic, dead, path)
    orders.send()
    at_work = 0
    with Program(script, servers, topic, dead, str(path), imports=("samsarrow.offsets",)) as program:
        for _ in range(KILLS):
            before = worker.done()
            # Most kills occur while records are processed, some during startup or joining.
            if lives.random() < 0.8:
                more = lives.randrange(1, RECORDS // 2)
                program.until(lambda expected=before + more: worker.done() >= expected, pause=0.02)
                at_work += 1
                time.sleep(lives.uniform(0, 0.05))
            else:
                time.sleep(lives.uniform(0, 0.5))
            program.kill()
            # All bad records before the stored offsets are in the other topic.
            positions, stored = worker.positions(), worker.stored()
            sent = {number for number, _ in worker.letters()}
            passed = {n for n in orders.bad if positions[n].offset < stored.get(positions[n].partition, 0)}
            assert passed <= sent, sorted(passed - sent)
            orders.send()
            program.start()
        program.until(lambda: worker.done() >= len(orders.good), pause=0.02)
    positions, letters = worker.positions(), worker.letters()
    counts = Counter(number for number, _ in letters)
    sys.stdout.write(
        f"{KILLS} kills, {at_work} of them at work (seed {SEED}): {len(orders.good)} good records, "
        f"{len(orders.bad)} bad ones as {len(letters)} dead letters\n"
    )
    expected = sorted((*positions[number], number) for number in orders.good)
    assert sorted(worker.results()) == expected
    assert set(counts) == orders.bad
    assert all(place == positions[number] for number, place in letters)
    ends = {
        part: max(position.offset for position in positions.values() if position.partition == part) + 1
        for part in range(PARTITIONS)
    }
    assert worker.stored() == ends
