"""Record formats v0, v1 and v2 on a broker that still stores them: all clients read the records of each client."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import pytest

from samsarrow import Consumer, KafkaError, TopicPartition
from support.fixtures import create_topic
from support.kafka import ZooKeeperKafkaServer
from support.peers import Poll, Received, Sent, confluent, kafka_python, samsarrow_arrow, samsarrow_rows
from support.peers.java_api import JavaPeer
from support.segments import stored

# `message.format.version` of the topic for each format.
VERSIONS = {0: "0.9.0", 1: "0.10.0", 2: "2.8"}
CODECS = {0: ["none", "gzip", "snappy", "lz4"], 1: ["none", "gzip", "snappy", "lz4"]}
CODECS[2] = [*CODECS[0], "zstd"]
OURS = [samsarrow_rows, samsarrow_arrow]
T0 = 1_700_000_000_000
# The newest Fetch and Produce versions that this broker supports.
FETCH = 17
PRODUCE = 11

PLAIN = [
    Sent(bytes(range(256)), bytes(reversed(range(256))), (), T0 + 5),
    Sent(None, None, (), T0),
    Sent(b"tombstone", None, (), T0 + 2**33),
    Sent(b"", b"", (), T0 - 86_400_000),
    Sent(None, b"no key", (), T0),
    *[Sent(b"k%d" % (i % 3), b"value %d " % i * i, (), T0 + i) for i in range(14)],
    Sent(b"big", bytes(range(256)) * 80, (), T0),
]
HEADED = [Sent(s.key, s.value, (("a", b"1"), ("b", b""), ("a", b"%d" % i)), s.timestamp) for i, s in enumerate(PLAIN)]


def records(magic: int) -> list[Sent]:
    """Returns all kinds of records that a format supports; only v2 has headers."""
    return HEADED if magic == 2 else PLAIN


def expected(magic: int, sent: list[Sent]) -> list[Received]:
    """Returns the records that a reader gets if `sent` is stored or fetched in a format."""
    return [
        Received(i, s.timestamp if magic else None, s.key, s.value, s.headers if magic == 2 else ())
        for i, s in enumerate(sent)
    ]


def new_topic(server: ZooKeeperKafkaServer, magic: int, **configs: str) -> str:
    """Creates a topic stored in a format, with a partition per codec."""
    return create_topic(server, len(CODECS[magic]), message_format_version=VERSIONS[magic], **configs)


def check_stored(server: ZooKeeperKafkaServer, topic: str, magic: int, *, lone: bool = False) -> None:
    """Checks that each partition is stored in the format `magic` and with its codec.

    With `lone`, a few single records may be uncompressed: librdkafka compresses only if this saves space, which is not
    the case for a single record, and on a busy machine it may send a record before the next one is available.
    """
    for partition, codec in enumerate(CODECS[magic]):
        batches = list(stored(p for p in server.segments(topic) if p.parent.name == f"{topic}-{partition}"))
        other = [b for b in batches if (b.magic, b.codec) != (magic, codec)]
        if lone:
            # In all formats, a batch has a single record if its last offset directly follows the last offset of the
            # previous batch.
            ends = [-1, *(b.last_offset for b in batches)]
            single = {b for b, before in zip(batches, ends, strict=False) if b.last_offset == before + 1}
            other = [b for b in other if not (b.magic == magic and b.codec == "none" and b in single)]
            assert sum(b.codec != codec for b in batches) <= len(PLAIN) // 4
        assert other == []
        assert batches
        # Checks that wrappers and batches contain several records, because otherwise they would not be tested.
        assert len(batches) < len(PLAIN) or (magic, codec) in ((0, "none"), (1, "none"))


def python_peer(module: Any, **options: object) -> Callable[..., list[Sent]]:
    def produce(
        server: ZooKeeperKafkaServer, _: JavaPeer, topic: str, magic: int, codec: str, partition: int
    ) -> list[Sent]:
        sent = [s for s in records(magic) if module.takes(s)]
        module.produce(server.bootstrap_servers, topic, codec, sent, partition, **options)
        return sent

    return produce


def java_peer(
    _: ZooKeeperKafkaServer, java: JavaPeer, topic: str, magic: int, codec: str, partition: int
) -> list[Sent]:
    java.produce(topic, codec, records(magic), partition)
    return records(magic)


def fallback(version: str) -> dict[str, object]:
    return {"api_version_request": False, "broker_version_fallback": version}


# The broker converts records of producers that send v2; librdkafka and kafka-python can send v0 and v1 themselves,
# which are stored unchanged.
THEIRS = {
    (0, "java"): java_peer,
    (0, "confluent"): python_peer(confluent),
    (0, "confluent itself"): python_peer(confluent, **fallback("0.9.0")),
    (0, "kafka-python"): python_peer(kafka_python),
    (0, "kafka-python itself"): python_peer(kafka_python, api_version=(0, 9)),
    (1, "java"): java_peer,
    (1, "confluent"): python_peer(confluent),
    (1, "confluent itself"): python_peer(confluent, **fallback("0.10.0")),
    (1, "kafka-python"): python_peer(kafka_python),
    (1, "kafka-python itself"): python_peer(kafka_python, api_version=(0, 10)),
    (2, "java"): java_peer,
    (2, "confluent"): python_peer(confluent),
    (2, "kafka-python"): python_peer(kafka_python),
}


@pytest.mark.parametrize(("magic", "writer"), THEIRS, ids=[f"v{magic}-{name}" for magic, name in THEIRS])
def test_we_read_other_clients(old_kafka: ZooKeeperKafkaServer, old_java: JavaPeer, magic: int, writer: str) -> None:
    topic = new_topic(old_kafka, magic)
    sent: list[Sent] = []
    for partition, codec in enumerate(CODECS[magic]):
        sent = THEIRS[magic, writer](old_kafka, old_java, topic, magic, codec, partition)
    check_stored(old_kafka, topic, magic, lone=writer.startswith("confluent"))
    for partition, codec in enumerate(CODECS[magic]):
        for reader in OURS:
            for layout in ("binary", "view"):
                received = reader.consume(old_kafka.bootstrap_servers, topic, len(sent), partition, layout=layout)
                assert received == expected(magic, sent), (codec, reader.__name__, layout)


def read(
    server: ZooKeeperKafkaServer, topic: str, codecs: list[str], count: int, **options: object
) -> dict[str, list[Received]]:
    """Reads all partitions together with our consumer; returns records by codec."""
    partitions = range(len(codecs))
    polls = samsarrow_arrow.polls(server.bootstrap_servers, topic, partitions, [count for _ in codecs], **options)
    return by_codec(polls, codecs)


def read_by_java(java: JavaPeer, topic: str, magic: int, count: int) -> dict[str, list[Received]]:
    """Reads all partitions together with the Java client; returns records by codec."""
    partitions = range(len(CODECS[magic]))
    return by_codec(java.polls(topic, partitions, [count for _ in partitions]), CODECS[magic])


def by_codec(polls: list[Poll], codecs: list[str]) -> dict[str, list[Received]]:
    results: dict[str, list[Received]] = {codec: [] for codec in codecs}
    for poll in polls:
        for partition, record in poll.records:
            results[codecs[partition]].append(record)
    return results


@pytest.mark.parametrize("magic", VERSIONS)
def test_all_fetch_versions(old_kafka: ZooKeeperKafkaServer, old_java: JavaPeer, magic: int) -> None:
    topic = new_topic(old_kafka, magic)
    for partition, codec in enumerate(CODECS[magic]):
        old_java.produce(topic, codec, records(magic), partition)
    check_stored(old_kafka, topic, magic)
    for version in range(FETCH + 1):
        # The broker converts to the newest format that the Fetch version supports: v0 before version 2, v1 before
        # version 4.
        served = min(magic, 0 if version < 2 else 1 if version < 4 else 2)
        # Formats v0 and v1 do not support zstd, which is the last codec.
        codecs = CODECS[served]
        for layout in ("binary", "view"):
            actual = read(old_kafka, topic, codecs, len(PLAIN), api_version_fetch=version, layout=layout)
            assert actual == dict.fromkeys(codecs, expected(served, records(magic))), (version, layout)
    if magic == 2:
        with pytest.raises(KafkaError, match="UNSUPPORTED_COMPRESSION_TYPE"):
            samsarrow_arrow.consume(old_kafka.bootstrap_servers, topic, 1, 4, api_version_fetch=3)


@pytest.mark.parametrize("magic", [1, 2])
def test_log_append_time(old_kafka: ZooKeeperKafkaServer, old_java: JavaPeer, magic: int) -> None:
    topic = new_topic(old_kafka, magic, message_timestamp_type="LogAppendTime")
    for partition, codec in enumerate(CODECS[magic]):
        old_java.produce(topic, codec, PLAIN, partition)
    check_stored(old_kafka, topic, magic)
    theirs = read_by_java(old_java, topic, magic, len(PLAIN))
    sent_times = {s.timestamp for s in PLAIN}
    assert all(r.timestamp not in sent_times for received in theirs.values() for r in received)
    assert read(old_kafka, topic, CODECS[magic], len(PLAIN)) == theirs
    # The broker converts to format v1, because Fetch v2 and v3 return at most v1.
    theirs.pop("zstd", None)
    assert read(old_kafka, topic, CODECS[1], len(PLAIN), api_version_fetch=3) == theirs
    with Consumer(bootstrap_servers=old_kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0), TopicPartition(topic, 1)])
        assert set(consumer.poll(10).column("timestamp_type").to_pylist()) == {1}


@pytest.mark.parametrize("magic", VERSIONS)
def test_other_clients_read_ours(old_kafka: ZooKeeperKafkaServer, old_java: JavaPeer, magic: int) -> None:
    """We send format v2, which the broker converts. The broker rejects idempotence for topics of older formats."""
    for writer in OURS:
        topic = new_topic(old_kafka, magic)
        for partition, codec in enumerate(CODECS[magic]):
            options = {"enable_idempotence": magic == 2}
            writer.produce(old_kafka.bootstrap_servers, topic, codec, records(magic), partition, **options)
        check_stored(old_kafka, topic, magic)
        check_read(old_kafka, old_java, topic, magic)


@pytest.mark.parametrize(
    ("magic", "options"),
    [
        (0, {"message_format_version": "0.9.0"}),
        (0, {"api_version_produce": 0}),
        (0, {"api_version_produce": 1}),
        (1, {"message_format_version": "0.10.0"}),
        (1, {"api_version_produce": 2}),
    ],
    ids=str,
)
def test_other_clients_read_ours_in_old_formats(
    old_kafka: ZooKeeperKafkaServer, old_java: JavaPeer, magic: int, options: dict[str, object]
) -> None:
    for writer in OURS:
        # The broker stores our records unchanged if the topic has the same format. For a topic of the newest format, it
        # converts them.
        same, newest = new_topic(old_kafka, magic), create_topic(old_kafka, len(CODECS[magic]))
        for topic in (same, newest):
            for partition, codec in enumerate(CODECS[magic]):
                writer.produce(old_kafka.bootstrap_servers, topic, codec, PLAIN, partition, **options)
        check_stored(old_kafka, same, magic)
        check_read(old_kafka, old_java, same, magic)
        wanted = dict.fromkeys(CODECS[magic], expected(magic, PLAIN))
        assert read_by_java(old_java, newest, magic, len(PLAIN)) == wanted
        assert read(old_kafka, newest, CODECS[magic], len(PLAIN)) == wanted


def test_headers_require_v2(old_kafka: ZooKeeperKafkaServer) -> None:
    topic = new_topic(old_kafka, 1)
    for writer in OURS:
        with pytest.raises(KafkaError, match="headers"):
            writer.produce(old_kafka.bootstrap_servers, topic, "none", HEADED, message_format_version="0.10.2")


def check_read(server: ZooKeeperKafkaServer, java: JavaPeer, topic: str, magic: int) -> None:
    """Checks that all clients read the sent records."""
    wanted = expected(magic, records(magic))
    assert read_by_java(java, topic, magic, len(PLAIN)) == dict.fromkeys(CODECS[magic], wanted)
    for partition, codec in enumerate(CODECS[magic]):
        for reader in (confluent, kafka_python, *OURS):
            received = reader.consume(server.bootstrap_servers, topic, len(PLAIN), partition)
            assert received == wanted, (codec, reader.__name__)


def test_all_produce_versions(old_kafka: ZooKeeperKafkaServer, old_java: JavaPeer) -> None:
    versions = range(3, PRODUCE + 1)
    topic, wanted = create_topic(old_kafka, len(versions)), expected(2, HEADED)
    for partition, version in enumerate(versions):
        writer, codec = (samsarrow_rows, "none") if version % 2 else (samsarrow_arrow, "lz4")
        writer.produce(old_kafka.bootstrap_servers, topic, codec, HEADED, partition, api_version_produce=version)
    names = [f"Produce v{version}" for version in versions]
    polls = old_java.polls(topic, range(len(versions)), [len(HEADED)] * len(versions))
    assert by_codec(polls, names) == dict.fromkeys(names, wanted)
    assert read(old_kafka, topic, names, len(HEADED)) == dict.fromkeys(names, wanted)


def test_partition_with_all_formats(old_kafka: ZooKeeperKafkaServer, old_java: JavaPeer) -> None:
    topic = create_topic(old_kafka, 1, message_format_version=VERSIONS[0])
    wanted: list[Received] = []

    def send(magic: int, codec: str, sent: list[Sent]) -> None:
        old_java.produce(topic, codec, sent)
        base = len(wanted)
        wanted.extend(dataclasses.replace(r, offset=base + r.offset) for r in expected(magic, sent))

    # The format version of the topic rises and then falls.
    for magic in (0, 1, 2, 1, 0):
        old_java.configure(topic, message_format_version=VERSIONS[magic])
        probe, until = Sent(None, b"probe", (), T0), time.monotonic() + 30
        while True:
            # Repeats, because the broker applies the new configuration after a delay.
            old_java.produce(topic, "none", [probe])
            *_, last = stored(old_kafka.segments(topic))
            wanted.append(dataclasses.replace(expected(last.magic, [probe])[0], offset=len(wanted)))
            if last.magic == magic:
                break
            assert time.monotonic() < until
        for codec in CODECS[magic]:
            send(magic, codec, records(magic)[:5])
    kinds = [(b.magic, b.codec) for b in stored(old_kafka.segments(topic))]
    assert set(kinds) == {(magic, codec) for magic in VERSIONS for codec in CODECS[magic]}
    assert old_java.consume(topic, len(wanted)) == wanted
    bootstrap = old_kafka.bootstrap_servers
    for reader in OURS:
        for layout in ("binary", "view"):
            assert reader.consume(bootstrap, topic, len(wanted), layout=layout) == wanted
    # Reads with fetches of a single entry, and then with polls that end within batches.
    assert samsarrow_arrow.consume(bootstrap, topic, len(wanted), max_partition_fetch_bytes=1) == wanted
    polls = samsarrow_arrow.polls(bootstrap, topic, [0], [len(wanted)], max_poll_records=3)
    assert [record for poll in polls for _, record in poll.records] == wanted
    start_anywhere(old_kafka, topic, [r.offset for r in wanted])


def start_anywhere(server: ZooKeeperKafkaServer, topic: str, offsets: list[int]) -> None:
    """Starts at every offset, including offsets within wrappers."""
    tp = TopicPartition(topic, 0)
    options = {"max_poll_records": 1, "fetch_max_wait_ms": 10}
    with Consumer(bootstrap_servers=server.bootstrap_servers, **options) as consumer:
        consumer.assign([tp])
        for start in range(offsets[-1] + 1):
            consumer.seek(tp, start)
            assert consumer.poll(10).column("offset").to_pylist() == [min(o for o in offsets if o >= start)]


@pytest.mark.parametrize("codec", CODECS[0])
@pytest.mark.parametrize("magic", [0, 1])
def test_compacted_wrappers(old_kafka: ZooKeeperKafkaServer, old_java: JavaPeer, magic: int, codec: str) -> None:
    topic = create_topic(
        old_kafka,
        cleanup_policy="compact", min_cleanable_dirty_ratio="0.01", segment_ms="1",
        message_format_version=VERSIONS[magic],
    )  # fmt: skip
    bootstrap = old_kafka.bootstrap_servers
    latest: dict[bytes, int] = {}
    for keys in (range(20), range(0, 20, 2), range(5), [19], [20]):
        sent = [Sent(b"k%d" % key, b"value %d" % key * 9) for key in keys]
        old_java.produce(topic, codec, sent)
        offset = max(latest.values(), default=-1) + 1
        latest.update((s.key or b"", offset + i) for i, s in enumerate(sent))
        # Starts a new segment for each write: segments last a millisecond, and the active segment is not compacted.
        time.sleep(0.01)
    offsets = sorted(latest.values())
    until = time.monotonic() + 60
    theirs: list[int] = []
    while theirs != offsets:
        assert time.monotonic() < until, (theirs, offsets)
        polls = old_java.polls(topic, [0], [offsets[-1] + 1], max_poll_records="1")
        theirs = [record.offset for poll in polls for _, record in poll.records]
    ours = samsarrow_arrow.polls(bootstrap, topic, [0], [offsets[-1] + 1], max_poll_records="1")
    assert [poll.records for poll in ours if poll.records] == [poll.records for poll in polls if poll.records]
    assert ours[-1].positions == polls[-1].positions
    start_anywhere(old_kafka, topic, offsets)


def test_record_larger_than_a_fetch(old_kafka: ZooKeeperKafkaServer, old_java: JavaPeer) -> None:
    topic = new_topic(old_kafka, 1)
    big = Sent(b"big", bytes(range(256)) * 400, (), T0)
    old_java.produce(topic, "none", [PLAIN[0], big, PLAIN[1]])
    wanted = expected(1, [PLAIN[0], big, PLAIN[1]])
    options = {"max_partition_fetch_bytes": 2000}
    for version in (3, 4, FETCH):
        received = samsarrow_arrow.consume(
            old_kafka.bootstrap_servers, topic, 3, api_version_fetch=version, **options
        )  # fmt: skip
        assert received == wanted, version
    # Before KIP-74, a broker truncates a record that is larger than the fetch, so only a larger fetch can read the
    # record.
    with Consumer(
        bootstrap_servers=old_kafka.bootstrap_servers, auto_offset_reset="earliest", api_version_fetch=2, **options
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert consumer.poll(10).column("offset").to_pylist() == [0]
        with pytest.raises(KafkaError, match=r"max\.partition\.fetch\.bytes"):
            consumer.poll(10)
        consumer.seek(TopicPartition(topic, 0), 2)
        assert consumer.poll(10).column("offset").to_pylist() == [2]
