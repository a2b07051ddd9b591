"""Arguments that several calls of clients have: partitions, timeouts, listeners. Topic lookups, and ends of readers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, NewTopic, OffsetAndMetadata, Producer, RebalanceListener, TopicPartition
from samsarrow.exceptions import (
    ConfigurationError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from samsarrow.testing import Broker
from support.commands import Ended

T0 = TopicPartition("t", 0)
FOUR = [TopicPartition("four", partition) for partition in range(4)]
SHORT = timedelta(seconds=0.3)


def fill(servers: str, topic: str, rows: int, partitions: int = 1) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for row in range(rows):
            producer.send(topic, str(row), partition=row % partitions)


FORMS: dict[str, Callable[[], tuple[Any, ...]]] = {
    "arguments": lambda: tuple(FOUR),
    "list": lambda: (FOUR,),
    "tuple": lambda: (tuple(FOUR),),
    "set": lambda: (set(FOUR),),
    "generator": lambda: ((tp for tp in FOUR),),
    "keys": lambda: (dict.fromkeys(FOUR, 0),),
    "mixed": lambda: (FOUR[0], FOUR[1:]),
}


@pytest.mark.parametrize("form", FORMS)
def test_partitions_are_arguments_or_an_iterable(servers: str, form: str) -> None:
    fill(servers, "four", 8, partitions=4)
    partitions = FORMS[form]
    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.assign(*partitions())
        assert consumer.assignment() == set(FOUR)
        consumer.pause(*partitions())
        assert consumer.paused() == set(FOUR)
        consumer.resume(*partitions())
        assert consumer.paused() == set()
        assert consumer.end_offsets(*partitions()) == dict.fromkeys(FOUR, 2)
        assert consumer.beginning_offsets(*partitions()) == dict.fromkeys(FOUR, 0)
        consumer.seek_to_end(*partitions())
        assert [consumer.position(tp) for tp in FOUR] == [2] * 4
        consumer.seek_to_beginning(*partitions(), timeout=5)
        assert [consumer.position(tp) for tp in FOUR] == [0] * 4
        consumer.seek_to_timestamp(datetime(2100, 1, 1, tzinfo=UTC), *partitions())
        assert [consumer.position(tp) for tp in FOUR] == [2] * 4
        consumer.commit()
        assert [offset and offset.offset for offset in consumer.committed(*partitions()).values()] == [2] * 4
        consumer.seek_to_beginning()
        consumer.seek_to_committed(*partitions())
        assert [consumer.position(tp) for tp in FOUR] == [2] * 4


def test_no_partitions_are_all_and_an_empty_iterable_is_none(servers: str) -> None:
    fill(servers, "four", 8, partitions=4)
    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.assign(FOUR)
        consumer.pause([])
        consumer.seek_to_end([])
        assert (consumer.paused(), consumer.position(FOUR[0])) == (set(), 0)
        assert consumer.end_offsets([]) == consumer.committed([]) == {}
        assert consumer.end_offsets() == dict.fromkeys(FOUR, 2)
        assert consumer.beginning_offsets() == dict.fromkeys(FOUR, 0)
        assert consumer.committed() == dict.fromkeys(FOUR)
        consumer.pause()
        consumer.resume([])
        assert consumer.paused() == set(FOUR)
        consumer.assign([])
        assert consumer.assignment() == set()
        with pytest.raises(TypeError, match=r"assign\(\[\]\) removes all"):
            consumer.assign()
        with pytest.raises(ConfigurationError, match="nothing is assigned"):
            consumer.end_offsets()


@pytest.mark.parametrize("invalid", ["t", ["t"], 3, [3], ("t", "0"), [("t", 0.5)]])
def test_arguments_that_are_no_partitions(servers: str, invalid: Any) -> None:
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
        for call in (consumer.assign, consumer.pause, consumer.committed, consumer.end_offsets, consumer.seek_to_end):
            with pytest.raises(TypeError, match="TopicPartition"):
                call(invalid)


def test_timeouts_of_all_calls_hold(broker: Broker, servers: str) -> None:
    fill(servers, "t", 1)
    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.assign(T0)
        consumer.poll(10)
        broker.fail("ListOffsets", drop="before", times=None)
        broker.fail("OffsetFetch", drop="before", times=None)
        broker.fail("Metadata", drop="before", times=None)
        with Producer(bootstrap_servers=servers, transactional_id="x") as producer:
            calls: list[Callable[[], object]] = [
                lambda: consumer.seek_to_beginning(timeout=SHORT),
                lambda: consumer.seek_to_end(T0, timeout=SHORT),
                lambda: consumer.seek_to_committed(T0, timeout=SHORT),
                lambda: consumer.seek_to_timestamp(0, timeout=SHORT),
                lambda: consumer.committed(T0, timeout=SHORT),
                lambda: consumer.end_offsets(T0, timeout=SHORT),
                lambda: consumer.topics(SHORT),
                lambda: consumer.assign_topics("unknown", timeout=SHORT),
                lambda: producer.partitions_for("t", timeout=SHORT),
                lambda: producer.begin_transaction(SHORT),
            ]
            for number, call in enumerate(calls):
                started = time.monotonic()
                with pytest.raises(KafkaTimeoutError):
                    call()
                assert time.monotonic() - started < 3.0, number
            broker.heal()
            assert consumer.position(T0, timeout=SHORT) == 1
            assert consumer.lag(SHORT) == {T0: 0}
            consumer.unsubscribe(SHORT)


def test_deliveries_take_a_timedelta(broker: Broker, servers: str) -> None:
    broker.fail("Produce", delay=1.0, times=2)
    with Producer(bootstrap_servers=servers, linger_ms=0) as producer:
        one = producer.send("t", b"v")
        for call in (one.result, one.exception):
            with pytest.raises(KafkaTimeoutError):
                call(timedelta(seconds=0.1))
        assert one.result(timedelta(seconds=30)).offset == 0
        rows = producer.send_batch("t", pa.table({"value": [b"a", b"b"]}))
        with pytest.raises(KafkaTimeoutError):
            rows.result(timedelta(seconds=0.1))
        assert rows.exception(timedelta(seconds=30)) is None
        assert [(receipt.topic, receipt.base_offset, receipt.count) for receipt in rows.result(30)] == [("t", 1, 2)]
        for invalid in ("5", object()):
            with pytest.raises(TypeError, match="a timeout is a number of seconds or a timedelta"):
                one.result(invalid)  # type: ignore[arg-type]


def test_poll_returns_no_more_than_max_records(servers: str) -> None:
    fill(servers, "t", 30)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", max_poll_records=10) as consumer:
        consumer.assign(T0)
        sizes = [consumer.poll(5, max_records=count).num_rows for count in (3, 1, None, 6)]
        assert sizes == [3, 1, 10, 6]
        assert consumer.position(T0) == 20
        assert [record.offset for record in consumer.records(5, max_records=2)] == [20, 21]
        for invalid, error in ((0, ConfigurationError), ("3", TypeError)):
            with pytest.raises(error, match="max_records must be"):
                consumer.poll(0, max_records=invalid)  # type: ignore[arg-type]


def test_poll_without_a_timeout_waits_for_the_first_row(servers: str) -> None:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(T0)
        sender = threading.Timer(1.5, fill, (servers, "t", 1))
        sender.start()
        assert consumer.poll(None).num_rows == 1
        sender.join()


def test_commits_of_records_batches_and_offsets(servers: str) -> None:
    fill(servers, "t", 30)
    options = {"bootstrap_servers": servers, "group_id": "g", "auto_offset_reset": "earliest"}
    with Consumer(options, enable_auto_commit=False, max_poll_records=10) as consumer:
        consumer.assign(T0)
        record = next(iter(consumer.records(5)))
        consumer.commit(record)
        assert consumer.committed(T0)[T0] == OffsetAndMetadata(1)
        consumer.commit(consumer.poll(5))
        assert consumer.committed(T0)[T0] == OffsetAndMetadata(20, leader_epoch=0)
        consumer.commit({T0: 7})
        assert consumer.committed(T0)[T0] == OffsetAndMetadata(7)
        consumer.commit({T0: OffsetAndMetadata(8, "text", 0)})
        assert consumer.committed(T0)[T0] == OffsetAndMetadata(8, "text", 0)
        consumer.commit()
        assert consumer.committed(T0)[T0] == OffsetAndMetadata(20, leader_epoch=0)
    for formats in ({}, {"value_format": "string"}):
        with Consumer(options | {"group_id": "h"}, include_leader_epoch=True, **formats) as consumer:
            consumer.assign(T0)
            consumer.commit(next(iter(consumer.records(5))))
            assert consumer.committed(T0)[T0] == OffsetAndMetadata(1, leader_epoch=0)
            consumer.seek(T0, 0)


class Incomplete:
    def on_partitions_assigned(self, partitions: Iterable[TopicPartition]) -> None: ...

    def on_partitions_revoked(self, partitions: Iterable[TopicPartition]) -> None: ...


@pytest.mark.parametrize(
    ("listener", "text"),
    [
        (print, "no method on_partitions_assigned and no on_partitions_revoked and no on_partitions_lost"),
        (Incomplete(), "has no method on_partitions_lost"),
        (RebalanceListener, "must be a RebalanceListener object, not a class"),
        ("listener", "must be a RebalanceListener"),
    ],
)
def test_subscribe_checks_the_listener(servers: str, listener: Any, text: str) -> None:
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
        with pytest.raises(TypeError, match=text):
            consumer.subscribe(["t"], listener=listener)
        assert consumer.subscription() is None


def test_type_errors_name_the_method(servers: str) -> None:
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer, Producer(bootstrap_servers=servers) as producer:
        calls: list[tuple[Any, str]] = [(consumer.subscribe, "subscribe"), (consumer.pause, "pause")]
        calls += [(consumer.assign, "assign"), (producer.metrics, "metrics")]
        for call, name in calls:
            with pytest.raises(
                TypeError, match=rf"^(Consumer|Producer)\.{name}\(\) got an unexpected keyword argument 'unknown'"
            ):
                call(unknown=1)


def test_topics_are_listed_without_internal_ones(servers: str) -> None:
    with Consumer(bootstrap_servers=servers, group_id="g") as consumer:
        consumer.assign(T0)
        consumer.commit({T0: 1})
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("a")])
        assert consumer.topics() == ["a", "four", "t"]


def test_assign_topics_assigns_all_partitions(servers: str) -> None:
    fill(servers, "four", 40, partitions=4)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign_topics("four")
        assert consumer.assignment() == set(FOUR)
        assert consumer.reader().read_all().num_rows == 40
        consumer.assign_topics(["t"], "four")
        assert consumer.assignment() == {T0, *FOUR}
        with pytest.raises(UnknownTopicOrPartitionError):
            consumer.assign_topics("t", "missing")
        assert consumer.assignment() == {T0, *FOUR}
        for invalid in ((), (3,), ([],), (T0,)):
            with pytest.raises(TypeError):
                consumer.assign_topics(*invalid)


def test_timestamps_as_datetimes(servers: str) -> None:
    when = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)
    with Producer(bootstrap_servers=servers) as producer:
        written = producer.send("t", b"v", timestamp=when).result(30)
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(T0)
        found = consumer.offsets_for_times({T0: when})[T0]
        record = next(iter(consumer.records(5)))
    assert found is not None
    assert written.datetime == found.datetime == record.datetime == when
    assert record._replace(timestamp=None).datetime is None


# ---- readers ----


@pytest.mark.parametrize("kind", ["assigned", "range", "consumer"])
def test_reader_of_a_deleted_topic_raises(broker: Broker, servers: str, kind: str) -> None:
    fill(servers, "t", 1000)
    fill(servers, "four", 400, partitions=4)
    options: dict[str, Any] = {"bootstrap_servers": servers, "auto_offset_reset": "earliest", "max_poll_records": 50}
    options |= {"metadata_max_age_ms": 1000, "queued_max_bytes": 1}
    if kind != "assigned":
        options |= {"group_id": "g", "group_protocol": "consumer" if kind == "consumer" else "classic"}
    with Consumer(options) as consumer:
        if kind == "assigned":
            consumer.assign_topics("t", "four")
        else:
            consumer.subscribe(["t", "four"])
        reader = consumer.reader()
        rows = reader.read_next_batch().num_rows
        with Admin(bootstrap_servers=servers) as admin:
            admin.delete_topics(["t"])
        started, failures = time.monotonic(), list[str]()
        while True:
            try:
                rows += reader.read_next_batch().num_rows
            except UnknownTopicOrPartitionError as error:
                failures.append(str(error))
            except StopIteration:
                break
        assert time.monotonic() - started < 30
        assert len(failures) == 1
        assert "the topic was deleted before the reader had read it to its end: offsets of t-0" in failures[0]
        assert 400 <= rows < 1400


@pytest.mark.parametrize(("reset", "expected"), [("earliest", 5), ("latest", 0), ("none", None)])
def test_reader_past_the_end_of_the_log_follows_the_reset_policy(
    servers: str, reset: str, expected: int | None
) -> None:
    fill(servers, "t", 5)
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("g", {T0: 1000})
    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset=reset) as consumer:
        consumer.assign(T0)
        reader = consumer.reader()
        if expected is None:
            for _ in range(2):
                with pytest.raises(OffsetOutOfRangeError, match=r"t-0: offset 1000 is not in the log"):
                    reader.read_next_batch()
            consumer.seek(T0, 3)
            assert reader.read_all().num_rows == 2
        else:
            assert reader.read_all().num_rows == expected
        assert consumer.position(T0) == 5


def test_reader_past_an_old_end_but_in_the_log_ends(servers: str) -> None:
    fill(servers, "t", 5)
    with Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
        consumer.assign(T0)
        reader = consumer.reader()
        fill(servers, "t", 5)
        consumer.seek(T0, 8)
        assert reader.read_all().num_rows == 0
        assert consumer.position(T0) == 8


def test_consume_command_past_the_end_of_the_log(servers: str, command: Callable[..., Ended]) -> None:
    fill(servers, "t", 5)
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("g", {T0: 1000})
        assert command("consume", "t", "-g", "g").out == "0\n1\n2\n3\n4\n"
        committed = admin.fetch_offsets("g")
    assert committed[T0].offset == 5
