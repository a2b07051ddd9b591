"""A topic read in two typical ways: by a fresh process that keeps all batches, and then by the same process, now warm,
which drops each batch.
"""

from collections.abc import Callable
from typing import Any

import pytest

from cases import JSON_LZ4, NOISE, Case
from clients import data
from clients.checksum import checksum
from clients.tuning import module, variables
from harness import each_run, record, run_module, sections, turns
from support.kafka import KafkaServer

CLIENTS = ("ours", "confluent", "confluent, defaults", "raw")
RUNS = 5
# Clients take turns within one bench.
pytestmark = pytest.mark.timeout(900)


@pytest.mark.parametrize("case", [NOISE, JSON_LZ4], ids=lambda case: case.name)
def test_kept(benchmark: Any, kafka: KafkaServer, written: Callable[[Case], str], case: Case) -> None:
    """The raw loop keeps responses without decoding them."""
    topic = written(case)
    results: dict[str, list[Any]] = {client: [] for client in CLIENTS}

    def once() -> None:
        for client in turns(CLIENTS, RUNS):
            arguments = module(client), kafka.bootstrap_servers, topic, case.count
            results[client].append(run_module("clients.kept", *arguments, **variables(client)))

    benchmark.pedantic(once, rounds=1)
    _, crc = checksum(data.table(case.count, case.kind).column("value").chunks)
    lines = sections["kept by a fresh process against let go by a warm one, rates"]
    for client, runs in results.items():
        for run in runs:
            assert run["kept"]["rows"] == run["warm"]["rows"] == case.count
            assert run["kept"].pop("crc", None) == (None if client == "raw" else crc)
            record(f"{case.name}, kept by a fresh process", client, run["kept"])
            record(f"{case.name}, again, let go", client, run["warm"])
        ratios = [run["warm"]["seconds"] / run["kept"]["seconds"] for run in runs]
        lines.append(each_run(f"{case.kind} {case.codec}, {client}", {"kept is": ratios}, "x warm", 2))
