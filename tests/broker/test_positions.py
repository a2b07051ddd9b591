"""Positions of batches: bounded readers during rebalances, wakeups and errors; and commits of batches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from samsarrow import (
    Admin,
    Consumer,
    ConsumerGroupMetadata,
    NewTopic,
    OffsetAndMetadata,
    Producer,
    RebalanceListener,
    TopicPartition,
)
from samsarrow.exceptions import ConfigurationError, KafkaTimeoutError, TopicAuthorizationFailedError, WakeupError
from samsarrow.offsets import next_offsets
from samsarrow.testing import Broker

T = TopicPartition("t", 0)
PARTITIONS = [TopicPartition("four", partition) for partition in range(4)]


def fill(servers: str, tp: TopicPartition, rows: int) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for row in range(rows):
            producer.send(tp.topic, str(row), partition=tp.partition)


def offsets_of(batch: pa.RecordBatch) -> list[tuple[int, int]]:
    return list(zip(batch["partition"].to_pylist(), batch["offset"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    "options",
    [
        {"partition_assignment_strategy": "range"},
        {"partition_assignment_strategy": "cooperative-sticky"},
        {"group_protocol": "consumer"},
    ],
    ids=["range", "cooperative-sticky", "consumer"],
)
def test_reader_during_a_rebalance_returns_each_row_once(servers: str, options: dict[str, str]) -> None:
    for tp in PARTITIONS:
        fill(servers, tp, 300)
    lock, seen = threading.Lock(), dict[tuple[int, int], int]()
    joined, stop = threading.Event(), threading.Event()

    def see(batch: pa.RecordBatch) -> None:
        with lock:
            for row in offsets_of(batch):
                seen[row] = seen.get(row, 0) + 1

    def member() -> Consumer:
        return Consumer(
            bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", max_poll_records=50, **options
        )

    def second() -> None:
        with member() as other:
            assigned = RebalanceListener(on_partitions_assigned=lambda tps: joined.set() if tps else None)
            other.subscribe(["four"], listener=assigned)
            while not stop.is_set():
                see(other.poll(0.1))

    thread = threading.Thread(target=second)
    with member() as first:
        first.subscribe(["four"])
        for number, batch in enumerate(first.reader()):
            see(batch)
            if number == 1:
                thread.start()
            # The first consumer polls while the other member joins.
            while number >= 1 and not joined.is_set() and number < 4:
                see(first.poll(0.1))
        deadline = time.monotonic() + 60
        while len(seen) < 1200 and time.monotonic() < deadline:
            see(first.poll(0.1))
        stop.set()
        thread.join()
    assert len(seen) == 1200
    assert set(seen.values()) == {1}


def test_reader_continues_with_newly_assigned_partitions(servers: str, broker: Broker) -> None:
    for tp in PARTITIONS:
        fill(servers, tp, 100)
    other = Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", enable_auto_commit=False)
    other.subscribe(["four"])
    while not other.assignment():
        other.poll(0.1)
    with Consumer(
        bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", max_poll_records=10
    ) as consumer:
        consumer.subscribe(["four"])
        stop = threading.Event()
        thread = threading.Thread(target=lambda: [other.poll(0.1) for _ in iter(stop.is_set, True)])
        thread.start()
        rows, left = list[tuple[int, int]](), False
        for batch in consumer.reader():
            rows += offsets_of(batch)
            if not left:
                stop.set()
                thread.join()
                other.close()
                left = True
                deadline = time.monotonic() + 30
                while len(consumer.assignment()) < 4 and time.monotonic() < deadline:
                    rows += offsets_of(consumer.poll(0.1))
    assert sorted(rows) == [(partition, offset) for partition in range(4) for offset in range(100)]


def test_failed_reader_consumes_no_row(servers: str, broker: Broker) -> None:
    fill(servers, T, 10)
    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        broker.fail("ListOffsets", error="TOPIC_AUTHORIZATION_FAILED")
        with Admin(bootstrap_servers=servers) as admin:
            admin.commit_offsets("g", {T: 0})
        with pytest.raises(TopicAuthorizationFailedError):
            consumer.reader()
        assert consumer.position(T) == 0
        broker.heal()
        assert consumer.reader().read_all().num_rows == 10


def test_dropped_reader_consumes_no_row(servers: str) -> None:
    fill(servers, T, 10)
    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        reader = consumer.reader()
        del reader
        assert consumer.poll(5).num_rows == 10


def test_wakeup_of_a_reader_loses_no_row(servers: str) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_partitions({"four": 40})
    partitions = [TopicPartition("four", partition) for partition in range(40)]
    with Producer(bootstrap_servers=servers) as producer:
        for tp in partitions:
            producer.send_batch("four", pa.table({"value": ["v"] * 100, "p": [tp.partition] * 100}), partition="p")
    returned: dict[int, list[int]] = {}
    stop = threading.Event()

    def wake(consumer: Consumer) -> None:
        while not stop.wait(0.002):
            consumer.wakeup()

    with Consumer(
        bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", max_poll_records=20
    ) as consumer:
        consumer.assign(partitions)
        thread = threading.Thread(target=wake, args=(consumer,))
        thread.start()
        deadline = time.monotonic() + 60
        while sum(map(len, returned.values())) < 4000 and time.monotonic() < deadline:
            try:
                for batch in consumer.reader():
                    for partition, offset in offsets_of(batch):
                        returned.setdefault(partition, []).append(offset)
            except WakeupError:
                pass
        stop.set()
        thread.join()
    assert returned == {partition: list(range(100)) for partition in range(40)}


def test_reader_stops_at_the_end_offsets(servers: str, broker: Broker) -> None:
    fill(servers, T, 10)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T])
        reader = consumer.reader()
        fill(servers, T, 5)
        assert reader.read_all()["offset"].to_pylist() == list(range(10))
        assert consumer.position(T) == 10
        assert consumer.poll(5)["offset"].to_pylist() == list(range(10, 15))


def transactions(servers: str, aborted: int) -> None:
    """Writes three records in a committed transaction and `aborted` records in an aborted one. Each transaction has a
    marker.
    """
    with Producer(bootstrap_servers=servers, transactional_id="x") as producer:
        with producer.transaction():
            for _ in range(3):
                producer.send("t", b"committed")
        producer.begin_transaction()
        for _ in range(aborted):
            producer.send("t", b"aborted")
        producer.flush()
        producer.abort_transaction()


@pytest.mark.parametrize("level", ["read_committed", "read_uncommitted"])
def test_commit_of_a_batch_skips_markers_and_aborted_rows(servers: str, level: str) -> None:
    transactions(servers, 1000)
    with (
        Consumer(
            bootstrap_servers=servers,
            group_id="g",
            auto_offset_reset="earliest",
            isolation_level=level,
            enable_auto_commit=False,
        ) as consumer,
        Admin(bootstrap_servers=servers) as admin,
    ):
        consumer.assign([T])
        rows, deadline = 0, time.monotonic() + 30
        while consumer.position(T) < 1005 and time.monotonic() < deadline:
            batch = consumer.poll(0.5)
            rows += batch.num_rows
            consumer.commit(batch)
        assert rows == (3 if level == "read_committed" else 1003)
        # The position of an empty batch is after the last marker.
        consumer.commit(consumer.poll(0))
        found = admin.fetch_offsets("g")[T]
        assert (found.offset, found.leader_epoch) == (1005, 0)
        assert admin.group_lag(["g"])["g"].total == 0


def test_commit_of_a_slice_ends_after_its_last_row(servers: str) -> None:
    transactions(servers, 10)
    with Consumer(
        bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        consumer.assign([T])
        batch = consumer.poll(5)
        assert batch.num_rows == 3
        consumer.commit(batch.slice(0, 2))
        assert consumer.committed([T])[T] == OffsetAndMetadata(2)
        assert next_offsets(batch.slice(1, 2))[T].offset > 3
        table = pa.Table.from_batches([batch.slice(2), batch.slice(0, 2)])
        consumer.commit(table)
        found = consumer.committed([T])[T]
        assert found is not None
        assert found.offset > 3


def test_stored_offsets_of_a_batch_skip_markers(servers: str) -> None:
    transactions(servers, 10)
    with Consumer(
        bootstrap_servers=servers,
        group_id="g",
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        enable_auto_offset_store=False,
    ) as consumer:
        consumer.assign([T])
        deadline = time.monotonic() + 30
        while consumer.position(T) < 15 and time.monotonic() < deadline:
            batch = consumer.poll(0.5)
            consumer.store_offsets(batch)
        consumer.store_offsets(consumer.poll(0))
    with Admin(bootstrap_servers=servers) as admin:
        assert admin.fetch_offsets("g")[T].offset == 15


def test_transactional_offsets_have_position_and_epoch(servers: str) -> None:
    transactions(servers, 10)
    with (
        Consumer(
            bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", isolation_level="read_committed"
        ) as consumer,
        Producer(bootstrap_servers=servers, transactional_id="y") as producer,
    ):
        consumer.assign([T])
        batch = consumer.poll(5)
        with producer.transaction():
            producer.send_offsets_to_transaction(batch, ConsumerGroupMetadata("g", "", -1, None))
        found = consumer.committed([T])[T]
        assert found is not None
        assert found.leader_epoch == 0
        assert found.offset == json.loads(batch.schema.metadata[b"samsarrow.positions"])[0][3]


def test_reader_skips_paused_partitions(servers: str, read: Callable[..., pa.Table]) -> None:
    for tp in PARTITIONS:
        fill(servers, tp, 10)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(PARTITIONS)
        consumer.pause(PARTITIONS[0])
        assert {
            partition for partition, _ in offsets_of(consumer.reader().read_all().combine_chunks().to_batches()[0])
        } == {
            1,
            2,
            3,
        }
        assert consumer.paused() == {PARTITIONS[0]}
        consumer.resume()
        assert read(consumer, 10)["partition"].to_pylist() == [0] * 10


@pytest.mark.parametrize("change", ["seek", "seek_to_beginning", "assign"])
def test_seek_during_a_poll_is_read_immediately(servers: str, change: str) -> None:
    fill(servers, T, 1)
    fill(servers, PARTITIONS[0], 1)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="latest") as consumer:
        consumer.assign([T, PARTITIONS[0]] if change != "assign" else [T])
        assert consumer.poll(0.5).num_rows == 0
        found = list[pa.RecordBatch]()
        thread = threading.Thread(target=lambda: found.append(consumer.poll(60)))
        began = time.monotonic()
        thread.start()
        time.sleep(0.3)
        if change == "assign":
            fill(servers, T, 1)
            consumer.assign([T, PARTITIONS[1]])
        elif change == "seek":
            consumer.seek(T, 0)
        else:
            consumer.seek_to_beginning(T)
        thread.join()
        assert found[0].num_rows == 1
        assert time.monotonic() - began < 30


def test_reader_timeout_includes_the_end_offset_lookup(servers: str, broker: Broker) -> None:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([T])
        assert consumer.poll(0.2).num_rows == 0
        broker.fail("ListOffsets", drop="before", times=None)
        began = time.monotonic()
        with pytest.raises(KafkaTimeoutError):
            consumer.reader(timeout=1)
        assert time.monotonic() - began < 20


def test_batch_of_a_recreated_topic_is_not_committed(servers: str) -> None:
    fill(servers, T, 10)
    with (
        Admin(bootstrap_servers=servers) as admin,
        Consumer(
            bootstrap_servers=servers,
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            metadata_max_age_ms=200,
        ) as consumer,
    ):
        consumer.assign([T])
        old = consumer.poll(5)
        assert old.num_rows == 10
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("t", 1)])
        fill(servers, T, 30)
        new, deadline = 0, time.monotonic() + 60
        while new < 30 and time.monotonic() < deadline:
            new += consumer.poll(0.5).num_rows
        assert new == 30
        consumer.commit(old)
        assert consumer.committed([T])[T] is None


def test_assign_with_offsets_starts_there(servers: str) -> None:
    for tp in PARTITIONS:
        fill(servers, tp, 4)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        zero, one, two, three = PARTITIONS
        consumer.assign({zero: 3, one: OffsetAndMetadata(2), two: None}, three)
        assert sorted(offsets_of(consumer.reader().read_all())) == sorted(
            [(0, 3), (1, 2), (1, 3), *((partition, offset) for partition in (2, 3) for offset in range(4))]
        )
        # A partition that was assigned before moves, too.
        consumer.assign({zero: 1}, three)
        assert offsets_of(consumer.reader().read_all()) == [(0, 1), (0, 2), (0, 3)]
        consumer.assign(consumer.beginning_offsets(zero))
        assert consumer.position(zero) == 0


def test_assign_with_an_invalid_offset_changes_nothing(servers: str) -> None:
    with Consumer(bootstrap_servers=servers) as consumer:
        consumer.assign(T)
        with pytest.raises(ConfigurationError, match=r"^cannot assign four-1 at offset -2: offsets start at 0$"):
            consumer.assign({PARTITIONS[0]: 1, PARTITIONS[1]: -2})
        with pytest.raises(TypeError, match=r"^expected an offset or OffsetAndMetadata, got 'end'$"):
            consumer.assign({PARTITIONS[0]: "end"})
        assert consumer.assignment() == {T}
