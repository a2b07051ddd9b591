"""A whole topic into Arrow: records per second, each client's CPU and memory, and that all read the same values."""

from dataclasses import dataclass
from typing import Any

import pytest

from clients import data
from clients.checksum import checksum
from harness import RECORDS, create_topic, record, run_client
from support.kafka import KafkaServer

ROUNDS = {"raw": 5, "ours": 5, "confluent": 2, "aio": 1, "kafkarrow": 1}


@dataclass(frozen=True)
class Case:
    """What a topic holds."""

    kind: str
    codec: str
    share: int
    clients: tuple[str, ...] = ("raw", "ours", "confluent")

    @property
    def name(self) -> str:
        return f"consume {self.kind} {self.codec}"

    @property
    def count(self) -> int:
        return RECORDS // self.share


CASES = [
    Case("100B", "none", 1, tuple(ROUNDS)),
    Case("1KB", "none", 6),
    Case("json", "lz4", 1),
    Case("json", "zstd", 1),
]
PARTITIONS = [1, 100, 1000]
GROWTH = [RECORDS // 3, RECORDS * 33]


@pytest.fixture(scope="module")
def topics(kafka: KafkaServer) -> dict[str, str]:
    """Written by a peer, so that no client reads only what it wrote itself."""
    made = {}
    for case in CASES:
        made[case.name] = create_topic(kafka, case.name.replace(" ", "-"))
        run_client("confluent", "produce", kafka, made[case.name], case.count, case.kind, case.codec)
    return made


@pytest.mark.parametrize("client", ROUNDS)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_consume(benchmark: Any, kafka: KafkaServer, topics: dict[str, str], case: Case, client: str) -> None:
    if client not in case.clients:
        pytest.skip("compared on plain records of 100 bytes only")
    topic = topics[case.name]

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
    """The same records in all, in one partition or in a thousand."""
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
