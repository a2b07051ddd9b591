"""Format v2: whatever one client writes, every other reads the same, for every codec."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from support.kafka import KafkaServer
from support.peers import Received, Sent, aio, confluent, java, samsarrow_arrow, samsarrow_rows

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
OURS = [samsarrow_rows, samsarrow_arrow]
PYTHON_PEERS = [confluent, aio]
T0 = 1_700_000_000_000

# Printable, so that the console tools can carry them: nulls, empties, repeated header names, text beyond ASCII.
TEXT = [
    Sent(b"k0", b"v0"),
    Sent(None, b"no key"),
    Sent(b"tombstone", None),
    Sent(b"", b""),
    Sent(b"h", b"headers", (("a", b"1"), ("b", b""), ("a", b"2"))),
    Sent("schlüssel".encode(), "größe 東京".encode()),
    *[Sent(b"k%d" % (i % 7), b"value %d " % i * 5) for i in range(200)],
]
# Anything goes between the clients with an API: all bytes, null header values, timestamps that jump and go back.
BINARY = [
    Sent(bytes(range(256)), bytes(reversed(range(256))), (("x", None), ("x", b"\0\xff")), T0 + 5),
    Sent(None, None, (), T0),
    Sent(b"far", b"ahead", (), T0 + 2**33),
    Sent(b"and", b"back", (), T0 - 86_400_000),
    *[Sent(None if i % 3 else b"%d" % i, b"\0" * (i % 50), (), T0 + i) for i in range(300)],
    Sent(b"big", bytes(range(256)) * 1200, (("n", b"v" * 1000),), T0),
]


def contents(received: list[Received]) -> list[tuple[Any, ...]]:
    return [(r.offset, r.key, r.value, r.headers) for r in received]


def expected(sent: list[Sent]) -> list[tuple[Any, ...]]:
    return [(i, s.key, s.value, s.headers) for i, s in enumerate(sent)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer", [*OURS, *PYTHON_PEERS], ids=lambda m: m.__name__.rpartition(".")[2])
def test_api_clients(kafka: KafkaServer, new_topic: Callable[..., str], producer: ModuleType, codec: str) -> None:
    topic = new_topic()
    # aiokafka refuses a record that has neither key nor value.
    sent = [s for s in BINARY if producer is not aio or (s.key, s.value) != (None, None)]
    producer.produce(kafka.bootstrap_servers, topic, codec, sent)
    readers = [*OURS, *PYTHON_PEERS] if producer in OURS else OURS
    for reader in readers:
        received = reader.consume(kafka.bootstrap_servers, topic, len(sent))
        assert contents(received) == expected(sent), reader.__name__
        assert [r.timestamp for r in received] == [s.timestamp for s in sent], reader.__name__


@pytest.mark.parametrize("codec", CODECS)
def test_java_reads_ours(kafka: KafkaServer, new_topic: Callable[..., str], codec: str) -> None:
    topic = new_topic()
    timed = [Sent(s.key, s.value, s.headers, T0 + i) for i, s in enumerate(TEXT)]
    samsarrow_arrow.produce(kafka.bootstrap_servers, topic, codec, timed)
    received = java.consume(kafka, topic, len(timed))
    assert contents(received) == expected(timed)
    assert [r.timestamp for r in received] == [s.timestamp for s in timed]


@pytest.mark.parametrize("codec", CODECS)
def test_ours_reads_java(kafka: KafkaServer, new_topic: Callable[..., str], codec: str) -> None:
    topic = new_topic()
    java.produce(kafka, topic, codec, TEXT)
    reference = confluent.consume(kafka.bootstrap_servers, topic, len(TEXT))
    for reader in OURS:
        received = reader.consume(kafka.bootstrap_servers, topic, len(TEXT))
        assert contents(received) == expected(TEXT), reader.__name__
        assert received == reference, reader.__name__


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_calls_our_batches_valid(kafka: KafkaServer, new_topic: Callable[..., str], codec: str) -> None:
    topic = new_topic()
    for producer in OURS:
        producer.produce(kafka.bootstrap_servers, topic, codec, BINARY)
    [segment] = kafka.segments(topic)
    done = kafka.tool("org.apache.kafka.tools.DumpLogSegments", "--files", str(segment), "--deep-iteration")
    batches = [line for line in done.stdout.decode().splitlines() if line.startswith("baseOffset:")]
    assert batches
    for batch in batches:
        assert "isvalid: true" in batch
        assert f"compresscodec: {codec}" in batch
    assert sum(int(b.partition("count: ")[2].split()[0]) for b in batches) == 2 * len(BINARY)
