"""Engines on Apache Kafka: codecs, compaction, transactions, retention, restarts, leaders, splits, partitions."""

import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import samsarrow
from samsarrow import Admin, Producer, TopicPartition, ranges
from samsarrow.admin_types import OffsetSpec
from samsarrow.ranges import Plan
from support.cluster import KafkaCluster
from support.engines import ENGINES, READS, Pipeline, Read, digest, in_order, need, polled
from support.fixtures import create_topic
from support.kafka import KafkaServer
from support.waiting import until

if missing := [name for name in ENGINES if find_spec(name) is None]:
    # Fixtures of the session would start Kafka before the tests are skipped.
    pytest.skip(f"{', '.join(missing)} not installed: `make test-engines` has all engines", allow_module_level=True)

# Engines and their packages warn at import.
pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(400)]
ReadTopic = Callable[..., pa.Table]


def write(servers: str, topic: str, first: int, last: int, **options: Any) -> None:
    numbers = range(first, last)
    table = pa.table({"key": [b"k%d" % (n % 97) for n in numbers], "value": [b"%d" % n for n in numbers]})
    samsarrow.write(topic, table, bootstrap_servers=servers, **options)


def planned(servers: str, topic: str, **arguments: Any) -> Plan:
    return ranges.plan(topic, bootstrap_servers=servers, **arguments)


def offsets(table: pa.Table) -> list[int]:
    found: list[int] = in_order(table)["offset"].to_pylist()
    return found


def values(table: pa.Table) -> list[bytes]:
    return sorted(in_order(table)["value"].to_pylist())


def wait_for_markers(servers: str, topic: str) -> None:
    """Waits until the markers of ended transactions are written, which happens after the response to their end."""
    with Admin(bootstrap_servers=servers) as admin:
        count = admin.list_topics()[topic].partitions
        ends = {TopicPartition(topic, number): OffsetSpec.LATEST for number in range(count)}
        until(lambda: dict(admin.list_offsets(ends)) == dict(admin.list_offsets(ends, read_committed=True)))


@pytest.fixture(scope="module")
def topics(kafka: KafkaServer) -> dict[str, tuple[str, int]]:
    """Topics that all engines read, with their numbers of rows."""
    servers = kafka.bootstrap_servers
    made = {}
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        topic = create_topic(kafka, 3)
        write(servers, topic, 0, 10_000, compression_type=codec)
        made[codec] = topic, 10_000
    topic = create_topic(kafka, 1000)
    write(servers, topic, 0, 5000)
    table = pa.table({"value": [b"x"] * 3000, "to": [n % 1000 for n in range(3000)]})
    samsarrow.write(topic, table, bootstrap_servers=servers, partition="to")
    made["1,000 partitions"] = topic, 8000
    topic = create_topic(kafka, 40)
    samsarrow.write(topic, pa.table({"value": [b"x"] * 30, "to": [7] * 10 + [33] * 20}),
                    bootstrap_servers=servers, partition="to")  # fmt: skip
    made["empty partitions"] = topic, 30
    topic = create_topic(kafka, 2)
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        for number in range(8):
            producer.begin_transaction()
            for one in range(300):
                producer.send(topic, b"%d %d" % (number, one), partition=one % 2)
            # An abort drops records that are not sent yet.
            producer.flush()
            (producer.abort_transaction if number % 2 else producer.commit_transaction)()
    wait_for_markers(servers, topic)
    made["aborted at the end"] = topic, 1200
    return made


@pytest.mark.parametrize(
    "kind",
    ["none", "gzip", "snappy", "lz4", "zstd", "empty partitions", "aborted at the end", "1,000 partitions"],
)
def test_rows_equal_the_log(
    read_topic: ReadTopic, kafka: KafkaServer, topics: dict[str, tuple[str, int]], kind: str
) -> None:
    topic, rows = topics[kind]
    found = read_topic(kafka.bootstrap_servers, topic, splits=16 if rows == 8000 else None)
    assert found.num_rows == rows
    assert digest(found) == digest(polled(kafka.bootstrap_servers, topic, rows))


def test_64_splits_of_one_partition(read: Read, kafka: KafkaServer) -> None:
    servers, topic = kafka.bootstrap_servers, create_topic(kafka)
    write(servers, topic, 0, 20_000)
    assert offsets(read(planned(servers, topic, splits=64))) == list(range(20_000))


def test_transaction_that_is_open_at_the_end(read_topic: ReadTopic, kafka: KafkaServer) -> None:
    servers, topic = kafka.bootstrap_servers, create_topic(kafka)
    write(servers, topic, 0, 100)
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send(topic, b"open").result(30)
        write(servers, topic, 100, 200)
        assert offsets(read_topic(servers, topic)) == list(range(100))
        producer.commit_transaction()


def test_compacted_topic(read_topic: ReadTopic, kafka: KafkaServer, compacted: str) -> None:
    servers = kafka.bootstrap_servers
    expected = samsarrow.read(compacted, bootstrap_servers=servers)
    found = read_topic(servers, compacted, splits=5)
    assert digest(found) == digest(expected)
    assert found["value"].null_count == 3


@pytest.fixture(scope="module")
def compacted(kafka: KafkaServer) -> str:
    """A topic whose records were mostly removed by the cleaner, with tombstones that stay."""
    topic = create_topic(kafka, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01")
    servers = kafka.bootstrap_servers
    with Producer(bootstrap_servers=servers) as producer:
        for number in range(3):
            for key in range(50):
                producer.send(topic, b"%d %d" % (number, key), key=b"k%d" % (key % 10))
            producer.flush()
            time.sleep(0.3)
        for key in range(3):
            producer.send(topic, None, key=b"k%d" % key)
        producer.flush()
        time.sleep(0.3)
        # Starts a new segment, so that the cleaner takes the segment before it.
        producer.send(topic, b"after", key=b"after").result(30)
    until(lambda: samsarrow.read(topic, bootstrap_servers=servers).num_rows <= 13, seconds=90)
    return topic


@pytest.fixture
def growing(kafka: KafkaServer) -> Iterator[tuple[str, list[bytes], Callable[[], None]]]:
    """A topic with two producers, one of which has transactions: topic, committed values, function that stops them."""
    servers, topic = kafka.bootstrap_servers, create_topic(kafka, 3)
    stop = threading.Event()
    committed: list[bytes] = []

    def plain() -> None:
        number = 0
        with Producer(bootstrap_servers=servers, linger_ms=2) as producer:
            while not stop.is_set():
                producer.send(topic, value := b"plain %d" % number, key=value)
                committed.append(value)
                number += 1
                time.sleep(0.001)

    def transactional() -> None:
        number = 0
        with Producer(bootstrap_servers=servers, transactional_id=f"x-{topic}") as producer:
            while not stop.is_set():
                producer.begin_transaction()
                sent = [b"transactional %d %d" % (number, one) for one in range(20)]
                for value in sent:
                    producer.send(topic, value, key=value)
                time.sleep(0.02)
                if number % 3:
                    producer.commit_transaction()
                    committed.extend(sent)
                else:
                    producer.abort_transaction()
                number += 1

    threads = [threading.Thread(target=one) for one in (plain, transactional)]
    for thread in threads:
        thread.start()

    def end() -> None:
        stop.set()
        for thread in threads:
            thread.join()
        wait_for_markers(servers, topic)

    try:
        yield topic, committed, end
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_every_record_once_over_ten_runs(
    read: Read, kafka: KafkaServer, growing: tuple[str, list[bytes], Callable[[], None]]
) -> None:
    topic, committed, end = growing
    seen: list[bytes] = []
    start: ranges.Bound = "earliest"
    for number in range(10):
        if number == 9:
            end()
        plan = planned(kafka.bootstrap_servers, topic, start=start, splits=4)
        seen += values(read(plan))
        start = plan.next_start().to_json()
        time.sleep(0.1)
    assert sorted(seen) == sorted(committed)


def test_dlt_loads_every_record_once_over_ten_runs(
    kafka: KafkaServer, growing: tuple[str, list[bytes], Callable[[], None]], tmp_path: Path
) -> None:
    need("dlt")
    topic, committed, end = growing
    pipeline = Pipeline(tmp_path)
    for number in range(10):
        if number == 9:
            end()
        pipeline.run(samsarrow.dlt.topic(topic, bootstrap_servers=kafka.bootstrap_servers, name="rows"))
    assert values(pipeline.table()) == sorted(committed)


def test_topic_that_grows_while_it_is_read(
    read: Read, kafka: KafkaServer, growing: tuple[str, list[bytes], Callable[[], None]]
) -> None:
    topic, _, end = growing
    time.sleep(0.5)
    plan = planned(kafka.bootstrap_servers, topic, splits=5)
    time.sleep(0.5)
    found = in_order(read(plan))
    end()
    for tp, first, last in plan.ranges:
        of = found.filter(pc.equal(found["partition"], tp.partition))["offset"].to_pylist()
        assert not of or (first <= of[0] and of[-1] < last)
    assert digest(found) == digest(read(plan))


def test_retention_that_overtakes_a_split(read: Read, kafka: KafkaServer) -> None:
    servers, topic = kafka.bootstrap_servers, create_topic(kafka)
    write(servers, topic, 0, 50_000, batch_size=2000)
    strict, lenient = (planned(servers, topic, splits=2, on_data_loss=what) for what in ("raise", "skip"))
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 30_000})
    # Engines read both splits at the same time, and have the error of one.
    lost = r"offsets (0 to 24999 \(25,000\)|25000 to 29999 \(5,000\)) cannot be read"
    with pytest.raises(Exception, match=f"{topic}-0: {lost}"):
        read(strict)
    assert offsets(read(lenient)) == list(range(30_000, 50_000))


def test_dlt_retention_that_overtakes_the_state(kafka: KafkaServer, tmp_path: Path) -> None:
    need("dlt")
    servers, topic, pipeline = kafka.bootstrap_servers, create_topic(kafka), Pipeline(tmp_path)
    write(servers, topic, 0, 1000, batch_size=2000)
    pipeline.run(samsarrow.dlt.topic(topic, bootstrap_servers=servers, name="rows"))
    write(servers, topic, 1000, 3000, batch_size=2000)
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({TopicPartition(topic, 0): 2500})
    with pytest.raises(Exception, match=rf"{topic}-0: offsets 1000 to 2499 \(1,500\) cannot be read"):
        pipeline.run(samsarrow.dlt.topic(topic, bootstrap_servers=servers, name="rows"))
    pipeline.run(samsarrow.dlt.topic(topic, bootstrap_servers=servers, name="rows", on_data_loss="skip"))
    assert offsets(pipeline.table()) == [*range(1000), *range(2500, 3000)]


# Small fetches, so that a read takes some time.
SLOW = {"timeout": 120, "max_poll_records": 1000, "max_partition_fetch_bytes": 20_000, "queued_max_bytes": 40_000}


def test_broker_that_is_killed_in_the_middle(read_topic: ReadTopic, kafka: KafkaServer) -> None:
    servers, topic = kafka.bootstrap_servers, create_topic(kafka)
    write(servers, topic, 0, 200_000, batch_size=10_000)

    def restart() -> None:
        time.sleep(0.5)
        kafka.kill()
        kafka.start()

    thread = threading.Thread(target=restart)
    thread.start()
    try:
        assert offsets(read_topic(servers, topic, splits=2, **SLOW)) == list(range(200_000))
    finally:
        thread.join()


def test_leader_that_is_killed(ray_session: None, tmp_path: Path) -> None:
    with KafkaCluster(2) as cluster:
        servers = cluster.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([samsarrow.NewTopic("t", 2, 2)])
            until(lambda: "t" in admin.list_topics())
        write(servers, "t", 0, 100_000)
        expected = digest(polled(servers, "t", 100_000))
        plan = planned(servers, "t", splits=4, **SLOW)

        def loaded(_: Plan) -> pa.Table:
            pipeline = Pipeline(tmp_path)
            pipeline.run(samsarrow.dlt.topic("t", bootstrap_servers=servers, name="rows", **SLOW))
            return pipeline.table()

        for number, engine in enumerate((*READS.values(), loaded)):
            broker = cluster.brokers[1 + number % 2]
            killer = threading.Timer(0.3, broker.kill)
            killer.start()
            assert digest(engine(plan)) == expected
            killer.join()
            broker.start()
            until(lambda: replicas_in_sync(servers, "t") == 4, seconds=60)


def replicas_in_sync(servers: str, topic: str) -> int:
    with Admin(bootstrap_servers=servers) as admin:
        return sum(len(one.isr) for one in admin.describe_topics([topic])[topic].partitions)
