"""Cases of share consumers that run on Apache Kafka and on the embedded broker, both with locks of one second."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from samsarrow import (
    Admin,
    ConfigResource,
    Consumer,
    NewTopic,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from samsarrow.exceptions import GroupIdNotFoundError, InconsistentGroupProtocolError

LOCK_S = 1.0
"""Time for which records are locked in cases that wait for the end of locks."""
LONG_LOCK = "30000"
"""Group config for cases whose locks must not end, however slow the machine is."""


def earliest(servers: str, group: str, **configs: str) -> None:
    """Makes a new share group read topics from their beginning. Other group configs have underscores for dots."""
    changes = {name.replace("_", "."): value for name, value in configs.items()}
    with Admin(bootstrap_servers=servers) as admin:
        admin.alter_configs({ConfigResource.group(group): {"share.auto.offset.reset": "earliest", **changes}})


def send(servers: str, topic: str, count: int, first: int = 0) -> list[int]:
    """Sends `count` records, whose values are numbers from `first` on, and returns the numbers."""
    numbers = list(range(first, first + count))
    with Producer(bootstrap_servers=servers) as producer:
        producer.send_batch(topic, pa.record_batch({"value": pa.array([b"%d" % n for n in numbers])}))
    return numbers


def numbers_of(batch: pa.RecordBatch | pa.Table) -> list[int]:
    return [int(value) for value in batch.column("value").to_pylist()]


def poll_rows(consumer: ShareConsumer, seconds: float = 20.0) -> pa.RecordBatch:
    """Polls until rows arrive."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if (batch := consumer.poll(0.5)).num_rows:
            return batch
    raise AssertionError(f"no row within {seconds} s")


def members_share_the_records(servers: str, topic: str, group: str) -> None:
    """Several members of both modes accept each record exactly once."""
    earliest(servers, group, share_record_lock_duration_ms=LONG_LOCK)
    sent = send(servers, topic, 6000)
    lock, counts, done = threading.Lock(), Counter[int](), threading.Event()
    failures: list[BaseException] = []

    def member(explicit: bool) -> None:
        mode = "explicit" if explicit else "implicit"
        try:
            with ShareConsumer(
                bootstrap_servers=servers, group_id=group, acknowledgement=mode, max_poll_records=200
            ) as consumer:
                consumer.subscribe([topic])
                while not done.is_set():
                    batch = consumer.poll(0.2)
                    with lock:
                        counts.update(numbers_of(batch))
                    if explicit and batch.num_rows:
                        consumer.acknowledge(batch)
                    if len(counts) == len(sent):
                        done.set()
        except BaseException as error:
            failures.append(error)
            done.set()

    threads = [threading.Thread(target=member, args=(explicit,)) for explicit in (False, True, False, True)]
    for thread in threads:
        thread.start()
    done.wait(60)
    done.set()
    for thread in threads:
        thread.join(60)
    assert not failures
    assert sorted(counts) == sent
    assert sum(counts.values()) == len(sent)
    with ShareConsumer(bootstrap_servers=servers, group_id=group) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(3).num_rows == 0


def each_type_has_its_effect(servers: str, topic: str, group: str) -> None:
    """Accepted and rejected rows are not delivered again, and released ones are, with a higher count."""
    earliest(servers, group, share_record_lock_duration_ms=LONG_LOCK)
    send(servers, topic, 6)
    with ShareConsumer(bootstrap_servers=servers, group_id=group, acknowledgement="explicit") as consumer:
        consumer.subscribe([topic])
        batch = poll_rows(consumer)
        assert numbers_of(batch) == list(range(6))
        assert batch.column("delivery_count").to_pylist() == [1] * 6
        types = pa.array(["accept", "release", "reject", "accept", "release", "accept"])
        consumer.acknowledge(batch, types)
        assert consumer.commit(10) == {TopicPartition(topic, 0): None}
        again = poll_rows(consumer)
        assert numbers_of(again) == [1, 4]
        assert again.column("delivery_count").to_pylist() == [2, 2]
        consumer.acknowledge(again.filter(pa.array([True, False])))
        consumer.acknowledge((TopicPartition(topic, 0), again.column("offset")[1].as_py()), "reject")
        assert consumer.commit(10) == {TopicPartition(topic, 0): None}
        assert consumer.poll(1).num_rows == 0
        metrics = consumer.metrics()
        assert metrics.records_consumed_total == 8
        assert metrics.acknowledgements_send_total == 8
        assert metrics.acknowledgements_error_total == metrics.acknowledgements_error_rate == 0
        assert metrics.fetch_total == metrics.fetch_latency.count >= 2
        rates = (metrics.fetch_rate, metrics.records_consumed_rate, metrics.bytes_consumed_rate)
        assert min(*rates, metrics.acknowledgements_send_rate, metrics.bytes_consumed_total) > 0
        assert 0 < (metrics.fetch_size_avg or 0) <= (metrics.fetch_size_max or 0)
        assert 0 < (metrics.records_per_request_avg or 0) <= 6
        assert (metrics.topics, metrics.assigned_partitions) == ({topic: 8}, 1)


def renewal_outlasts_the_lock(servers: str, topic: str, group: str) -> None:
    """A renewed row is not delivered to other members for three lock times."""
    earliest(servers, group)
    send(servers, topic, 3)
    options = {"bootstrap_servers": servers, "group_id": group, "acknowledgement": "explicit"}
    with ShareConsumer(**options) as consumer, ShareConsumer(**options) as other:
        consumer.subscribe([topic])
        batch = poll_rows(consumer)
        other.subscribe([topic])
        assert consumer.lock_timeout == LOCK_S
        for _ in range(6):
            assert other.poll(LOCK_S / 2).num_rows == 0
            assert consumer.renew(batch, timeout=5) == {TopicPartition(topic, 0): None}
        left = consumer.locked_for(batch)
        assert left is not None
        assert LOCK_S / 2 < left <= LOCK_S
        consumer.acknowledge(batch)
        assert consumer.commit(5) == {TopicPartition(topic, 0): None}
        assert other.poll(1.5 * LOCK_S).num_rows == 0


def automatic_renewal_outlasts_the_lock(servers: str, topic: str, group: str) -> None:
    """With `auto_renew`, an application may take longer than the lock."""
    earliest(servers, group)
    send(servers, topic, 3)
    options = {"bootstrap_servers": servers, "group_id": group, "acknowledgement": "explicit"}
    with ShareConsumer(**options, auto_renew=True) as consumer, ShareConsumer(**options) as other:
        consumer.subscribe([topic])
        batch = poll_rows(consumer)
        other.subscribe([topic])
        assert other.poll(3 * LOCK_S).num_rows == 0
        consumer.acknowledge(batch)
        assert consumer.commit(5) == {TopicPartition(topic, 0): None}


def renewed_rows_stay_renewed(servers: str, topic: str, group: str) -> None:
    """`auto_renew` keeps the locks of rows that the application has renewed, also while polls wait for more rows.

    Fetches of waiting polls followed each other, so that no renewal was sent and the rows came back after each lock.
    """
    earliest(servers, group)
    send(servers, topic, 3)
    with ShareConsumer(
        bootstrap_servers=servers, group_id=group, acknowledgement="explicit", auto_renew=True
    ) as consumer:
        consumer.subscribe([topic])
        batch = poll_rows(consumer)
        consumer.acknowledge(batch, "renew")
        assert consumer.poll(4 * LOCK_S).num_rows == 0
        for _ in range(4):
            # The fetch of a poll that has ended still waits at the broker.
            assert consumer.poll(0.1).num_rows == 0
            begin = time.monotonic()
            assert consumer.renew(batch, timeout=10) == {TopicPartition(topic, 0): None}
            assert time.monotonic() - begin < 5
        consumer.acknowledge(batch)
        assert consumer.commit(10) == {TopicPartition(topic, 0): None}
        assert consumer.poll(1.5 * LOCK_S).num_rows == 0


def late_acknowledgement_is_in_the_outcome(servers: str, topic: str, group: str) -> None:
    """Rows whose lock has ended are delivered again, and their acknowledgement is an error of the commit."""
    earliest(servers, group)
    send(servers, topic, 2)
    with ShareConsumer(bootstrap_servers=servers, group_id=group, acknowledgement="explicit") as consumer:
        consumer.subscribe([topic])
        batch = poll_rows(consumer)
        time.sleep(1.5 * LOCK_S)
        consumer.acknowledge(batch)
        begin = time.monotonic()
        outcome = consumer.commit(10)[TopicPartition(topic, 0)]
        # No request is sent, so nothing takes long. The commit once waited until its timeout.
        assert time.monotonic() - begin < 5
        assert type(outcome).__name__ == "InvalidRecordStateError", outcome
        again = poll_rows(consumer)
        assert again.column("delivery_count").to_pylist() == [2, 2]
        consumer.acknowledge(again)


def close_returns_rows_at_once(servers: str, topic: str, group: str) -> None:
    """Undecided rows, and rows of a block that ends with an exception, return to the group without waiting."""
    earliest(servers, group, share_record_lock_duration_ms=LONG_LOCK)
    send(servers, topic, 2)
    with ShareConsumer(bootstrap_servers=servers, group_id=group, acknowledgement="explicit") as consumer:
        consumer.subscribe([topic])
        assert poll_rows(consumer).column("delivery_count").to_pylist() == [1, 1]
    try:
        with ShareConsumer(bootstrap_servers=servers, group_id=group) as consumer:
            consumer.subscribe([topic])
            assert poll_rows(consumer).column("delivery_count").to_pylist() == [2, 2]
            raise RuntimeError
    except RuntimeError:
        pass
    with ShareConsumer(bootstrap_servers=servers, group_id=group) as consumer:
        consumer.subscribe([topic])
        assert poll_rows(consumer).column("delivery_count").to_pylist() == [3, 3]
    with ShareConsumer(bootstrap_servers=servers, group_id=group) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(2.5).num_rows == 0


def callbacks_run_in_order(servers: str, topic: str, group: str) -> None:
    """Callbacks of `commit_async` get the acknowledged offsets, in the order of the calls."""
    earliest(servers, group, share_record_lock_duration_ms=LONG_LOCK)
    send(servers, topic, 4)
    calls: list[tuple[object, object]] = []
    with ShareConsumer(bootstrap_servers=servers, group_id=group, acknowledgement="explicit") as consumer:
        consumer.subscribe([topic])
        batch = poll_rows(consumer)
        first = batch.column("offset")[0].as_py()
        consumer.acknowledge(batch.slice(0, 1))
        consumer.commit_async(lambda offsets, error: calls.append((offsets, error)))
        consumer.acknowledge(batch.slice(1), "reject")
        consumer.commit_async(lambda offsets, error: calls.append((offsets, error)))
        consumer.commit(10)
    tp = TopicPartition(topic, 0)
    assert calls == [({tp: [(first, first)]}, None), ({tp: [(first + 1, first + 3)]}, None)]


def record_limit_is_strict(servers: str, topic: str, group: str) -> None:
    """With `record_limit` no poll returns more rows than `max.poll.records`."""
    earliest(servers, group, share_record_lock_duration_ms=LONG_LOCK)
    sent = send(servers, topic, 20)
    read: list[int] = []
    with ShareConsumer(
        bootstrap_servers=servers, group_id=group, acquire_mode="record_limit", max_poll_records=7
    ) as consumer:
        consumer.subscribe([topic])
        while len(read) < len(sent):
            batch = poll_rows(consumer)
            assert batch.num_rows <= 7
            read += numbers_of(batch)
    assert sorted(read) == sent


def transactions_leave_no_gaps_behind(servers: str, topic: str, group: str) -> None:
    """Markers and, with `read_committed`, aborted records are acknowledged without being rows."""
    earliest(servers, group, share_isolation_level="read_committed", share_record_lock_duration_ms=LONG_LOCK)
    with Producer(bootstrap_servers=servers, transactional_id=group) as producer:
        producer.init_transactions()
        for number, commits in enumerate([True, False, True]):
            producer.begin_transaction()
            producer.send(topic, b"%d" % number, partition=0)
            producer.flush()
            producer.commit_transaction() if commits else producer.abort_transaction()
    read: list[int] = []
    with ShareConsumer(bootstrap_servers=servers, group_id=group) as consumer:
        consumer.subscribe([topic])
        while len(read) < 2:
            read += numbers_of(poll_rows(consumer))
        consumer.commit(10)
    assert read == [0, 2]
    with ShareConsumer(bootstrap_servers=servers, group_id=group) as consumer:
        consumer.subscribe([topic])
        send(servers, topic, 1, first=9)
        assert numbers_of(poll_rows(consumer)) == [9]


def a_deleted_topic_does_not_stop_the_others(servers: str, topic: str, group: str) -> None:
    """A topic that is deleted while its partition is in a session costs the rows in flight, and no error."""
    deleted = f"{topic}-deleted"
    earliest(servers, group, share_record_lock_duration_ms=LONG_LOCK)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(deleted, 1, 1)])
        send(servers, topic, 2)
        send(servers, deleted, 2)
        with ShareConsumer(bootstrap_servers=servers, group_id=group, acknowledgement="explicit") as consumer:
            consumer.subscribe([topic, deleted])
            read = 0
            while read < 4:
                batch = poll_rows(consumer)
                read += batch.num_rows
                consumer.acknowledge(batch)
                assert set(consumer.commit(10).values()) == {None}
            admin.delete_topics([deleted])
            assert consumer.poll(0.5).num_rows == 0
            send(servers, topic, 1, first=7)
            assert numbers_of(poll_rows(consumer)) == [7]


def groups_without_members_keep_their_type(servers: str, topic: str, group: str) -> None:
    """A share group never becomes another group, nor does another group become a share group, also without members."""
    kinds = ("classic", "consumer", "share")
    rejected = {
        ("classic", "share"): GroupIdNotFoundError,
        ("consumer", "share"): GroupIdNotFoundError,
        ("share", "classic"): InconsistentGroupProtocolError,
        ("share", "consumer"): GroupIdNotFoundError,
    }

    def join(group_id: str, kind: Any) -> type[BaseException] | None:
        options: dict[str, Any] = {"bootstrap_servers": servers, "group_id": group_id}
        with ShareConsumer(**options) if kind == "share" else Consumer(**options, group_protocol=kind) as consumer:
            consumer.subscribe([topic])
            deadline = time.monotonic() + 20
            while not consumer.assignment():
                assert time.monotonic() < deadline, f"{kind} has joined nothing"
                try:
                    consumer.poll(0.1)
                except (GroupIdNotFoundError, InconsistentGroupProtocolError) as error:
                    return type(error)
        return None

    for first in kinds:
        for second in kinds:
            group_id = f"{group}-{first}-{second}"
            assert join(group_id, first) is None
            assert join(group_id, second) is rejected.get((first, second)), (first, second)


CASES: list[Callable[[str, str, str], None]] = [
    members_share_the_records,
    each_type_has_its_effect,
    renewal_outlasts_the_lock,
    automatic_renewal_outlasts_the_lock,
    renewed_rows_stay_renewed,
    late_acknowledgement_is_in_the_outcome,
    close_returns_rows_at_once,
    callbacks_run_in_order,
    record_limit_is_strict,
    a_deleted_topic_does_not_stop_the_others,
    groups_without_members_keep_their_type,
]
