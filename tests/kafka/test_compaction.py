"""A topic compacted by Kafka's log cleaner: batches with gaps, batches without records, orphaned markers."""

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from samsarrow import Consumer, TopicPartition
from support.fixtures import create_topic
from support.kafka import KafkaServer
from support.peers import Sent, samsarrow_arrow
from support.peers.java_api import JavaPeer
from support.segments import stored

MINUTE = 60_000


@dataclass
class Compacted:
    """Writes a topic for compaction, and tracks which offsets must survive."""

    java: JavaPeer
    topic: str
    started: int = field(default_factory=lambda: int(time.time() * 1000))
    generation: int = 0
    latest: dict[str, int] = field(default_factory=dict)

    def write(self, name: str, keys: list[str], *, tombstone: bool = False, aborted: bool = False) -> None:
        """Writes one segment. Its timestamps are a minute later than those of the previous segment. Markers have the
        broker's time and do not start a segment.
        """
        self.generation += 1
        timestamp = self.started + self.generation * MINUTE
        value = None if tombstone else b"generation %d" % self.generation
        if name.startswith("transactional"):
            self.java.call("begin", name=name)
        offsets = self.java.send(name, self.topic, [Sent(k.encode(), value, (), timestamp) for k in keys])
        if name.startswith("transactional"):
            self.java.call("abort" if aborted else "commit", name=name)
        if not aborted:
            self.latest.update(zip(keys, offsets, strict=True))


@pytest.fixture(scope="module")
def compacted(kafka: KafkaServer, java: JavaPeer) -> Iterator[Compacted]:
    topic = create_topic(
        kafka, cleanup_policy="compact", segment_ms="30000", min_cleanable_dirty_ratio="0.01"
    )  # fmt: skip
    names = ["lz4", "none", "zstd", "transactional-gzip", "transactional-none", "once"]
    for name in names:
        codec = name.rpartition("-")[2]
        transactional = {"transactional_id": f"{topic}-{name}"} if name.startswith("transactional") else {}
        java.open(
            name,
            compression_type="none" if codec == "once" else codec,
            linger_ms="50",
            batch_size="65536",
            **transactional,
        )
        if transactional:
            java.call("init", name=name)
    c = Compacted(java, topic)
    k = [f"k{i}" for i in range(20)]
    e = [f"e{i}" for i in range(10)]
    c.write("lz4", k)
    c.write("none", k[::2])
    c.write("transactional-gzip", k[:6])
    c.write("transactional-none", k, aborted=True)
    # All records of `once` are superseded. Its last batch remains without records, because it has the last sequence
    # number.
    c.write("once", e)
    c.write("zstd", e)
    c.write("transactional-gzip", e[2:4])
    c.write("lz4", k[3:8], tombstone=True)
    c.write("transactional-none", ["last"], aborted=True)
    c.write("none", ["last", "k19"])
    cleaned = dict(c.latest)
    c.write("transactional-none", ["end"], aborted=True)
    until = time.monotonic() + 60
    while (left := records(kafka, topic)) != len(cleaned):
        assert time.monotonic() < until, f"the cleaner left {left} records, not {len(cleaned)}: {layout(kafka, topic)}"
        time.sleep(0.1)
    yield c
    for name in names:
        java.call("close", name=name)


def layout(kafka: KafkaServer, topic: str) -> list[tuple[str, list[object]]]:
    return [(path.name, list(stored([path]))) for path in kafka.segments(topic)]


def inactive(kafka: KafkaServer, topic: str) -> list[Path]:
    return sorted(kafka.segments(topic))[:-1]


def records(kafka: KafkaServer, topic: str) -> int:
    """Returns the number of remaining records; -1 while the cleaner replaces files."""
    try:
        return sum(batch.records for batch in stored(inactive(kafka, topic)) if not batch.control)
    except FileNotFoundError:
        return -1


def test_topic_has_all_kinds_of_gaps(kafka: KafkaServer, compacted: Compacted) -> None:
    batches = list(stored(inactive(kafka, compacted.topic)))
    data = [b for b in batches if not b.control]
    assert {b.codec for b in data if 0 < b.records <= b.last_offset - b.offset} == {"none", "gzip", "lz4", "zstd"}
    assert any(b.records == 0 for b in data)
    assert any(after.offset > before.last_offset + 1 for before, after in itertools.pairwise(batches))
    # At least one transaction has only its marker left, because all its records were removed.
    first = {b.producer_id: b for b in reversed(batches)}
    assert any(b.control for b in first.values())


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize(
    "options",
    [
        {"max_poll_records": "500"},
        {"max_poll_records": "1"},
        {"max_poll_records": "3"},
        {"max_partition_fetch_bytes": "1"},
    ],
    ids=["many", "one by one", "three", "batch by batch"],
)
def test_records_and_positions_match_java(
    kafka: KafkaServer, java: JavaPeer, compacted: Compacted, level: str, options: dict[str, str]
) -> None:
    options = {"isolation_level": level, **options}
    ends = java.ends(compacted.topic, [0], isolation_level=level)
    ours = samsarrow_arrow.polls(kafka.bootstrap_servers, compacted.topic, [0], ends, **options)
    offsets = sorted(compacted.latest.values()) + ([ends[0] - 2] if level == "read_uncommitted" else [])
    assert [record.offset for poll in ours for _, record in poll.records] == offsets
    theirs = java.polls(compacted.topic, [0], ends, **options)
    # Java's polls also return if only the position advances; ours wait for records.
    pairs = zip([p for p in ours if p.records], [p for p in theirs if p.records], strict=True)
    for mine, other in pairs:
        assert mine.records == other.records
        last = mine.records[-1][1].offset
        if str(len(mine.records)) == options.get("max_poll_records"):
            # Java's position is directly after the last record; ours may already be at the end of the gap.
            assert other.positions == (last + 1,)
            assert last < mine.positions[0] <= min([o for o in offsets if o > last], default=ends[0])
        else:
            assert mine.positions == other.positions
    assert ours[-1].positions == theirs[-1].positions == tuple(ends)


def test_start_at_any_offset(kafka: KafkaServer, compacted: Compacted) -> None:
    tp = TopicPartition(compacted.topic, 0)
    options = {"isolation_level": "read_committed", "max_poll_records": 1, "fetch_max_wait_ms": 10}
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, **options) as consumer:
        consumer.assign([tp])
        end = consumer.end_offsets([tp])[tp]
        for start in range(max(compacted.latest.values()) + 1):
            consumer.seek(tp, start)
            [found] = consumer.poll(10).column("offset").to_pylist()
            assert found == min(offset for offset in compacted.latest.values() if offset >= start), start
        while consumer.position(tp) < end:
            assert consumer.poll(0.1).num_rows == 0


def test_cli_consume_reads_to_the_end(kafka: KafkaServer, compacted: Compacted) -> None:
    command = [sys.executable, "-m", "samsarrow.cli", "consume", compacted.topic, "-b", kafka.bootstrap_servers]
    level = ["-X", "isolation.level=read_committed", "--template", "{offset}"]
    expected = sorted(compacted.latest.values())
    for more, offsets in (([], expected), (["--tail", "3"], expected[-3:])):
        done = subprocess.run([*command, *level, *more], capture_output=True, text=True, timeout=60, check=True)
        assert sorted(map(int, done.stdout.split())) == offsets
