"""Sends an Arrow table to a topic. Measures records per second and cost, and checks that the topic has equal values."""

import itertools
import statistics
from typing import Any

import pytest

from clients import data
from clients.checksum import checksum
from clients.tuning import DEFAULTS, module
from harness import RECORDS, create_topic, each_run, measured, record, run_client, sections, turns
from support.kafka import KafkaServer

ROUNDS = {"ours": 5, "confluent": 3, "confluent, defaults": 3, "aio": 1}
PEERS = ("ours", "confluent")
# The same clients without tuned options, and tuned.
WAYS = (*(client + DEFAULTS for client in PEERS), *PEERS)
RUNS = 3
# Number of records that fit into confluent-kafka's queue.
FIRST = min(500_000, RECORDS)
_numbers = itertools.count()


def check(kafka: KafkaServer, topic: str, count: int) -> None:
    """Reads the topic with another client, and compares the checksum of the values."""
    rows, crc = checksum(data.table(count).column("value").chunks)
    assert run_client("confluent", "check", kafka, topic, count) == {"rows": rows, "crc": crc}


@pytest.mark.parametrize("client", ROUNDS)
def test_produce(benchmark: Any, warm_kafka: KafkaServer, client: str) -> None:
    kafka = warm_kafka
    topics: list[str] = []

    def fresh() -> None:
        topics.append(create_topic(kafka, f"produce-{module(client)}-{next(_numbers)}"))

    def once() -> None:
        result = run_client(client, "produce", kafka, topics[-1])
        assert result["rows"] == RECORDS
        record("produce 100B", client, result)

    benchmark.pedantic(once, setup=fresh, rounds=ROUNDS[client])
    check(kafka, topics[-1], RECORDS)


@pytest.mark.parametrize("client", WAYS)
def test_send(benchmark: Any, warm_kafka: KafkaServer, client: str) -> None:
    """Sends with a call per record, with Python objects."""
    topics: list[str] = []

    def fresh() -> None:
        topics.append(create_topic(warm_kafka, f"send-{module(client)}-{next(_numbers)}"))

    def once() -> None:
        result = run_client(client, "send", warm_kafka, topics[-1])
        assert result["rows"] == RECORDS
        record("send 100B, a call a record", client, result)

    benchmark.pedantic(once, setup=fresh, rounds=RUNS)
    check(warm_kafka, topics[-1], RECORDS)


def test_first_sends(benchmark: Any, warm_kafka: KafkaServer) -> None:
    """Measures the rate of `send` calls in a fresh process, from the first record on."""
    results: dict[str, dict[str, list[float]]] = {c: {"called": [], "arrived": []} for c in WAYS}

    def once() -> None:
        for client in turns(WAYS, RUNS):
            topic = create_topic(warm_kafka, f"first-{module(client)}-{next(_numbers)}")
            result = run_client(client, "send", warm_kafka, topic, FIRST)
            assert result["rows"] == FIRST
            results[client]["called"].append(FIRST / result["calls"] / 1e3)
            results[client]["arrived"].append(FIRST / result["seconds"] / 1e3)
            check(warm_kafka, topic, FIRST)

    benchmark.pedantic(once, rounds=1)
    lines = sections[f"the first {FIRST:,} sends of a process"]
    lines += [each_run(client, figures, "thousand/s") for client, figures in results.items()]
    measured["first sends"] |= results


def test_the_broker_itself(benchmark: Any, warm_kafka: KafkaServer) -> None:
    """Sends one prepared request repeatedly. Its rate is the upper limit of this broker for any client."""
    topics: list[str] = []

    def fresh() -> None:
        topics.append(create_topic(warm_kafka, f"produce-raw-{next(_numbers)}"))

    def once() -> None:
        record("produce 100B", "raw", run_client("raw", "produce", warm_kafka, topics[-1]))

    benchmark.pedantic(once, setup=fresh, rounds=3)


# With its defaults, confluent-kafka waits 5 ms for each record.
@pytest.mark.timeout(900)
def test_a_record_at_a_time(benchmark: Any, warm_kafka: KafkaServer) -> None:
    """Latency for an application that awaits each record's result before the next; clients take turns."""
    results: dict[str, dict[str, list[float]]] = {c: {"p50": [], "p95": [], "p99": []} for c in WAYS}
    topic = create_topic(warm_kafka, "waited")
    # The first 200 records, during which the client connects, are not counted.
    count = 200 + 11_200 * RECORDS // 3_000_000

    def once() -> None:
        for client in turns(WAYS, RUNS):
            micros = run_client(client, "waited", warm_kafka, topic, count)
            assert len(micros) == count - 200
            cuts = statistics.quantiles(micros, n=100)
            for name, figures in results[client].items():
                figures.append(cuts[int(name[1:]) - 1])

    benchmark.pedantic(once, rounds=1)
    for client, figures in results.items():
        sections["a record at a time, waited for"].append(each_run(client, figures))
        measured["a record at a time"][client] = figures
