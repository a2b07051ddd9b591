"""Plans and splits on the embedded broker: exact ends, lost offsets, topics that were created again, `next_start`."""

import asyncio
import gc
import logging
import pickle
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Admin, NewTopic, Producer, TopicPartition, _unclosed, aio, ranges
from samsarrow.exceptions import (
    BadValueError,
    ConfigurationError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
    UnknownTopicOrPartitionError,
)
from samsarrow.ranges import DataLoss, OffsetRange, Plan, Split
from samsarrow.testing import Broker

T0 = TopicPartition("t", 0)
FOUR = [TopicPartition("four", number) for number in range(4)]
START = datetime(2026, 11, 1, tzinfo=UTC)


def produce(servers: str, topic: str, *values: bytes, partition: int = 0, **options: Any) -> None:
    with Producer(bootstrap_servers=servers, **options) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, partition=partition, timestamp=START + number * timedelta(minutes=1))


def numbers(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def values(plan: Plan, **arguments: Any) -> list[bytes]:
    return [value for split in plan.splits for value in split.read(**arguments).read_all()["value"].to_pylist()]


@pytest.fixture
def plan(servers: str) -> Callable[..., Plan]:
    def make(topic: str = "t", **arguments: Any) -> Plan:
        return ranges.plan(topic, bootstrap_servers=servers, **arguments)

    return make


def test_splits_have_each_row_once_in_any_process(servers: str, plan: Callable[..., Plan]) -> None:
    for number in range(3):
        produce(servers, "four", *numbers(100 * number, 1000 * number), partition=number)
    whole = plan("four", splits=64)
    assert [one.end - one.start for one in whole.ranges] == [0, 100, 200, 0]
    assert len(whole.splits) == 64
    assert whole.estimated_rows == 300
    split = pickle.loads(pickle.dumps(whole.splits[-1]))
    assert split.read().read_all()["offset"].to_pylist() == list(range(200 - split.estimated_rows, 200))
    assert sorted(values(whole)) == sorted(numbers(100, 1000) + numbers(200, 2000))
    assert len(plan("four").splits) == 2


def test_later_records_are_not_part_of_a_plan(servers: str, plan: Callable[..., Plan]) -> None:
    produce(servers, "t", *numbers(10))
    first = plan()
    produce(servers, "t", *numbers(10, 10))
    assert values(first) == numbers(10)
    assert values(plan(start=first.next_start())) == numbers(10, 10)
    assert values(plan(start=first.next_start().to_json(), end={T0: 12})) == numbers(2, 10)
    assert plan(start=plan().next_start()).splits == ()
    assert plan(start="latest").next_start() == plan().next_start()


def test_empty_topic_has_no_splits_and_a_next_start(plan: Callable[..., Plan]) -> None:
    empty = plan("four")
    assert (empty.splits, empty.estimated_rows, dict(empty.next_start())) == ((), 0, dict.fromkeys(FOUR, 0))


@pytest.mark.parametrize(
    ("start", "end", "first", "last"),
    [
        ("2026-11-01T00:03Z", "latest", 3, 10),
        (START + timedelta(minutes=3, seconds=1), START + timedelta(minutes=7), 4, 7),
        ("earliest", "2026-11-01T00:00Z", 0, 0),
        ({T0: 2}, {T0: 5}, 2, 5),
        ({T0: 5}, {T0: 2}, 5, 5),
        ("latest", "latest", 10, 10),
        ("group:done", "latest", 6, 10),
        ("earliest", "group:done", 0, 6),
        (timedelta(seconds=1), "latest", 10, 10),
    ],
)
def test_bounds(
    servers: str, plan: Callable[..., Plan], start: ranges.Bound, end: ranges.Bound, first: int, last: int
) -> None:
    produce(servers, "t", *numbers(10))
    with Admin(bootstrap_servers=servers) as admin:
        admin.commit_offsets("done", {T0: 6})
    made = plan(start=start, end=end)
    assert made.ranges == ((T0, first, last),)
    assert values(made) == numbers(last - first, first)


def test_new_partitions_are_read_from_their_beginning(servers: str, plan: Callable[..., Plan]) -> None:
    produce(servers, "t", *numbers(3))
    before = plan().next_start()
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_partitions({"t": 2})
    produce(servers, "t", b"new", partition=1)
    assert values(plan(start=before)) == [b"new"]


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"start": "group:none"}, ConfigurationError, "start: group none has committed no offset of t; check the name"),
        ({"start": {T0: 11}}, OffsetOutOfRangeError, "t-0 ends at offset 10, before start 11: the log was truncated"),
        ({"end": {T0: 11}}, OffsetOutOfRangeError, "t-0 ends at offset 10, and should be read up to 11"),
        ({"start": {TopicPartition("t", 1): 0}}, ConfigurationError, "start has an offset of t-1, which is not read"),
        ({"partitions": [1]}, ConfigurationError, "topic t has 1 partitions, from 0 to 0: partitions has 1"),
        ({"columns": ["valeu"]}, ConfigurationError, "topic t has no column 'valeu': columns are key, value"),
    ],
)
def test_offsets_and_names_that_do_not_exist(
    servers: str, plan: Callable[..., Plan], arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    produce(servers, "t", *numbers(10))
    with pytest.raises(kind, match=text):
        plan(**arguments)


def test_end_needs_an_offset_of_each_partition(plan: Callable[..., Plan]) -> None:
    with pytest.raises(ConfigurationError, match="end has no offset of four-1: add it, or name the partitions"):
        plan("four", end={FOUR[0]: 0})
    assert plan("four", end={FOUR[0]: 0}, partitions=[0]).ranges == ((FOUR[0], 0, 0),)


def test_missing_topic_is_an_error_and_is_not_created(plan: Callable[..., Plan], servers: str) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="nosuch"):
        plan("nosuch", timeout=5)
    with Admin(bootstrap_servers=servers) as admin:
        assert "nosuch" not in admin.list_topics()


def test_deleted_topic_names_partition_and_offset(servers: str, plan: Callable[..., Plan]) -> None:
    produce(servers, "t", *numbers(10))
    split = plan("t", timeout=60).splits[0]
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics(["t"])
    with pytest.raises(UnknownTopicOrPartitionError, match=r"topic t was deleted .*: t-0 at offset 0 of 10"):
        split.read().read_all()


def test_split_ends_behind_markers_and_aborted_records(servers: str, plan: Callable[..., Plan]) -> None:
    with Producer(bootstrap_servers=servers, transactional_id="x") as producer:
        with producer.transaction():
            producer.send("t", b"committed")
        producer.begin_transaction()
        producer.send("t", b"aborted").result(30)
        producer.abort_transaction()
        made = plan()
        assert made.ranges == ((T0, 0, 4),)
        assert values(made) == [b"committed"]
        assert [values(plan(start={T0: at}, end={T0: at + 1})) for at in range(4)] == [[b"committed"], [], [], []]
        assert values(plan(isolation_level="read_uncommitted")) == [b"committed", b"aborted"]
        producer.begin_transaction()
        producer.send("t", b"open")
        producer.flush()
        # The range ends before the open transaction.
        assert plan().ranges == ((T0, 0, 4),)
        following = plan(isolation_level="read_uncommitted").next_start()
        assert dict(following) == {T0: 5}
        # The start is past the last stable offset: nothing is read, and the next start does not move back.
        assert dict(plan(start=following).next_start()) == {T0: 5}
        producer.commit_transaction()
        assert values(plan(start=made.next_start())) == [b"open"]


def test_removed_offsets_are_an_error_or_are_skipped(
    servers: str, plan: Callable[..., Plan], caplog: pytest.LogCaptureFixture
) -> None:
    produce(servers, "t", *numbers(10))
    strict, lenient = (plan(on_data_loss=what, splits=2) for what in ("raise", "skip"))
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_records({T0: 7})
    with pytest.raises(OffsetOutOfRangeError, match=r"t-0: offsets 0 to 4 \(5\) cannot be read: retention"):
        values(strict)
    losses: list[DataLoss] = []
    with caplog.at_level(logging.WARNING, "samsarrow.consumer"):
        assert values(lenient, on_loss=losses.append) == numbers(3, 7)
    assert losses == [DataLoss(T0, 0, 5), DataLoss(T0, 5, 7)]
    assert [loss.count for loss in losses] == [5, 2]
    assert caplog.text.count("are skipped") == 2
    # The offsets were removed before the plan is made.
    with pytest.raises(OffsetOutOfRangeError, match="offsets 2 to 6"):
        plan(start={T0: 2})
    skipped = plan(start={T0: 2}, on_data_loss="skip")
    assert skipped.losses == (DataLoss(T0, 2, 7),)
    assert values(skipped) == numbers(3, 7)
    assert plan(start={T0: 2}, end={T0: 4}, on_data_loss="skip").ranges == ((T0, 4, 4),)


def test_topic_that_was_created_again_is_an_error(servers: str, plan: Callable[..., Plan]) -> None:
    produce(servers, "t", *numbers(10))
    made = plan(on_data_loss="skip", splits=2)
    opened = made.splits[0].read()
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("t", 1)])
    produce(servers, "t", *numbers(20, 100))
    for read in (opened, *(split.read() for split in made.splits)):
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError, match="topic t was deleted and recreated"):
                read.read_all()
    for start in (made.next_start(), made.next_start().to_json()):
        with pytest.raises(OffsetOutOfRangeError, match="topic t was deleted and recreated"):
            plan(start=start)


def test_topic_that_was_created_again_and_is_empty_is_an_error(servers: str, plan: Callable[..., Plan]) -> None:
    produce(servers, "t", *numbers(10))
    made = plan()
    with Admin(bootstrap_servers=servers) as admin:
        admin.delete_topics(["t"])
        admin.create_topics([NewTopic("t", 1)])
    with pytest.raises(OffsetOutOfRangeError, match="topic t was deleted and recreated"):
        values(made)


def test_brokers_that_are_away_are_an_error_in_time(broker: Broker, servers: str, plan: Callable[..., Plan]) -> None:
    produce(servers, "t", *numbers(10))
    made = plan(timeout=1.5)
    reader = made.splits[0].read()
    broker.close()
    begun = time.monotonic()
    with pytest.raises(KafkaTimeoutError, match=r"no record arrived for 1.5 s: t-0 at offset 0 of 10; .*connect"):
        reader.read_all()
    assert time.monotonic() - begun < 10


def test_log_that_ends_before_the_range_is_an_error(servers: str, plan: Callable[..., Plan]) -> None:
    produce(servers, "t", *numbers(10))
    reader = Split((OffsetRange(T0, 0, 20),), plan(timeout=5)._source).read()
    assert reader.read_next_batch().num_rows == 10
    with pytest.raises(OffsetOutOfRangeError, match=r"t-0 ends at offset 10, before 20, .*: the log was truncated"):
        reader.read_next_batch()


def test_leader_without_an_offset_gets_another_request(broker: Broker, servers: str, plan: Callable[..., Plan]) -> None:
    for partition in range(4):
        produce(servers, "four", *numbers(50, 100 * partition), partition=partition)
    broker.fail("Fetch", error="OFFSET_OUT_OF_RANGE", times=3)
    assert len(values(plan("four", splits=1))) == 200
    broker.fail("Fetch", error="OFFSET_OUT_OF_RANGE", times=None)
    with pytest.raises(
        KafkaTimeoutError, match=r"no record arrived for 1 s: four-0 at offset 0 of 50, .*offset 0 is not in the log"
    ):
        values(plan("four", splits=1, timeout=1))
    requests = broker.requests("Fetch")
    assert requests < 100, "the leader gets requests without pauses"


def test_broker_that_stalls_for_a_while_delays_a_read(broker: Broker, servers: str, plan: Callable[..., Plan]) -> None:
    produce(servers, "t", *numbers(10))
    broker.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER", times=5)
    broker.fail("ListOffsets", error="LEADER_NOT_AVAILABLE", times=2)
    assert values(plan()) == numbers(10)


def test_columns_are_selected_and_only_those_are_decoded(servers: str, plan: Callable[..., Plan]) -> None:
    produce(servers, "t", b"no long")
    made = plan(columns=["offset", "headers"], value_format="long")
    assert made.schema.names == ["offset", "headers"]
    assert made.splits[0].read().read_all().to_pylist() == [{"offset": 0, "headers": []}]
    made = plan(columns=["value_error", "value"], value_format="long", on_decode_error="null")
    [row] = made.splits[0].read().read_all().to_pylist()
    assert row["value"] is None
    assert "bytes" in row["value_error"]


def test_value_that_cannot_be_decoded_ends_the_reader_with_its_error(servers: str, plan: Callable[..., Plan]) -> None:
    produce(servers, "t", (5).to_bytes(8, "big"), b"no long")
    reader = plan(value_format="long").splits[0].read()
    assert reader.schema.field("value").type == pa.int64()
    assert reader.read_next_batch()["value"].to_pylist() == [5]
    for _ in range(2):
        with pytest.raises(BadValueError, match="t-0"):
            reader.read_next_batch()


def test_readers_close_their_consumers(servers: str, plan: Callable[..., Plan]) -> None:
    produce(servers, "t", *numbers(10), b"no long")
    made = plan(splits=2)
    first, last = plan(splits=2, value_format="int").splits
    before = len(_unclosed._consumers)
    ended, failed, unread = made.splits[0].read(), last.read(), first.read()
    assert len(_unclosed._consumers) == before + 3
    ended.read_all()
    with pytest.raises(BadValueError):
        failed.read_all()
    del unread
    gc.collect()
    assert len(_unclosed._consumers) == before


def test_config_providers_travel_unresolved(
    servers: str, plan: Callable[..., Plan], monkeypatch: pytest.MonkeyPatch
) -> None:
    produce(servers, "t", b"one")
    monkeypatch.setenv("CLIENT_NAME", "first")
    made = plan(config={"config.providers": "env", "client.id": "${env:CLIENT_NAME}"})
    pickled = pickle.dumps(made)
    assert b"first" not in pickled
    monkeypatch.delenv("CLIENT_NAME")
    with pytest.raises(ConfigurationError, match="CLIENT_NAME"):
        pickle.loads(pickled).splits[0].read()


def test_every_record_once_over_many_runs_while_records_are_written(servers: str, plan: Callable[..., Plan]) -> None:
    ended = threading.Event()

    def write() -> None:
        with Producer(bootstrap_servers=servers, linger_ms=1) as producer:
            for number in range(20_000):
                producer.send("four", b"%d" % number, key=b"%d" % (number % 17))
        ended.set()

    thread = threading.Thread(target=write)
    thread.start()
    seen: list[bytes] = []
    start: ranges.Bound = "earliest"
    runs = 0
    last = False
    while not last:
        last, runs = ended.is_set() and runs >= 10, runs + 1
        made = plan("four", start=start, splits=3)
        seen += values(made)
        start = made.next_start().to_json()
    thread.join()
    assert sorted(seen) == sorted(numbers(20_000))


def test_async_plan_and_splits(servers: str) -> None:
    produce(servers, "t", *numbers(10))

    async def read() -> list[bytes]:
        made = await aio.plan("t", splits=3, bootstrap_servers=servers)
        found = []
        for split in made.splits:
            async for batch in split.aread():
                found += batch["value"].to_pylist()
        left = made.splits[0].aread()
        await anext(left)
        await left.aclose()
        assert [batch async for batch in left] == []
        return found

    assert asyncio.run(read()) == numbers(10)
