"""Reads a whole topic into Arrow. Measures records per second, CPU and memory, and checks that all clients read equal
values.
"""

from collections.abc import Callable
from typing import Any

import pytest

from cases import CASES, NOISE, Case
from clients import data
from clients.checksum import checksum
from harness import RECORDS, create_topic, record, run_client
from support.kafka import KafkaServer

ROUNDS = {"raw": 5, "ours": 5, "confluent": 2, "confluent, defaults": 2, "aio": 1, "kafkarrow": 1}
Written = Callable[[Case], str]
# Clients that read only the uncompressed records.
SLOW = {"aio", "kafkarrow", "confluent, defaults"}
PARTITIONS = [1, 100, 1000]
GROWTH = [RECORDS // 3, RECORDS * 33]


@pytest.mark.parametrize("client", ROUNDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_consume(benchmark: Any, kafka: KafkaServer, written: Written, case: Case, client: str) -> None:
    if client in SLOW and case != NOISE:
        pytest.skip("compared on plain records of 100 bytes only")
    topic = written(case)

    def once() -> None:
        result = run_client(client, "consume", kafka, topic, case.count)
        assert result["rows"] == case.count
        record(case.name, client, result)

    benchmark.pedantic(once, rounds=ROUNDS[client], warmup_rounds=1 if client in {"raw", "ours"} else 0)
    if client != "raw":
        rows, crc = checksum(data.table(case.count, case.kind).column("value").chunks)
        assert run_client(client, "check", kafka, topic, case.count) == {"rows": rows, "crc": crc}


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_cost_does_not_grow_with_partitions(benchmark: Any, kafka: KafkaServer, partitions: int) -> None:
    """The number of records is constant; the number of partitions varies."""
    topic = create_topic(kafka, f"wide-{partitions}", partitions)
    run_client("ours", "spread", kafka, topic)

    def once() -> None:
        result = run_client("ours", "consume", kafka, topic)
        assert result["rows"] == RECORDS
        record("consume 100B by partitions", f"{partitions:,}", result)

    benchmark.pedantic(once, rounds=3, warmup_rounds=1)


@pytest.mark.parametrize("count", GROWTH)
def test_cost_does_not_grow_with_records(benchmark: Any, kafka: KafkaServer, count: int) -> None:
    topic = create_topic(kafka, f"long-{count}")
    for start in range(0, count, RECORDS):
        run_client("ours", "produce", kafka, topic, min(RECORDS, count - start))

    def once() -> None:
        result = run_client("ours", "consume", kafka, topic, count)
        assert result["rows"] == count
        record("consume 100B by records", f"{count:,}", result)

    benchmark.pedantic(once, rounds=3, warmup_rounds=1)
