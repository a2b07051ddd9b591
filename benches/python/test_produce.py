"""An Arrow table into a topic: records per second and cost, and that the topic then has exactly those values."""

import itertools
import statistics
from typing import Any

import pytest

from clients import data
from clients.checksum import checksum
from harness import RECORDS, create_topic, record, run_client, waits
from support.kafka import KafkaServer

ROUNDS = {"ours": 5, "confluent": 3, "aio": 1}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def warm_kafka(kafka: KafkaServer) -> KafkaServer:
    """A broker whose JVM has compiled its produce path, so that no client pays for that alone."""
    run_client("confluent", "produce", kafka, create_topic(kafka, "produce-warm-up"))
    return kafka


@pytest.mark.parametrize("client", ROUNDS)
def test_produce(benchmark: Any, warm_kafka: KafkaServer, client: str) -> None:
    kafka = warm_kafka
    topics: list[str] = []

    def fresh() -> None:
        topics.append(create_topic(kafka, f"produce-{client}-{next(_numbers)}"))

    def once() -> None:
        result = run_client(client, "produce", kafka, topics[-1])
        assert result["rows"] == RECORDS
        record("produce 100B", client, result)

    benchmark.pedantic(once, setup=fresh, rounds=ROUNDS[client])
    rows, crc = checksum(data.table(RECORDS).column("value").chunks)
    # Read back by a client of another make.
    assert run_client("confluent", "check", kafka, topics[-1]) == {"rows": rows, "crc": crc}


@pytest.mark.parametrize("client", ["ours", "confluent"])
def test_send(benchmark: Any, warm_kafka: KafkaServer, client: str) -> None:
    """One call a record: objects of Python's, one by one."""
    topics: list[str] = []

    def fresh() -> None:
        topics.append(create_topic(warm_kafka, f"send-{client}-{next(_numbers)}"))

    def once() -> None:
        result = run_client(client, "send", warm_kafka, topics[-1])
        assert result["rows"] == RECORDS
        record("send 100B, a call a record", client, result)

    benchmark.pedantic(once, setup=fresh, rounds=3)
    rows, crc = checksum(data.table(RECORDS).column("value").chunks)
    assert run_client("confluent", "check", warm_kafka, topics[-1]) == {"rows": rows, "crc": crc}


def test_the_broker_itself(benchmark: Any, warm_kafka: KafkaServer) -> None:
    """One prepared request sent again and again: no client can be faster than this broker takes it."""
    topics: list[str] = []

    def fresh() -> None:
        topics.append(create_topic(warm_kafka, f"produce-raw-{next(_numbers)}"))

    def once() -> None:
        record("produce 100B", "raw", run_client("raw", "produce", warm_kafka, topics[-1]))

    benchmark.pedantic(once, setup=fresh, rounds=3)


def test_a_record_at_a_time(benchmark: Any, warm_kafka: KafkaServer) -> None:
    """What a program waits that needs each record's result before it goes on; clients take turns."""
    clients = ("ours", "confluent")
    found: dict[str, list[float]] = {client: [] for client in clients}
    topic = create_topic(warm_kafka, "waited")
    count = 3000

    def once() -> None:
        for client in clients:
            found[client] += run_client(client, "waited", warm_kafka, topic, count)

    benchmark.pedantic(once, rounds=4, warmup_rounds=1)
    for client, micros in found.items():
        assert len(micros) == 5 * (count - 200)
        cuts = statistics.quantiles(micros[count - 200 :], n=100)
        waits.append(f"{client:<12}" + "".join(f"{f'p{p} {cuts[p - 1]:,.0f} us':>18}" for p in (50, 95, 99)))
