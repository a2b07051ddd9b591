"""Bounded reads of Apache Kafka: compacted and transactional topics, retention, growing topics, many splits."""

import hashlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import samsarrow
from samsarrow import Admin, Consumer, NewTopic, Producer, TopicPartition, ranges
from samsarrow.admin_types import OffsetSpec
from samsarrow.exceptions import OffsetOutOfRangeError
from samsarrow.ranges import DataLoss, Plan
from support.fixtures import create_topic
from support.kafka import KafkaServer
from support.waiting import until

NewTopicOf = Callable[..., str]


def write(servers: str, topic: str, first: int, last: int, **options: Any) -> None:
    table = pa.table({"value": pa.array([b"%d" % number for number in range(first, last)], pa.binary())})
    samsarrow.write(topic, table, bootstrap_servers=servers, **options)


def planned(servers: str, topic: str, **arguments: Any) -> Plan:
    return ranges.plan(topic, bootstrap_servers=servers, **arguments)


def offsets(plan: Plan, **arguments: Any) -> list[tuple[int, int]]:
    """Reads all splits; returns partition and offset of each row in the order in which they were read."""
    found: list[tuple[int, int]] = []
    for split in plan.splits:
        table = split.read(**arguments).read_all()
        found += zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)
    return found


def values(plan: Plan, **arguments: Any) -> list[bytes]:
    return [value for split in plan.splits for value in split.read(**arguments).read_all()["value"].to_pylist()]


def wait_for_markers(servers: str, topic: str) -> None:
    """Waits until the markers of ended transactions are written, which happens after the response to their end."""
    with Admin(bootstrap_servers=servers) as admin:
        count = admin.list_topics()[topic].partitions
        ends = {TopicPartition(topic, number): OffsetSpec.LATEST for number in range(count)}
        until(lambda: dict(admin.list_offsets(ends)) == dict(admin.list_offsets(ends, read_committed=True)))


def digest(table: pa.Table) -> str:
    rows = table.select(["partition", "offset", "key", "value"]).sort_by(
        [("partition", "ascending"), ("offset", "ascending")]
    )
    return hashlib.sha256(repr(rows.to_pydict()).encode()).hexdigest()


def polled(servers: str, topic: str, rows: int, **options: Any) -> pa.Table:
    """Reads a topic by polls, without ends."""
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **options) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        batches: list[pa.RecordBatch] = []
        until(lambda: batches.append(consumer.poll(0.5)) or sum(batch.num_rows for batch in batches) >= rows)
        return pa.Table.from_batches(batches, consumer.schema)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_64_splits_of_one_partition(kafka: KafkaServer, new_topic: NewTopicOf, codec: str) -> None:
    topic, servers = new_topic(), kafka.bootstrap_servers
    write(servers, topic, 0, 20_000, compression_type=codec)
    plan = planned(servers, topic, splits=64)
    assert len(plan.splits) == 64
    assert values(plan) == [b"%d" % number for number in range(20_000)]
    whole = samsarrow.read(topic, bootstrap_servers=servers)
    assert digest(whole) == digest(polled(servers, topic, 20_000))


def test_many_partitions_of_which_most_are_empty(kafka: KafkaServer, new_topic: NewTopicOf) -> None:
    topic, servers = new_topic(partitions=40), kafka.bootstrap_servers
    table = pa.table({"value": ["x"] * 30, "to": [7] * 10 + [33] * 20})
    samsarrow.write(topic, table, bootstrap_servers=servers, partition="to")
    plan = planned(servers, topic)
    assert [split.ranges[0].partition.partition for split in plan.splits] == [7, 33]
    assert len(offsets(plan)) == len(offsets(planned(servers, topic, splits=4))) == 30
    assert len(plan.next_start()) == 40


def test_transactions_aborted_and_open_at_the_end(kafka: KafkaServer, new_topic: NewTopicOf) -> None:
    topic, servers = new_topic(), kafka.bootstrap_servers
    write(servers, topic, 0, 5)
    with Producer(bootstrap_servers=servers, transactional_id=topic) as producer:
        for number in range(8):
            producer.begin_transaction()
            for _ in range(3):
                producer.send(topic, b"%d" % number)
            # An abort drops records that are not sent yet.
            producer.flush()
            (producer.abort_transaction if number % 2 else producer.commit_transaction)()
        wait_for_markers(servers, topic)
        plan = planned(servers, topic)
        [(tp, start, end)] = plan.ranges
        assert (start, end) == (0, 5 + 8 * 4)
        expected = [b"%d" % number for number in [*range(5), *(number for number in range(0, 8, 2) for _ in range(3))]]
        assert values(plan) == expected
        assert values(planned(servers, topic, splits=end)) == expected
        # The last four offsets are three aborted records and their marker.
        assert values(planned(servers, topic, start={tp: end - 4})) == []
        producer.begin_transaction()
        producer.send(topic, b"open").result(30)
        write(servers, topic, 100, 101)
        held = planned(servers, topic, start=plan.next_start())
        assert held.ranges == ((tp, end, end),)
        assert values(planned(servers, topic, start=plan.next_start(), isolation_level="read_uncommitted")) == [
            b"open", b"100",
        ]  # fmt: skip
        producer.commit_transaction()
    wait_for_markers(servers, topic)
    following = planned(servers, topic, start=held.next_start())
    assert values(following) == [b"open", b"100"]


def test_compacted_topic_whose_last_offsets_are_gone(kafka: KafkaServer) -> None:
    servers = kafka.bootstrap_servers
    topic = create_topic(
        kafka, cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01", delete_retention_ms="100"
    )
    with Producer(bootstrap_servers=servers) as producer:
        for round_number in range(3):
            for number in range(50):
                producer.send(topic, b"%d %d" % (round_number, number), key=b"k%d" % (number % 10))
            producer.flush()
            time.sleep(0.3)
        for number in range(5):
            # Tombstones that will be removed, at the end of the plan.
            producer.send(topic, None, key=b"k%d" % number)
        producer.flush()
        plan = planned(servers, topic)
        assert plan.estimated_rows == 155
        time.sleep(0.3)
        # Starts a new segment, so that the cleaner takes the segment before it.
        producer.send(topic, b"after", key=b"after").result(30)

    def cleaned() -> bool:
        return samsarrow.read(topic, bootstrap_servers=servers).num_rows <= 15

    until(cleaned, seconds=90)
    found = offsets(plan)
    everything = polled(servers, topic, samsarrow.read(topic, bootstrap_servers=servers).num_rows)
    below = everything.filter(pc.less(everything["offset"], 155))
    assert found == [(0, offset) for offset in below["offset"].to_pylist()]
    assert [one for split in planned(servers, topic, end=plan.next_start(), splits=31).splits
            for one in split.read().read_all()["offset"].to_pylist()] == below["offset"].to_pylist()  # fmt: skip


def test_topic_that_grows_while_it_is_read(kafka: KafkaServer, new_topic: NewTopicOf) -> None:
    topic, servers = new_topic(partitions=2), kafka.bootstrap_servers
    write(servers, topic, 0, 1000)
    plan = planned(servers, topic, splits=5)
    stop = threading.Event()

    def grow() -> None:
        with Producer(bootstrap_servers=servers) as producer:
            while not stop.is_set():
                producer.send(topic, b"later")
                time.sleep(0.0005)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        assert sorted(values(plan)) == sorted(b"%d" % number for number in range(1000))
    finally:
        stop.set()
        thread.join()


def test_every_record_once_over_ten_runs_while_producers_write(kafka: KafkaServer, new_topic: NewTopicOf) -> None:
    topic, servers = new_topic(partitions=3), kafka.bootstrap_servers
    stop = threading.Event()
    committed: list[bytes] = []

    def plain() -> None:
        number = 0
        with Producer(bootstrap_servers=servers, linger_ms=2) as producer:
            while not stop.is_set():
                value = b"plain %d" % number
                producer.send(topic, value, key=value)
                committed.append(value)
                number += 1
                time.sleep(0.0005)

    def transactional() -> None:
        number = 0
        with Producer(bootstrap_servers=servers, transactional_id=f"x-{topic}") as producer:
            while not stop.is_set():
                producer.begin_transaction()
                sent = [b"transactional %d %d" % (number, one) for one in range(20)]
                for value in sent:
                    producer.send(topic, value, key=value)
                time.sleep(0.01)
                if number % 3:
                    producer.commit_transaction()
                    committed.extend(sent)
                else:
                    producer.abort_transaction()
                number += 1

    threads = [threading.Thread(target=one) for one in (plain, transactional)]
    for thread in threads:
        thread.start()
    seen: list[bytes] = []
    start: ranges.Bound = "earliest"
    try:
        for _ in range(10):
            plan = planned(servers, topic, start=start, splits=4)
            seen += values(plan)
            start = plan.next_start().to_json()
            time.sleep(0.2)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    wait_for_markers(servers, topic)
    seen += values(planned(servers, topic, start=start))
    assert len(seen) == len(set(seen))
    assert sorted(seen) == sorted(committed)


def test_retention_that_overtakes_a_split(kafka: KafkaServer) -> None:
    servers = kafka.bootstrap_servers
    topic = create_topic(kafka)
    tp = TopicPartition(topic, 0)
    write(servers, topic, 0, 50_000, batch_size=2000)
    strict, lenient = (planned(servers, topic, splits=2, on_data_loss=what) for what in ("raise", "skip"))
    opened = lenient.splits[0].read()
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({tp: 30_000})
    with pytest.raises(OffsetOutOfRangeError, match=rf"{topic}-0: offsets 0 to 24999 \(25,000\) cannot be read"):
        values(strict)
    # Rows that were fetched before their removal may be returned.
    before = opened.read_all()["offset"].to_pylist()
    assert before == list(range(len(before)))
    losses: list[DataLoss] = []
    assert values(lenient, on_loss=losses.append) == [b"%d" % number for number in range(30_000, 50_000)]
    assert losses == [DataLoss(tp, 0, 25_000), DataLoss(tp, 25_000, 30_000)]


def test_topic_that_was_deleted_and_created_again(kafka: KafkaServer, new_topic: NewTopicOf) -> None:
    topic, servers = new_topic(), kafka.bootstrap_servers
    write(servers, topic, 0, 10)
    plan = planned(servers, topic, on_data_loss="skip")
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics([topic])
        until(lambda: topic not in admin.list_topics())
        admin.create_topics([NewTopic(topic, 1, 1)])
        until(lambda: topic in admin.list_topics())
    write(servers, topic, 100, 200)
    with pytest.raises(OffsetOutOfRangeError, match=f"topic {topic} was deleted and recreated"):
        values(plan)
    with pytest.raises(OffsetOutOfRangeError, match=f"topic {topic} was deleted and recreated"):
        planned(servers, topic, start=plan.next_start())


def test_broker_that_is_killed_in_the_middle(kafka: KafkaServer, new_topic: NewTopicOf) -> None:
    topic, servers = new_topic(), kafka.bootstrap_servers
    write(servers, topic, 0, 100_000, batch_size=10_000)
    # Small fetches, so that most rows are fetched after the restart.
    options = {"max_poll_records": 1000, "max_partition_fetch_bytes": 20_000, "queued_max_bytes": 40_000}
    reader = planned(servers, topic, timeout=120, **options).splits[0].read()
    found = reader.read_next_batch()["value"].to_pylist()
    kafka.kill()
    thread = threading.Thread(target=kafka.start)
    thread.start()
    try:
        found += reader.read_all()["value"].to_pylist()
    finally:
        thread.join()
    assert found == [b"%d" % number for number in range(100_000)]
