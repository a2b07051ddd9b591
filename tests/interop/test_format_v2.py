"""Format v2: all clients read the records of each client equally, with every codec."""

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import KafkaError, Producer
from support.kafka import KafkaServer
from support.peers import Received, Sent, aio, confluent, kafka_python, samsarrow_arrow, samsarrow_rows
from support.peers.java_api import JavaPeer

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
OURS = [samsarrow_rows, samsarrow_arrow]
PYTHON_PEERS = [confluent, aio, kafka_python]
T0 = 1_700_000_000_000

# All byte values, null header values, repeated header names, timestamps out of order.
BINARY = [
    Sent(bytes(range(256)), bytes(reversed(range(256))), (("x", None), ("x", b"\0\xff")), T0 + 5),
    Sent(None, None, (), T0),
    Sent(b"", b"", (("a", b"1"), ("b", b""), ("a", b"2")), T0),
    Sent("schlüssel".encode(), None, (("größe", b"3"),), T0),
    Sent(b"far", b"ahead", (), T0 + 2**33),
    Sent(b"and", b"back", (), T0 - 86_400_000),
    *[Sent(None if i % 3 else b"%d" % i, b"\0" * (i % 50), (), T0 + i) for i in range(300)],
    Sent(b"big", bytes(range(256)) * 1200, (("n", b"v" * 1000),), T0),
]


def expected(sent: list[Sent]) -> list[Received]:
    return [Received(i, s.timestamp, s.key, s.value, s.headers) for i, s in enumerate(sent)]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("producer", [*OURS, *PYTHON_PEERS], ids=lambda m: m.__name__.rpartition(".")[2])
def test_python_clients(kafka: KafkaServer, new_topic: Callable[..., str], producer: ModuleType, codec: str) -> None:
    topic = new_topic()
    sent = [s for s in BINARY if producer.takes(s)]
    producer.produce(kafka.bootstrap_servers, topic, codec, sent)
    readers = [*OURS, *PYTHON_PEERS] if producer in OURS else OURS
    for reader in readers:
        received = reader.consume(kafka.bootstrap_servers, topic, len(sent))
        assert received == expected(sent), reader.__name__


@pytest.mark.parametrize("codec", CODECS)
def test_java_reads_our_records(kafka: KafkaServer, java: JavaPeer, new_topic: Callable[..., str], codec: str) -> None:
    for producer in OURS:
        topic = new_topic()
        producer.produce(kafka.bootstrap_servers, topic, codec, BINARY)
        assert java.consume(topic, len(BINARY)) == expected(BINARY), producer.__name__


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_java_records(kafka: KafkaServer, java: JavaPeer, new_topic: Callable[..., str], codec: str) -> None:
    topic = new_topic()
    java.produce(topic, codec, BINARY)
    for reader in OURS:
        assert reader.consume(kafka.bootstrap_servers, topic, len(BINARY)) == expected(BINARY), reader.__name__
    for version in range(4, 19):
        received = samsarrow_arrow.consume(kafka.bootstrap_servers, topic, len(BINARY), api_version_fetch=version)
        assert received == expected(BINARY), version


@pytest.mark.parametrize("codec", CODECS)
def test_kafka_tool_validates_our_batches(kafka: KafkaServer, new_topic: Callable[..., str], codec: str) -> None:
    topic = new_topic()
    for producer in OURS:
        producer.produce(kafka.bootstrap_servers, topic, codec, BINARY)
    # A batch whose timestamps are far from those of the first batch begins a segment.
    files = ",".join(map(str, kafka.segments(topic)))
    done = kafka.tool("org.apache.kafka.tools.DumpLogSegments", "--files", files, "--deep-iteration")
    batches = [line for line in done.stdout.decode().splitlines() if line.startswith("baseOffset:")]
    assert batches
    for batch in batches:
        assert "isvalid: true" in batch
        assert f"compresscodec: {codec}" in batch
    assert sum(int(b.partition("count: ")[2].split()[0]) for b in batches) == 2 * len(BINARY)


def test_other_clients_read_rows_of_any_type(kafka: KafkaServer, new_topic: Callable[..., str]) -> None:
    rows = [{"id": i, "tags": ["a", None][: i % 3], "at": None} for i in range(500)]
    table = pa.table({"key": [f"k{i}" for i in range(500)], "row": pa.array([None, *rows[1:]])})
    with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type="zstd") as producer:
        for value_format, parse in (("json", json.loads), ("ipc", from_ipc)):
            topic = new_topic()
            producer.send_batch(topic, table, value="row", value_format=value_format).result(30)
            received = confluent.consume(kafka.bootstrap_servers, topic, 500)
            assert [r.key for r in received] == [b"k%d" % i for i in range(500)]
            # A null row is sent as a tombstone, not as the text "null".
            assert received[0].value is None
            assert [parse(r.value) for r in received[1:]] == rows[1:]


def from_ipc(value: bytes) -> Any:
    [row] = pa.ipc.open_stream(value).read_all().to_pylist()
    return row


@pytest.mark.parametrize("options", [{"message_format_version": "0.10.2"}, {"api_version_produce": 2}], ids=str)
def test_old_formats_are_rejected_immediately(
    kafka: KafkaServer, new_topic: Callable[..., str], options: dict[str, object]
) -> None:
    """Kafka 4 has removed the old formats, although it still lists the versions of Produce that carry them."""
    with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        delivery = producer.send(new_topic(), b"v")
        with pytest.raises(KafkaError, match=r"supports \(?v3 to v"):
            delivery.result(10)
