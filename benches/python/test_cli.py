"""The command line: reads a topic as lines, JSON, CSV and Parquet, and lists topics, compared with Kafka's own tool.

Lines are also read by kcat if SAMSARROW_KCAT has its path, otherwise by a printing loop over confluent-kafka, which
uses the same librdkafka. On Debian kcat needs no installation:

    apt-get download kcat librdkafka1 libyajl2 libjansson4
    for package in *.deb; do dpkg -x $package root; done
    export SAMSARROW_KCAT=$PWD/root/usr/bin/kcat LD_LIBRARY_PATH=$PWD/root/usr/lib/x86_64-linux-gnu

Each run is a separate process, measured with its start and end, and is stopped after `LIMIT` seconds. The output is
checked. The start of the process is also measured by itself, as a read of one record, and subtracted for the rate of
the records alone, to which floors apply. SAMSARROW_BENCH_CLI_RECORDS sets the number of records; floors apply to a
release build and a million records.
"""

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import harness
from clients import data
from harness import create_topic, environment, run_client
from support.kafka import KafkaServer

SAMSARROW = [sys.executable, "-m", "samsarrow.cli"]
KCAT = os.environ.get("SAMSARROW_KCAT")
PEER = "kcat" if KCAT else "a loop over confluent-kafka"
RECORDS = int(os.environ.get("SAMSARROW_BENCH_CLI_RECORDS", "300000"))
ROUNDS = 3
LIMIT = 60.0
# A program that does the work of kcat with the library that kcat uses.
LOOP = """
import json, sys
from confluent_kafka import Consumer, TopicPartition
servers, topic, form = sys.argv[1:]
options = {"group.id": "none", "enable.auto.commit": False, "enable.partition.eof": True}
c = Consumer({"bootstrap.servers": servers, **options})
c.assign([TopicPartition(topic, 0, 0)])
write = sys.stdout.buffer.write
while True:
    for m in c.consume(10000, 1.0):
        if m.error():
            sys.exit()
        if form == "value":
            write(m.value() + b"\\n")
        else:
            kind, at = m.timestamp()
            row = {"topic": topic, "partition": m.partition(), "offset": m.offset(), "tstype": kind, "ts": at}
            row |= {"key": m.key(), "payload": m.value().decode(errors="replace")}
            write(json.dumps(row).encode() + b"\\n")
"""
LINES_FLOOR = 3.0
# Records per second after the start of the process.
FLOORS = {"value": 5_000_000, "ndjson": 3_000_000, "csv": 3_000_000, "parquet": 5_000_000}
TOPICS_CEILING = 0.15
MEASURED = RECORDS >= 1_000_000


@pytest.fixture(scope="module")
def topic(kafka: KafkaServer) -> str:
    made = create_topic(kafka, "cli-lines")
    run_client("confluent", "produce", kafka, made, RECORDS, "json", "lz4")
    return made


@pytest.fixture(scope="module")
def values() -> pa.BinaryArray:
    return data.values(RECORDS, "json")


def output(command: Sequence[str], take: Callable[[bytes], object]) -> float:
    """Returns the seconds that a command takes while its output is read in pieces, as from a pipe."""
    started = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment()) as running:
        assert running.stdout is not None
        late = threading.Timer(LIMIT, running.kill)
        late.start()
        try:
            while piece := running.stdout.read(1 << 20):
                take(piece)
            running.wait()
        finally:
            late.cancel()
    assert running.returncode == 0, f"{command[0]} ended with {running.returncode}, or took longer than {LIMIT:g} s"
    return time.perf_counter() - started


def seconds(command: Sequence[str], lines: int | None = None) -> float:
    """Like `output`, but counts lines as `| wc -l` does."""
    counts: list[int] = []
    took = output(command, lambda piece: counts.append(piece.count(b"\n")))
    assert lines in (None, sum(counts))
    return took


def check(command: Sequence[str], form: str, member: str, values: pa.BinaryArray) -> None:
    """Checks that the output has all values in order; for JSON, checks every hundredth line."""
    pieces: list[bytes] = []
    output(command, pieces.append)
    text = b"".join(pieces)
    if form == "value":
        expected = b"\n".join(values.to_pylist()) + b"\n"
        assert hashlib.sha256(text).digest() == hashlib.sha256(expected).digest()
        return
    if form == "csv":
        result = pyarrow.csv.read_csv(pa.BufferReader(text))
        assert result["offset"].to_pylist() == list(range(RECORDS))
        assert result["value"].combine_chunks().cast(pa.binary()).equals(values)
        return
    lines = text.splitlines()
    assert len(lines) == RECORDS
    for row in range(0, RECORDS, 101):
        actual = json.loads(lines[row])
        value = actual[member]
        assert actual["offset"] == row
        assert (json.loads(value) if isinstance(value, str) else value) == json.loads(values[row].as_py())


def median(found: Sequence[float]) -> float:
    return sorted(found)[len(found) // 2]


def after_start(command: Sequence[str], took: float) -> float:
    """Returns the records per second without the start of the process."""
    start = median([seconds([*command, "-n", "1"]) for _ in range(ROUNDS)])
    return RECORDS / max(took - start, 1e-3)


def add_line(line: str) -> None:
    harness.groups.append(f"command line: {line}")


@pytest.mark.parametrize("form", ["value", "ndjson", "csv"])
def test_lines(benchmark: Any, kafka: KafkaServer, topic: str, values: pa.BinaryArray, form: str) -> None:
    servers = kafka.bootstrap_servers
    ours = [*SAMSARROW, "consume", topic, "--format", form, "-b", servers]
    lines = RECORDS + (form == "csv")
    check(ours, form, "value", values)
    mine = [benchmark.pedantic(lambda: seconds(ours, lines), rounds=1)]
    mine += [seconds(ours, lines) for _ in range(ROUNDS - 1)]
    rate = after_start(ours, median(mine))
    measured = harness.measured["command line"][form] = {"ours": RECORDS / median(mine)}
    harness.measured["command line after the start"][form] = {"ours": rate}
    line = f"{form:<8} {RECORDS / median(mine):>12,.0f} records/s, {rate:,.0f} after the start"
    # Neither kcat nor the loop writes CSV.
    if form != "csv":
        if KCAT:
            shape = ["-J"] if form == "ndjson" else []
            theirs = [KCAT, "-C", "-b", servers, "-t", topic, "-o", "beginning", "-e", "-q", *shape]
        else:
            theirs = [sys.executable, "-c", LOOP, servers, topic, form]
        check(theirs, form, "payload", values)
        peers = [seconds(theirs, RECORDS) for _ in range(ROUNDS)]
        measured[PEER] = RECORDS / median(peers)
        ratio = median(peers) / median(mine)
        line += f", {ratio:.2f} x {PEER}"
        assert ratio >= LINES_FLOOR or not MEASURED
    add_line(line)
    assert rate >= FLOORS[form] or not MEASURED


def test_parquet(benchmark: Any, kafka: KafkaServer, topic: str, values: pa.BinaryArray, tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    took, rates = {}, {}
    for codec in ("snappy", "none"):
        ours = [*SAMSARROW, "consume", topic, "-O", str(path), "-z", codec, "-b", kafka.bootstrap_servers]
        took[codec] = median([seconds(ours) for _ in range(ROUNDS)])
        result = pyarrow.parquet.read_table(path)
        assert result["offset"].to_pylist() == list(range(RECORDS))
        assert result["value"].combine_chunks().cast(pa.binary()).equals(values)
        rates[codec] = after_start(ours, took[codec])
        harness.measured["command line"][f"parquet, {codec}"] = {"ours": RECORDS / took[codec]}
        harness.measured["command line after the start"][f"parquet, {codec}"] = {"ours": rates[codec]}
        add_line(f"parquet, {codec:<7} {RECORDS / took[codec]:>12,.0f} records/s, {rates[codec]:,.0f} after the start")
    benchmark.pedantic(lambda: seconds(ours), rounds=1)
    add_line(f"parquet: without compression in {took['none'] / took['snappy']:.2f} of the time with snappy")
    assert rates["none"] >= FLOORS["parquet"] or not MEASURED


def test_a_list_of_topics(benchmark: Any, kafka: KafkaServer, topic: str) -> None:
    ours = [*SAMSARROW, "topics", "list", "-b", kafka.bootstrap_servers, "-o", "csv"]
    tool = ["org.apache.kafka.tools.TopicCommand", "--bootstrap-server", kafka.bootstrap_servers, "--list"]
    listed: list[bytes] = []
    output(ours, listed.append)
    names = {line.partition(b",")[0] for line in b"".join(listed).splitlines()[1:]}
    # Only Kafka's tool lists internal topics.
    assert names == {name for name in kafka.tool(*tool).stdout.split() if not name.startswith(b"__")}
    assert topic.encode() in names
    mine, theirs = [benchmark.pedantic(lambda: seconds(ours), rounds=1)], []
    for _ in range(ROUNDS):
        mine.append(seconds(ours))
        # Does not use `kafka.tool`, which sets JVM options for tests.
        theirs.append(seconds(kafka.java(*tool, jvm=["-Xmx256m"])))
    ratio = median(mine) / median(theirs)
    harness.measured["command line"]["topics list, ms"] = {
        "ours": median(mine) * 1e3,
        "kafka-topics.sh": median(theirs) * 1e3,
    }
    add_line(f"topics list {median(mine) * 1000:.0f} ms, {ratio:.2f} x kafka-topics.sh")
    assert ratio <= TOPICS_CEILING or not MEASURED
