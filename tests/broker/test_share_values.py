"""Share consumers with typed values on the embedded broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Literal

import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, DeadLetter, Json, NewTopic, Producer, ShareConsumer, TopicPartition
from samsarrow.exceptions import BadValueError, KafkaError, UnknownTopicOrPartitionError
from samsarrow.testing import Broker
from support.share_cases import earliest, poll_rows, send

TP = TopicPartition("t", 0)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 1, "dead": 1}, auto_create_topics=False, share_lock=30) as broker:
        earliest(broker.bootstrap_servers, "g")
        yield broker


@pytest.fixture
def servers(broker: Broker) -> str:
    return broker.bootstrap_servers


def test_bad_value_is_raised_in_its_place(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in (b"1", b"x", b"3"):
            producer.send("t", value, partition=0)
    with ShareConsumer(
        bootstrap_servers=servers, group_id="g", acknowledgement="explicit", value_format=Json(pa.int64())
    ) as consumer:
        consumer.subscribe(["t"])
        first = poll_rows(consumer)
        assert first.column("value").to_pylist() == [1]
        consumer.acknowledge(first)
        with pytest.raises(BadValueError) as caught:
            consumer.poll(5)
        error = caught.value
        assert (error.partition, error.offset) == (TP, 1)
        consumer.acknowledge((error.partition, error.offset), "reject")
        last = poll_rows(consumer)
        assert last.column("value").to_pylist() == [3]
        consumer.acknowledge(last)
        assert consumer.commit(5) == {TP: None}


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_undecoded_rows_of_a_lost_session_are_fetched_again(
    broker: Broker, servers: str, mode: Literal["implicit", "explicit"]
) -> None:
    """Earlier these rows were raised and returned, but could not be acknowledged."""
    with Producer(bootstrap_servers=servers) as producer:
        for value in (b"1", b"x", b"3"):
            producer.send("t", value, partition=0)
    with ShareConsumer(
        bootstrap_servers=servers, group_id="g", acknowledgement=mode, value_format=Json(pa.int64())
    ) as consumer:
        consumer.subscribe(["t"])
        assert poll_rows(consumer).column("offset").to_pylist() == [0]
        broker.fail("ShareAcknowledge", drop="before")
        if mode == "explicit":
            consumer.acknowledge((TP, 0))
        assert isinstance(consumer.commit(10)[TP], KafkaError)
        again = poll_rows(consumer)
        assert again.select(["offset", "delivery_count"]).to_pylist() == [{"offset": 0, "delivery_count": 2}]
        if mode == "explicit":
            consumer.acknowledge(again)
        with pytest.raises(BadValueError) as caught:
            consumer.poll(10)
        if mode == "explicit":
            consumer.acknowledge((caught.value.partition, caught.value.offset), "reject")
        last = poll_rows(consumer)
        assert last.column("value").to_pylist() == [3]
        if mode == "explicit":
            consumer.acknowledge(last)
        assert consumer.commit(5) == {TP: None}


@pytest.mark.parametrize("effect", ["release", "reject", "null", "letter"])
def test_bad_value_has_the_chosen_effect(servers: str, effect: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in (b"1", b"x", b"3"):
            producer.send("t", value, partition=0)
        letter = DeadLetter("dead", producer) if effect == "letter" else effect
        read: list[int | None] = []
        with ShareConsumer(
            bootstrap_servers=servers,
            group_id="g",
            value_format=Json(pa.int64()),
            on_decode_error=letter,  # type: ignore[arg-type]
        ) as consumer:
            consumer.subscribe(["t"])
            while 3 not in read:
                read += poll_rows(consumer).column("value").to_pylist()
            consumer.commit(5)
            assert consumer.metrics().acknowledgements_error_total == 0
    assert read == ([1, None, 3] if effect == "null" else [1, 3])


def test_commit_of_another_thread_accepts_no_row_that_is_being_decoded(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", '{"n": 1}', partition=0)
    outcomes: list[object] = []
    with ShareConsumer(
        bootstrap_servers=servers, group_id="g", value_format=Json(pa.struct({"n": pa.int64()}))
    ) as consumer:
        consumer.subscribe(["t"])
        assert consumer._typed is not None
        decode = consumer._typed.read

        async def commit_first(*arguments: object) -> object:
            thread = threading.Thread(target=lambda: outcomes.append(consumer.commit(10)))
            thread.start()
            thread.join(20)
            return await decode(*arguments)  # type: ignore[arg-type]

        consumer._typed.read = commit_first  # type: ignore[method-assign,assignment]
        assert poll_rows(consumer).num_rows == 1
        assert outcomes == [{}]
        assert consumer.commit(10) == {TP: None}


def test_unsubscribe_returns_fetched_rows(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for text in ("1", "x", "2"):
            producer.send("t", text, partition=0)
    options = {"bootstrap_servers": servers, "group_id": "g", "acknowledgement": "explicit"}
    with ShareConsumer(**options, value_format=Json(pa.int64())) as consumer, ShareConsumer(**options) as other:
        consumer.subscribe(["t"])
        consumer.acknowledge(poll_rows(consumer))
        consumer.unsubscribe()
        other.subscribe(["t"])
        assert poll_rows(other).column("value").to_pylist() == [b"x", b"2"]


@pytest.mark.parametrize("typed", [False, True])
def test_records_have_their_delivery_count(servers: str, typed: bool) -> None:
    send(servers, "t", 2)
    formats = {"value_format": Json(pa.int64())} if typed else {}
    with ShareConsumer(bootstrap_servers=servers, group_id="g", acknowledgement="explicit", **formats) as consumer:  # type: ignore[arg-type]
        consumer.subscribe(["t"])
        for count in (1, 2):
            records = list(consumer._records_of(poll_rows(consumer)))
            assert [(record.offset, record.delivery_count) for record in records] == [(0, count), (1, count)]
            consumer.acknowledge(records, "release")
    with Consumer(bootstrap_servers=servers, group_id="c", auto_offset_reset="earliest", **formats) as reader:  # type: ignore[arg-type]
        reader.subscribe(["t"])
        assert [record.delivery_count for record in reader.records(10)] == [None, None]


def test_a_missing_dead_letter_topic_fails_soon(servers: str) -> None:
    with Producer(bootstrap_servers=servers) as producer:
        for value in (b"1", b"x", b"3"):
            producer.send("t", value, partition=0)
        producer.flush()
        with ShareConsumer(
            bootstrap_servers=servers,
            group_id="g",
            value_format=Json(pa.int64()),
            on_decode_error=DeadLetter("missing", producer),
        ) as consumer:
            consumer.subscribe(["t"])
            started = time.monotonic()
            with pytest.raises(UnknownTopicOrPartitionError, match="no topic missing for dead letters: create it"):
                poll_rows(consumer)
            assert time.monotonic() - started < 12
            with Admin(bootstrap_servers=servers) as admin:
                admin.create_topics([NewTopic("missing", 1)])
            assert poll_rows(consumer).column("value").to_pylist() == [1, 3]
            assert consumer.commit(5) == {TP: None}
