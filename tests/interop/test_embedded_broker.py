"""Other clients on the embedded broker. Their records are read by the same client and by samsarrow."""

from collections.abc import Iterator

import pytest

from samsarrow.testing import Broker
from support.kafka import KafkaServer, KafkaUnavailableError, classpath
from support.peers import Received, Sent, aio, confluent, java, kafka_python, samsarrow_arrow, samsarrow_rows

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
SENT = [
    Sent(b"k", b"v"),
    Sent(b"k", None),
    Sent(None, b""),
    Sent(b"", b"headers", (("a", b"1"), ("a", b"2"))),
    *[Sent(b"%d" % i, b"value %d" % i) for i in range(100)],
]
EXPECTED = [(i, s.key, s.value, s.headers) for i, s in enumerate(SENT)]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(brokers=2, topics={"t": 1}) as running:
        yield running


def contents(received: list[Received]) -> list[tuple[object, ...]]:
    return [(r.offset, r.key, r.value, r.headers) for r in received]


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_and_aiokafka_round_trip(broker: Broker, codec: str) -> None:
    servers = broker.bootstrap_servers
    for topic, peer in (("a", confluent), ("b", aio)):
        broker.create_topic(topic)
        peer.produce(servers, topic, codec, SENT)
        for reader in (confluent, aio, samsarrow_arrow):
            assert contents(reader.consume(servers, topic, len(SENT))) == EXPECTED, (peer.__name__, reader.__name__)


# Versions of old clients, without ApiVersions: they use Produce v1 and v2, and Fetch v1 and v2.
OLD = {0: ("0.9.0", (0, 9)), 1: ("0.10.0", (0, 10))}


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4"])
@pytest.mark.parametrize("magic", OLD)
def test_clients_with_old_formats(broker: Broker, magic: int, codec: str) -> None:
    servers, (version, api_version) = broker.bootstrap_servers, OLD[magic]
    librdkafka = {"api_version_request": False, "broker_version_fallback": version}
    sent = [s for s in SENT if not s.headers]
    expected = [(i, s.key, s.value, s.headers) for i, s in enumerate(sent)]
    writers = [
        (confluent, librdkafka),
        (kafka_python, {"api_version": api_version}),
        (samsarrow_rows, {"message_format_version": version}),
        (samsarrow_arrow, {"message_format_version": version}),
    ]
    for number, (writer, options) in enumerate(writers):
        topic = f"t{number}"
        broker.create_topic(topic)
        writer.produce(servers, topic, codec, sent, **options)
        for reader, more in (
            (confluent, librdkafka),
            (kafka_python, {"api_version": api_version}),
            (samsarrow_arrow, {"api_version_fetch": magic + 1}),
            # Newer versions of Fetch also return the stored format.
            (confluent, {}),
            (samsarrow_rows, {}),
            (samsarrow_arrow, {"layout": "view"}),
        ):
            received = reader.consume(servers, topic, len(sent), **more)
            assert contents(received) == expected, (writer.__name__, reader.__name__, more)
            assert all((r.timestamp is None) == (magic == 0) for r in received)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_kafka_console_tools(broker: Broker, codec: str) -> None:
    try:
        classpath()
    except KafkaUnavailableError as reason:
        pytest.skip(str(reason))
    # The server is not started; Java's client uses only its class path.
    tools = KafkaServer()
    try:
        java.produce(tools, "t", codec, SENT, broker.bootstrap_servers)
        assert contents(samsarrow_arrow.consume(broker.bootstrap_servers, "t", len(SENT))) == EXPECTED
        assert contents(java.consume(tools, "t", len(SENT), broker.bootstrap_servers)) == EXPECTED
    finally:
        tools.discard()
