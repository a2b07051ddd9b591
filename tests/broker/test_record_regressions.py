"""Regression tests of record encoding: timestamps, nulls and keys, batch sizes, codecs, and acks=0."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka as ck
import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer, NewTopic, Producer, TopicPartition
from samsarrow.exceptions import MessageTooLargeError
from samsarrow.testing import Broker

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
# Consecutive timestamps differ by more than 32 bits in both directions.
TIMES = [1_700_000_000_000, 0, 2**45, -1, 5, 253_402_300_799_999]
PAYLOADS: list[bytes | None] = [None, b"", b"x", None, b"", b"\0" * 300]


def rows(servers: str, topic: str, count: int, partition: int = 0) -> list[dict[str, Any]]:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", include_headers=True) as consumer:
        consumer.assign([TopicPartition(topic, partition)])
        found: list[dict[str, Any]] = []
        end = time.monotonic() + 60
        while len(found) < count and time.monotonic() < end:
            found += consumer.poll(1).to_pylist()
    return found


def read_with_librdkafka(servers: str, topic: str, count: int) -> list[Any]:
    """Reads the messages with librdkafka, which verifies the checksums."""
    consumer = ck.Consumer({"bootstrap.servers": servers, "group.id": "theirs", "check.crcs": True})
    consumer.assign([ck.TopicPartition(topic, 0, 0)])
    messages: list[Any] = []
    while len(messages) < count:
        [message] = consumer.consume(1, 60) or [None]
        assert message is not None, f"{len(messages)} of {count}"
        assert message.error() is None
        messages.append(message)
    consumer.close()
    return messages


@pytest.fixture
def topics(servers: str) -> Iterator[Any]:
    """Returns a function that creates a topic with configs: `topics("name", **{"max.message.bytes": 1000})`."""
    with Admin(bootstrap_servers=servers) as admin:

        def create(name: str, **configs: object) -> str:
            admin.create_topics([NewTopic(name, 1, configs={key: str(value) for key, value in configs.items()})])
            return name

        yield create


@pytest.mark.parametrize("arrow", [False, True], ids=["rows", "arrow"])
@pytest.mark.parametrize("codec", CODECS)
def test_timestamps_nulls_and_empty_values(servers: str, codec: str, arrow: bool) -> None:
    values = list(reversed(PAYLOADS))
    # -1 means that a record has no timestamp. An Arrow row without a timestamp would get the time of the call, so the
    # Arrow table has 7 instead.
    expected = [7 if arrow and at < 0 else at for at in TIMES]
    with Producer(bootstrap_servers=servers, compression_type=codec, linger_ms=100) as producer:
        if arrow:
            table = pa.table(
                {
                    "key": pa.array(PAYLOADS, pa.binary()),
                    "value": pa.array(values, pa.binary()),
                    "at": pa.array(expected, pa.int64()),
                }
            )
            producer.send_batch("t", table, timestamp="at").result(10)
        else:
            for key, value, at in zip(PAYLOADS, values, TIMES, strict=True):
                producer.send("t", value, key, timestamp=at, headers=[("h", None), ("h", b""), ("h", b"1")])
    found = rows(servers, "t", len(TIMES))
    assert [row["key"] for row in found] == PAYLOADS
    assert [row["value"] for row in found] == values
    times = [None if row["timestamp"] is None else int(row["timestamp"].timestamp() * 1000 + 0.5) for row in found[:3]]
    assert times == TIMES[:3]
    assert (found[3]["timestamp"] is None) is (not arrow)
    messages = read_with_librdkafka(servers, "t", len(TIMES))
    assert [message.timestamp()[1] for message in messages] == expected
    assert [(m.key(), m.value()) for m in messages] == list(zip(PAYLOADS, values, strict=True))
    if not arrow:
        assert messages[0].headers() == [("h", None), ("h", b""), ("h", b"1")]


def test_log_append_time_is_returned(servers: str, topics: Any) -> None:
    topic = topics("stamped", **{"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000) - 1000
    with Producer(bootstrap_servers=servers) as producer:
        metadata = producer.send(topic, b"x", timestamp=5).result(10)
        [receipt] = producer.send_batch(topic, pa.table({"value": ["y"]})).result(10)
    assert metadata.timestamp > before
    assert (receipt.base_offset, receipt.count) == (1, 1)
    found = rows(servers, topic, 2)
    assert [row["timestamp_type"] for row in found] == [1, 1]
    assert int(found[0]["timestamp"].timestamp() * 1000 + 0.5) == metadata.timestamp


@pytest.mark.parametrize("codec", CODECS)
def test_large_values_in_many_chunks(servers: str, codec: str) -> None:
    # Snappy divides the data into chunks of 32 KiB, lz4 into chunks of 64 KiB. `noise` is not compressible.
    text = b"".join(b"%d," % n for n in range(40_000))
    noise = bytes((n * n * 2_654_435_761 >> 13) & 255 for n in range(300_000))
    values = [text, b"", noise, text[:32_768], noise[:65_536]]
    with Producer(bootstrap_servers=servers, compression_type=codec, linger_ms=100, batch_size=900_000) as producer:
        for value in values:
            producer.send("t", value)
    assert [row["value"] for row in rows(servers, "t", len(values))] == values
    assert [message.value() for message in read_with_librdkafka(servers, "t", len(values))] == values


def test_oversized_records_are_rejected_before_sending(broker: Broker, servers: str) -> None:
    with Producer(bootstrap_servers=servers, max_request_size=1000) as producer:
        producer.send("t", b"fits").result(10)
        sent = broker.requests("Produce")
        table = pa.table({"value": [b"fits"] * 7 + [b"x" * 2000] + [b"fits"]})
        with pytest.raises(MessageTooLargeError, match=r"row 7 .*max\.request\.size"):
            producer.send_batch("t", table)
        with pytest.raises(MessageTooLargeError) as raised:
            producer.send("t", b"x" * 2000)
        # The error does not blame the topic, whose limit the record fits.
        assert str(raised.value) == (
            "a record for topic t takes 2093 bytes, more than max.request.size (1000 bytes): MESSAGE_TOO_LARGE (10): "
            "raise max.request.size to at least 2093, and the topic's max.message.bytes if that is smaller, or send "
            "smaller records"
        )
        producer.flush(10)
        assert broker.requests("Produce") == sent
        # The producer still works.
        assert producer.send("t", b"next").result(10).offset == 1


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_batches_rejected_as_too_large_are_split(servers: str, topics: Any, codec: str) -> None:
    topic = topics("small", **{"max.message.bytes": 2000})
    noise = bytes((n * n * 2_654_435_761 >> 13) & 255 for n in range(100_000))
    values = [noise[n * 90 : n * 90 + 90] for n in range(200)]
    with Producer(bootstrap_servers=servers, compression_type=codec, linger_ms=200, batch_size=100_000) as producer:
        deliveries = [producer.send(topic, value) for value in values]
        too_large = producer.send(topic, noise[:5000])
        after = producer.send_batch(topic, pa.table({"value": pa.array(values, pa.binary())}))
        assert [delivery.result(20).offset for delivery in deliveries] == list(range(200))
        with pytest.raises(MessageTooLargeError):
            too_large.result(20)
        assert [(r.base_offset, r.count) for r in after.result(20)] == [(200, 200)]
    assert [row["value"] for row in rows(servers, topic, 400)] == values * 2


def test_acks_0_has_no_offset(broker: Broker, servers: str) -> None:
    with Producer(bootstrap_servers=servers, acks=0, linger_ms=0) as producer:
        for number in range(200):
            metadata = producer.send("t", b"%d" % number).result(10)
            assert metadata.offset == -1
            if number % 50 == 0:
                # Produce requests with acks=0 have no response. In spite of this, responses to other requests on the
                # same connection are matched correctly.
                assert len(producer.partitions_for("four")) == 4
        [receipt] = producer.send_batch("t", pa.table({"value": ["last"]})).result(10)
        assert receipt.base_offset == -1
    found = rows(servers, "t", 201)
    assert [row["value"] for row in found] == [b"%d" % n for n in range(200)] + [b"last"]
    assert broker.requests("Produce") >= 200
