"""Other clients read all our variants of writing: each codec, format and acks, single records and Arrow batches."""

import re
import time
from itertools import product

import confluent_kafka as ck
import pyarrow as pa
import pytest

from samsarrow import Consumer, Producer
from support.fixtures import create_topic
from support.kafka import KafkaServer
from support.peers import Received, Sent, samsarrow_arrow
from support.peers.java_api import JavaPeer

CODECS = {0: ["none", "gzip", "snappy", "lz4"], 1: ["none", "gzip", "snappy", "lz4"]}
CODECS[2] = [*CODECS[0], "zstd"]
# `message.format.version` of topics and producers for each format.
VERSIONS = {0: "0.9.0", 1: "0.10.0", 2: "2.8"}
ACKS = ["0", "1", "all"]
WAYS = ["rows", "batch"]
T0 = 1_700_000_000_000
DUMP = {"4.3.1": "org.apache.kafka.tools.DumpLogSegments", "3.9.1": "kafka.tools.DumpLogSegments"}

PLAIN = [
    Sent(bytes(range(256)), bytes(reversed(range(256))), (), T0 + 5),
    Sent(None, None, (), T0),
    Sent(b"tombstone", None, (), T0 + 2**33),
    Sent(b"", b"", (), T0 - 86_400_000),
    *[Sent(b"k%d" % (i % 3), b"value %d " % i * i, (), T0 + i) for i in range(20)],
]
HEADED = [Sent(s.key, s.value, (("a", b"1"), ("b", None), ("a", b"%d" % i)), s.timestamp) for i, s in enumerate(PLAIN)]


def produce(servers: str, topic: str, way: str, records: list[Sent], partition: int, **options: object) -> None:
    with Producer(bootstrap_servers=servers, linger_ms=20, **options) as producer:
        if way == "rows":
            for r in records:
                producer.send(
                    topic, r.value, r.key, headers=list(r.headers), partition=partition, timestamp=r.timestamp
                )
            producer.flush(30)
            return
        columns = {
            "k": pa.array([r.key for r in records], pa.binary()),
            "v": pa.array([r.value for r in records], pa.binary()),
            "h": pa.array([[{"key": k, "value": v} for k, v in r.headers] for r in records], samsarrow_arrow.HEADERS),
            "t": pa.array([r.timestamp for r in records], pa.timestamp("ms", "UTC")),
            "p": [partition] * len(records),
        }
        # The table has two chunks. The arrays of the second chunk have an offset.
        whole = pa.table(columns)
        table = pa.concat_tables([whole.slice(0, 7), whole.slice(7)])
        names = {"key": "k", "value": "v", "headers": "h", "timestamp": "t", "partition": "p"}
        producer.send_batch(topic, table, **names).result(30)


def by_confluent(servers: str, topic: str, partitions: range, count: int) -> dict[int, list[Received]]:
    config = {"bootstrap.servers": servers, "group.id": "matrix", "check.crcs": True, "fetch.wait.max.ms": 10}
    consumer = ck.Consumer({**config, "enable.auto.commit": False})
    results: dict[int, list[Received]] = {p: [] for p in partitions}
    try:
        consumer.assign([ck.TopicPartition(topic, p, 0) for p in partitions])
        deadline = time.monotonic() + 60
        while any(len(records) < count for records in results.values()):
            assert time.monotonic() < deadline, {p: len(records) for p, records in results.items()}
            for m in consumer.consume(1000, 0.2):
                assert m.error() is None, m.error()
                kind, timestamp = m.timestamp()
                known = None if kind == ck.TIMESTAMP_NOT_AVAILABLE else timestamp
                headers = tuple((k, v) for k, v in m.headers() or [])
                results[m.partition()].append(Received(m.offset(), known, m.key(), m.value(), headers))
    finally:
        consumer.close()
    return results


def check_dump(server: KafkaServer, topic: str, magic: int, codecs: list[str], count: int) -> None:
    """Checks that Kafka's own tool finds every batch and record valid, with the requested codec."""
    files = sorted(server.segments(topic), key=lambda path: int(path.parent.name.rpartition("-")[2]))
    assert len(files) == len(codecs)
    done = server.tool(DUMP[server.version], "--files", ",".join(map(str, files)), "--deep-iteration")
    parts = re.split(r"^Dumping .*\n", done.stdout.decode(), flags=re.MULTILINE)[1:]
    assert len(parts) == len(codecs)
    for part, codec in zip(parts, codecs, strict=True):
        lines = part.splitlines()
        batches = [line for line in lines if " magic: " in line]
        for batch in batches:
            assert "isvalid: true" in batch
            assert f" magic: {magic} compresscodec: {codec} " in batch
        records = [line for line in lines if line.startswith("|")]
        assert len(records) == count
        assert all("isValid: true" in record for record in records if "isValid" in record)
        # Checks that wrappers and batches contain several records, because otherwise they would not be tested.
        assert 0 < len(batches) < count or (magic < 2 and codec == "none")


@pytest.mark.parametrize(("version", "magic"), [("4.3.1", 2), ("3.9.1", 2), ("3.9.1", 1), ("3.9.1", 0)])
def test_other_clients_read_all_variants(request: pytest.FixtureRequest, version: str, magic: int) -> None:
    newest = version == "4.3.1"
    server: KafkaServer = request.getfixturevalue("kafka" if newest else "old_kafka")
    java: JavaPeer = request.getfixturevalue("java" if newest else "old_java")
    assert server.version == version
    cases = list(product(WAYS, ACKS, CODECS[magic]))
    topic = create_topic(server, len(cases), **({} if newest else {"message_format_version": VERSIONS[magic]}))
    # With acks=0 a leader that is not ready loses records silently, so this waits until all leaders respond.
    with Consumer(bootstrap_servers=server.bootstrap_servers) as consumer:
        assert set(consumer.end_offsets(consumer.partitions_for(topic)).values()) == {0}
    sent = HEADED if magic == 2 else PLAIN
    for partition, (way, acks, codec) in enumerate(cases):
        options: dict[str, object] = {"acks": acks, "compression_type": codec}
        if magic < 2:
            options |= {"message_format_version": VERSIONS[magic], "enable_idempotence": False}
        produce(server.bootstrap_servers, topic, way, sent, partition, **options)
    expected = [Received(i, s.timestamp if magic else None, s.key, s.value, s.headers) for i, s in enumerate(sent)]
    partitions = range(len(cases))
    # Unacknowledged records may arrive later: both readers wait for them.
    java_read: dict[int, list[Received]] = {p: [] for p in partitions}
    for poll in java.polls(topic, partitions, [len(sent)] * len(cases)):
        for partition, record in poll.records:
            java_read[partition].append(record)
    confluent_read = by_confluent(server.bootstrap_servers, topic, partitions, len(sent))
    for partition, case in enumerate(cases):
        assert java_read[partition] == expected, case
        assert confluent_read[partition] == expected, case
    check_dump(server, topic, magic, [codec for _, _, codec in cases], len(sent))
