"""A whole topic into Arrow: records per second, each client's CPU and memory, and that all read the same values."""

from typing import Any

import pytest

from clients import data
from clients.checksum import checksum
from harness import RECORDS, create_topic, record, run_client
from support.kafka import KafkaServer

ROUNDS = {"ours": 5, "confluent": 3, "aio": 3, "kafkarrow": 1}


@pytest.fixture(scope="module")
def topic(kafka: KafkaServer) -> str:
    """Written by a peer, so that no client reads only what it wrote itself."""
    name = create_topic(kafka, "consume")
    run_client("confluent", "produce", kafka, name)
    return name


@pytest.fixture(scope="module")
def truth() -> dict[str, int]:
    rows, crc = checksum(data.table(RECORDS).column("value").chunks)
    return {"rows": rows, "crc": crc}


@pytest.mark.parametrize("client", ROUNDS)
def test_consume(benchmark: Any, kafka: KafkaServer, topic: str, truth: dict[str, int], client: str) -> None:
    def once() -> None:
        result = run_client(client, "consume", kafka, topic)
        assert result["rows"] == RECORDS
        record("consume", client, result)

    benchmark.pedantic(once, rounds=ROUNDS[client], warmup_rounds=1 if client == "ours" else 0)
    assert run_client(client, "check", kafka, topic) == truth
