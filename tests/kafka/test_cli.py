"""The command line on Apache Kafka: copies of another client's topic are exact, and reads end at the end of the log."""

import hashlib
import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from samsarrow import Admin, Consumer
from support.kafka import KafkaServer
from support.peers import Sent
from support.peers.java_api import JavaPeer

SAMSARROW = [sys.executable, "-m", "samsarrow.cli"]
PARTITIONS = 5


def run(kafka: KafkaServer, *arguments: str, stdin: bytes | None = None, code: int = 0) -> bytes:
    environment = {**os.environ, "SAMSARROW_BOOTSTRAP_SERVERS": kafka.bootstrap_servers}
    done = subprocess.run(
        [*SAMSARROW, *arguments], input=stdin, capture_output=True, timeout=60, env=environment, check=False
    )
    assert done.returncode == code, done.stderr.decode()
    return done.stdout


def checksum(kafka: KafkaServer, topic: str) -> tuple[int, str]:
    """Returns a checksum of all attributes of records except offsets, partition by partition."""
    digest, count = hashlib.sha256(), 0
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, include_headers=True, auto_offset_reset="earliest") as c:
        c.assign(c.partitions_for(topic))
        table = c.reader().read_all()
    table = table.sort_by([("partition", "ascending"), ("offset", "ascending")])
    columns = [
        table["timestamp"].cast(pa.int64()),
        table["timestamp_type"],
        *(table[n] for n in ("key", "value", "headers")),
    ]
    for row in zip(table["partition"].to_pylist(), *(column.to_pylist() for column in columns), strict=True):
        digest.update(repr(row).encode())
        count += 1
    return count, digest.hexdigest()


@pytest.fixture(scope="module")
def source(kafka: KafkaServer, java: JavaPeer) -> str:
    """Records of Java's producer: null and empty keys and values, arbitrary bytes, repeated headers, unordered
    timestamps.
    """
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.create_topics(["cli-source", "cli-copy", "cli-tables"], num_partitions=PARTITIONS)
    chance = random.Random(13)

    def some() -> bytes | None:
        return chance.choice([None, b"", b"text", b'{"a":1}', "ä😀\n".encode(), chance.randbytes(chance.randrange(40))])

    java.open("cli", linger_ms="20", compression_type="lz4")
    for partition in range(PARTITIONS):
        records = [
            Sent(some(), some(), tuple((chance.choice("ab"), some()) for _ in range(chance.randrange(4))),
                 chance.randrange(1_500_000_000_000, 1_700_000_000_000))
            for _ in range(300)
        ]  # fmt: skip
        java.send("cli", "cli-source", records, partition=partition)
    java.call("close", name="cli")
    return "cli-source"


@pytest.mark.parametrize(("form", "copy"), [("envelope", "cli-copy"), ("parquet", "cli-tables")])
def test_copy_through_a_pipe_is_exact(kafka: KafkaServer, source: str, form: str, copy: str) -> None:
    written = run(kafka, "consume", source, "--format", form)
    run(kafka, "produce", copy, "--format", form, stdin=written)
    assert checksum(kafka, copy) == checksum(kafka, source)
    assert checksum(kafka, copy)[0] == 300 * PARTITIONS


def test_group_reads_to_the_end_and_exits(kafka: KafkaServer, source: str) -> None:
    """Two members read different shares in each run, but together always the same records."""
    actual: list[bytes] = []

    def read() -> None:
        actual.append(run(kafka, "consume", source, "-g", "cli-group", "--template", "{partition}@{offset}"))

    reading = [threading.Thread(target=read) for _ in range(2)]
    for item in reading:
        item.start()
    for item in reading:
        item.join()
    assert len(actual) == 2
    expected = {f"{p}@{o}".encode() for p in range(PARTITIONS) for o in range(300)}
    assert set(b"".join(actual).split()) == expected
    lag = json.loads(run(kafka, "groups", "lag", "cli-group"))
    assert (lag["partitions"], lag["lag"]) == (PARTITIONS, 0)


def test_topic_ending_in_markers_is_read_to_its_end(
    kafka: KafkaServer, java: JavaPeer, new_topic: Callable[..., str]
) -> None:
    topic = new_topic()
    java.open("cli-t", transactional_id=topic)
    java.call("init", name="cli-t")
    for number in range(4):
        java.call("begin", name="cli-t")
        java.send("cli-t", topic, [Sent(None, b"%d" % number)])
        java.call("commit" if number % 2 == 0 else "abort", name="cli-t")
    java.call("close", name="cli-t")
    assert run(kafka, "consume", topic).split() == [b"0", b"1", b"2", b"3"]
    committed = ("-X", "isolation.level=read_committed")
    assert run(kafka, "consume", topic, *committed).split() == [b"0", b"2"]
    assert run(kafka, "consume", topic, *committed, "--tail", "2").split() == [b"0", b"2"]
    assert run(kafka, "consume", topic, *committed, "-g", f"g-{topic}").split() == [b"0", b"2"]
    # The committed offset is after the last marker.
    assert json.loads(run(kafka, "groups", "lag", f"g-{topic}"))["lag"] == 0


def test_topics_list_matches_kafka_tool(kafka: KafkaServer, source: str, tmp_path: Path) -> None:
    tool = "org.apache.kafka.tools.TopicCommand"
    theirs = kafka.tool(tool, "--bootstrap-server", kafka.bootstrap_servers, "--list").stdout.decode().split()
    ours = [json.loads(line)["topic"] for line in run(kafka, "topics", "list", "--internal").splitlines()]
    assert sorted(ours) == sorted(theirs)
