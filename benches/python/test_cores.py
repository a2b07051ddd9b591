"""Throughput on two cores relative to one: decoding on a thread per core, and reading 64 partitions."""

import os
import statistics
from typing import Any

import pyarrow as pa
import pytest

from clients import data
from harness import RECORDS, create_topic, measured, rate, run_module, sections, turns
from samsarrow import Producer
from support.kafka import KafkaServer

RUNS = 5
CORES = ("1", "2")
PARTITIONS = 64
DECODED = 100_000
SCALING = 1.8
lines = sections["cores"]
pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process may use one core only")


def scaling(name: str, verb: str, *arguments: object) -> float:
    """Runs a verb on one and two cores in turn. Returns the ratio of the median rates, and adds a line to the table."""
    runs: dict[str, list[Any]] = {cores: [] for cores in CORES}
    for cores in turns(CORES, RUNS):
        runs[cores].append(run_module("clients.cores", verb, cores, *arguments))
    one, two = (statistics.median(rate(run) for run in runs[cores]) for cores in CORES)
    cpu = [statistics.median(run["cpu"] / run["rows"] * 1e6 for run in runs[cores]) for cores in CORES]
    cells = f"{one:>14,.0f}/s on one core{two:>14,.0f}/s on two{two / one:>7.2f} x"
    lines.append(f"{name:<28}{cells}{cpu[0]:>8.3f} and {cpu[1]:.3f} us CPU a record")
    measured["cores"][name] = {"one": one, "two": two}
    return two / one


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_decode(codec: str) -> None:
    assert scaling(f"decode, {codec}", "decode", DECODED, codec) >= SCALING


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_fetch(kafka: KafkaServer, codec: Any) -> None:
    """The broker uses the same cores, so that on a machine of two cores this ratio has no floor."""
    count = RECORDS // 3 // PARTITIONS * PARTITIONS
    topic = create_topic(kafka, f"cores-{codec}", PARTITIONS)
    rows = data.table(count, "json").combine_chunks()
    with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type=codec) as producer:
        placed = pa.array([row * PARTITIONS // count for row in range(count)], pa.int32())
        rows = rows.append_column("partition", placed)
        producer.send_batch(topic, rows, value="value", partition="partition").result(120)
    found = scaling(f"64 partitions, {codec}", "fetch", kafka.bootstrap_servers, topic, count)
    assert found >= SCALING or len(os.sched_getaffinity(0)) < 4
