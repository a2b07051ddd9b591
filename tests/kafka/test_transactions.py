"""Transactions of Kafka's Java client: our consumer returns the same records as Java's, and reaches the same
positions.
"""

import random
from collections.abc import Callable, Iterator

import pytest

from samsarrow import Consumer, TopicPartition
from support.fixtures import create_topic
from support.kafka import KafkaServer
from support.peers import Poll, Received, Sent, samsarrow_arrow
from support.peers.java_api import JavaError, JavaPeer
from support.segments import stored
from support.streams import wait_for_ends

LEVELS = ["read_uncommitted", "read_committed"]
# First words of the records that each isolation level reads, by partition.
WORDS = {
    ("read_uncommitted", 0): {"plain", "committed", "aborted", "open", "late"},
    ("read_uncommitted", 1): {"committed", "aborted"},
    ("read_committed", 0): {"plain", "committed"},
    ("read_committed", 1): {"committed"},
}
T0 = 1_700_000_000_000


class Scenario:
    """Writes a topic; each value contains the producer and the outcome of the record's transaction."""

    def __init__(self, java: JavaPeer, topic: str) -> None:
        self._java = java
        self.topic = topic
        self._count = 0
        java.open("plain", batch_size="100")
        # One codec per producer; batches are small enough that a transaction has several.
        for name, codec in (("a", "none"), ("b", "lz4"), ("c", "zstd"), ("d", "gzip")):
            java.open(
                name,
                transactional_id=f"{topic}-{name}", transaction_timeout_ms="600000",
                compression_type=codec, batch_size="300", linger_ms="20",
            )  # fmt: skip
            self.do(name, "init")

    def do(self, name: str, *ops: str) -> None:
        for op in ops:
            self._java.call(op, name=name)

    def send(self, name: str, value: str, count: int, partition: int = 0) -> None:
        records = []
        for _ in range(count):
            self._count += 1
            text = f"{value} {self._count}".encode()
            records.append(Sent(b"k%d" % (self._count % 5), text, (("n", b"%d" % self._count),), T0 + self._count))
        self._java.send(name, self.topic, records, partition)

    def close(self) -> None:
        for name in ("plain", "a", "b", "c", "d"):
            self.do(name, "close")


@pytest.fixture(scope="module")
def scenario(kafka: KafkaServer, java: JavaPeer) -> Iterator[Scenario]:
    s = Scenario(java, create_topic(kafka, 2, max_message_bytes="4000"))
    s.send("plain", "plain", 3)
    for name in ("a", "b", "c", "d"):
        s.do(name, "begin")
        s.send(name, "committed", 20)
        s.do(name, "commit", "begin")
        s.send(name, "aborted", 20)
        s.do(name, "abort")
    # Two concurrent transactions, interleaved with other records.
    s.do("a", "begin")
    s.do("b", "begin")
    s.send("a", "committed", 2)
    s.send("b", "aborted", 3)
    s.send("plain", "plain", 1)
    s.send("a", "committed", 2)
    s.send("b", "aborted", 12)
    s.do("b", "abort")
    s.send("plain", "plain", 2)
    s.send("a", "committed", 1, partition=1)
    s.send("a", "committed", 1)
    s.do("a", "commit")
    # Transactions that end in either order; one begins within another and ends after it.
    s.do("c", "begin")
    s.send("c", "aborted", 2)
    s.do("b", "begin")
    s.send("b", "committed", 2)
    s.send("c", "aborted", 2, partition=1)
    s.do("c", "abort", "begin")
    s.send("b", "committed", 2, partition=1)
    s.send("c", "committed", 1)
    s.do("b", "commit")
    s.do("c", "commit")
    # Empty transactions: without sends; with sends to another partition only; and a marker without records.
    s.do("a", "begin", "commit", "begin", "abort", "begin")
    s.send("a", "committed", 1, partition=1)
    s.do("a", "commit", "begin")
    with pytest.raises(JavaError, match="RecordTooLarge"):
        s.send("a", "x" * 5000, 1)
    s.do("a", "abort")
    # Writes ranges without any readable record.
    for name in ("a", "b", "c", "d"):
        s.do(name, "begin")
        s.send(name, "aborted", 150)
        s.do(name, "abort")
    s.do("b", "begin")
    s.send("b", "committed", 5)
    s.do("b", "commit")
    # This transaction stays open until the end, so the following records are not stable.
    s.do("d", "begin")
    s.send("d", "open", 4)
    s.send("plain", "late", 2)
    s.do("a", "begin")
    s.send("a", "late", 2)
    s.do("a", "commit", "begin")
    s.send("a", "aborted", 2)
    s.do("a", "abort")
    wait_for_ends(kafka.bootstrap_servers, *(f"{s.topic}-{name}" for name in "abcd"))
    yield s
    s.close()


def rows(polls: list[Poll], partition: int) -> list[Received]:
    return [record for poll in polls for p, record in poll.records if p == partition]


def test_topic_covers_all_cases(kafka: KafkaServer, scenario: Scenario) -> None:
    batches = list(stored(path for path in kafka.segments(scenario.topic) if path.parent.name.endswith("-0")))
    data = [b for b in batches if not b.control]
    assert {b.codec for b in data} == {"none", "gzip", "lz4", "zstd"}
    assert sum(b.records > 1 for b in data) > 100
    last = {}
    empty = 0
    for b in batches:
        empty += b.control and last.get(b.producer_id, True)
        last[b.producer_id] = b.control
    # The transaction whose record was too large has only an abort marker.
    assert empty == 1


def test_end_offsets_match_java(kafka: KafkaServer, java: JavaPeer, scenario: Scenario) -> None:
    partitions = [TopicPartition(scenario.topic, p) for p in range(2)]
    ends = {}
    for level in LEVELS:
        with Consumer(bootstrap_servers=kafka.bootstrap_servers, isolation_level=level) as consumer:
            ends[level] = list(consumer.end_offsets(partitions).values())
        assert ends[level] == java.ends(scenario.topic, [0, 1], isolation_level=level)
    assert ends["read_committed"][0] < ends["read_uncommitted"][0]
    assert ends["read_committed"][1] == ends["read_uncommitted"][1]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "options",
    [
        {"max_poll_records": "500"},
        {"max_poll_records": "1"},
        {"max_poll_records": "7"},
        {"max_partition_fetch_bytes": "1"},
    ],
    ids=["many", "one by one", "seven", "batch by batch"],
)
def test_records_and_positions_match_java(
    kafka: KafkaServer, java: JavaPeer, scenario: Scenario, level: str, options: dict[str, str]
) -> None:
    options = {"isolation_level": level, **options}
    for partition in range(2):
        ends = java.ends(scenario.topic, [partition], isolation_level=level)
        theirs = java.polls(scenario.topic, [partition], ends, **options)
        ours = samsarrow_arrow.polls(kafka.bootstrap_servers, scenario.topic, [partition], ends, **options)
        result = rows(ours, partition)
        assert result == rows(theirs, partition)
        words = {record.value.split()[0].decode() for record in result if record.value}
        assert words == WORDS[level, partition]
        # Java's polls return without records if only the position advances; ours wait for records.
        assert [poll for poll in ours if poll.records] == [poll for poll in theirs if poll.records]
        assert ours[-1].positions == theirs[-1].positions == tuple(ends)


@pytest.mark.parametrize("level", LEVELS)
def test_two_partitions_match_java(kafka: KafkaServer, java: JavaPeer, scenario: Scenario, level: str) -> None:
    ends = java.ends(scenario.topic, [0, 1], isolation_level=level)
    theirs = java.polls(scenario.topic, [0, 1], ends, isolation_level=level)
    ours = samsarrow_arrow.polls(kafka.bootstrap_servers, scenario.topic, [0, 1], ends, isolation_level=level)
    for partition in range(2):
        assert rows(ours, partition) == rows(theirs, partition)
    assert ours[-1].positions == theirs[-1].positions == tuple(ends)


def test_random_transactions_match_java(kafka: KafkaServer, java: JavaPeer, new_topic: Callable[..., str]) -> None:
    topic, choose = new_topic(2), random.Random(20)
    running = {f"random-{codec}": False for codec in ("none", "gzip", "snappy", "lz4", "zstd")}
    java.open("random")
    for name in running:
        codec = name.partition("-")[2]
        java.open(name, transactional_id=f"{topic}-{name}", transaction_timeout_ms="600000", compression_type=codec)
        java.call("init", name=name)
    for i in range(120):
        name = choose.choice([*running, "random"])
        if running.get(name) is False:
            java.call("begin", name=name)
            running[name] = True
        elif name in running and choose.random() < 0.4:
            java.call(choose.choice(["commit", "abort"]), name=name)
            running[name] = False
        else:
            sent = [Sent(b"k", b"%d" % i * choose.randrange(50), (), T0 + i) for _ in range(choose.randrange(1, 9))]
            java.send(name, topic, sent, choose.randrange(2))
    wait_for_ends(kafka.bootstrap_servers, *(f"{topic}-{name}" for name in running))
    for level in LEVELS:
        ends = java.ends(topic, [0, 1], isolation_level=level)
        for partition in range(2):
            for size in ("1048576", "300"):
                options = {"isolation_level": level, "max_partition_fetch_bytes": size, "max_poll_records": "500"}
                theirs = java.polls(topic, [partition], [ends[partition]], **options)
                ours = samsarrow_arrow.polls(kafka.bootstrap_servers, topic, [partition], [ends[partition]], **options)
                assert [poll for poll in ours if poll.records] == [poll for poll in theirs if poll.records]
                assert ours[-1].positions == theirs[-1].positions == (ends[partition],)
    for name in [*running, "random"]:
        java.call("close", name=name)


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_reader_at_last_stable_offset_resumes_after_transaction(
    kafka: KafkaServer, java: JavaPeer, new_topic: Callable[..., str], end: str
) -> None:
    topic = new_topic()
    tp = TopicPartition(topic, 0)
    sent = [Sent(b"k", b"%d" % i, (), T0 + i) for i in range(8)]
    other, transactional = f"other-{end}", f"open-{end}"
    java.open(other)
    java.open(transactional, transactional_id=f"{topic}-open")
    java.call("init", name=transactional)
    java.send(other, topic, sent[:1])
    java.call("begin", name=transactional)
    java.send(transactional, topic, sent[1:5])
    java.send(other, topic, sent[5:])
    options = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, **options) as consumer:
        consumer.assign([tp])
        assert consumer.poll(10).column("value").to_pylist() == [b"0"]
        assert consumer.poll(0.5).num_rows == 0
        assert (consumer.position(tp), consumer.end_offsets([tp])[tp]) == (1, 1)
        java.call(end, name=transactional)
        batches = [consumer.poll(10)]
        while consumer.position(tp) < 9:
            batches.append(consumer.poll(0.1))
        results = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        # The marker is at offset 8.
        assert results == ([1, 2, 3, 4, 5, 6, 7] if end == "commit" else [5, 6, 7])
        assert (consumer.position(tp), consumer.end_offsets([tp])[tp]) == (9, 9)
    java.call("close", name=transactional)
    java.call("close", name=other)
