"""Cost of small units: few rows per poll, and topics of small record batches, as written by live applications."""

import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cases import JSON_LZ4, JSON_ZSTD, NOISE, Case
from clients import data
from clients.checksum import checksum
from harness import (
    RECORDS,
    create_topic,
    each_run,
    measured,
    medians,
    rate,
    record,
    results,
    run_client,
    sections,
    turns,
)
from samsarrow import Producer
from support.kafka import KafkaServer

RUNS = 5
# Clients take turns within one bench.
pytestmark = pytest.mark.timeout(900)
# Records per batch, and the divisor of RECORDS that gives their total number.
SIZES = {1: 10, 10: 3, 100: 1}


@pytest.mark.parametrize("case", [NOISE, JSON_LZ4, JSON_ZSTD], ids=lambda case: case.name)
def test_few_rows_a_poll(benchmark: Any, kafka: KafkaServer, written: Callable[[Case], str], case: Case) -> None:
    topic, verb = written(case), f"{case.name} by rows a poll"
    names = {"consume": "ours, the default", "few": "ours, 500"}

    def once() -> None:
        for way in turns(list(names), RUNS):
            result = run_client("ours", way, kafka, topic, case.count)
            assert result["rows"] == case.count
            record(verb, names[way], result)

    benchmark.pedantic(once, rounds=1)
    rates = [[rate(run) for run in results[verb][name]] for name in names.values()]
    ratios = [few / many for many, few in zip(*rates, strict=True)]
    measured["max.poll.records=500"][case.name] = ratios
    line = each_run(f"{case.kind} {case.codec}", {"500 is": ratios}, "x the default", 2)
    sections["max.poll.records=500 against the default, rates"].append(line)
    rows, crc = checksum(data.table(case.count, case.kind).column("value").chunks)
    assert run_client("ours", "check", kafka, topic, case.count) == {"rows": rows, "crc": crc}


@pytest.mark.parametrize("size", SIZES)
def test_small_batches(benchmark: Any, kafka: KafkaServer, size: int) -> None:
    count = RECORDS // SIZES[size] // size * size
    topic = create_topic(kafka, f"small-{size}")
    write(kafka, topic, data.values(count).to_pylist(), size)
    batches = sum(1 for segment in kafka.segments(topic) for _ in headers(segment))
    assert batches == count // size
    verb = f"consume 100B, {size} a record batch"

    def once() -> None:
        for client in turns(("ours", "confluent", "confluent, defaults"), RUNS):
            result = run_client(client, "consume", kafka, topic, count)
            assert result["rows"] == count
            record(verb, client, result)

    benchmark.pedantic(once, rounds=1)
    cpu = {client: found["cpu"] / batches * 1e6 for client, found in medians(verb).items()}
    ratio = cpu["confluent"] / cpu["ours"]
    measured["CPU of a record batch, µs"][str(size)] = cpu
    line = f"{size:>3} a batch, {batches:,} batches: " + ", ".join(f"{c} {us:.2f} us" for c, us in cpu.items())
    sections["CPU a record batch"].append(f"{line}, ratio {ratio:.1f}")
    rows, crc = checksum(data.table(count).column("value").chunks)
    for client in cpu:
        assert run_client(client, "check", kafka, topic, count) == {"rows": rows, "crc": crc}


def write(kafka: KafkaServer, topic: str, values: list[bytes], size: int) -> None:
    """Writes batches of exactly `size` records: linger is too long to end a batch, and `batch.size` leaves no space for
    another record.
    """
    # A batch has a header, then 109 bytes for each record of 100 bytes; from the 65th record on, its offset takes one
    # byte more.
    room = 61 + size * 109 + max(size - 64, 0) + 50
    now = int(time.time() * 1000)
    with Producer(bootstrap_servers=kafka.bootstrap_servers, batch_size=room, linger_ms=5000) as producer:
        for value in values:
            producer.send(topic, value, timestamp=now)


def headers(segment: Path) -> Iterator[int]:
    """Yields the base offset of each record batch of a log segment."""
    log = segment.read_bytes()
    at = 0
    while at < len(log):
        offset, length = struct.unpack_from(">qi", log, at)
        if not length:
            # The rest of the segment is preallocated space.
            return
        yield offset
        at += 12 + length
