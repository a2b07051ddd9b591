"""Latency from `send` in one process to the reader in another, at a thousand records per second."""

import itertools
import json
import statistics
import subprocess
import threading
from typing import Any

import pytest

from clients.latency import RATE
from clients.tuning import module, variables
from harness import HERE, RECORDS, create_topic, each_run, environment, measured, python, run_command, sections, turns
from support.kafka import KafkaServer

CLIENTS = ("ours, defaults", "confluent, defaults", "ours", "confluent", "aiokafka", "java")
RUNS = 3
# Clients take turns within one bench.
pytestmark = pytest.mark.timeout(900)
# Seconds not counted, in which clients connect and Java compiles code; and seconds measured.
WARM_S, SECONDS = 2, 10 if RECORDS >= 1_000_000 else 3
_numbers = itertools.count()


@pytest.fixture
def found() -> dict[str, dict[str, list[float]]]:
    return {client: {"p50": [], "p99": []} for client in CLIENTS}


def test_latency(benchmark: Any, warm_kafka: KafkaServer, found: dict[str, dict[str, list[float]]]) -> None:
    # Runs a client first, so that the broker compiles its code for small requests.
    run(warm_kafka, "confluent")

    def once() -> None:
        for client in turns(CLIENTS, RUNS):
            cuts = statistics.quantiles(run(warm_kafka, client), n=100)
            for name, figures in found[client].items():
                figures.append(cuts[int(name[1:]) - 1])

    benchmark.pedantic(once, rounds=1)
    lines = sections[f"produce to consume, {RATE:,} records a second for {SECONDS} s, {RUNS} runs"]
    for client, figures in found.items():
        assert all(len(runs) == RUNS for runs in figures.values())
        lines.append(each_run(client, figures))
        measured["latency"][client] = figures


def run(kafka: KafkaServer, client: str) -> list[float]:
    """Returns the microseconds of each record, without the first seconds."""
    topic = create_topic(kafka, f"latency-{next(_numbers)}")
    count = (WARM_S + SECONDS) * RATE
    reads = command(kafka, client, "read", topic, count)
    with subprocess.Popen(reads, env=environment(**variables(client)), stdout=subprocess.PIPE, text=True) as reader:
        assert reader.stdout is not None
        late = threading.Timer(60 + WARM_S + SECONDS, reader.kill)
        late.start()
        try:
            assert reader.stdout.readline() == "ready\n"
            run_command(command(kafka, client, "send", topic, count), environment(**variables(client)))
            micros: list[float] = json.loads(reader.stdout.readline())
        finally:
            late.cancel()
            reader.kill()
    # All records arrived, and no record arrived before it was sent.
    assert len(micros) == count
    assert min(micros) > 0
    return micros[WARM_S * RATE :]


def command(kafka: KafkaServer, client: str, role: str, topic: str, count: int) -> list[str]:
    arguments = [role, kafka.bootstrap_servers, topic, str(count)]
    if client == "java":
        return kafka.java(str(HERE / "java" / "Latency.java"), *arguments, jvm=["-Xmx512m"])
    return python("clients.latency", module(client), *arguments)
