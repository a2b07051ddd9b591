"""Event loops: cost of an awaited record, wake-ups of the loop, and rows per second, compared with aiokafka."""

from collections.abc import Sequence
from typing import Any

import pytest

from clients.loops import PASSES
from clients.tuning import DEFAULTS, module, variables
from harness import RECORDS, create_topic, each_run, measured, run_client, run_module, sections, turns
from support.kafka import KafkaServer

# Awaiting a record costs aiokafka 10 us, so fewer records are sufficient.
COUNT = RECORDS // 10
ROUNDS = 3
# With 10,000 tasks and its default batch size, aiokafka takes 0.5 ms per record, because each batch of 16 KiB wakes all
# tasks.
SLOW = ("aiokafka, defaults", "send")
loops = sections["event loops"]


@pytest.fixture(scope="module")
def topic(kafka: KafkaServer) -> str:
    topic = create_topic(kafka, "loops")
    run_client("confluent", "produce", kafka, topic, COUNT)
    return topic


def run(client: str, verb: str, kafka: KafkaServer, topic: str, count: int) -> Any:
    arguments = module(client), verb, kafka.bootstrap_servers, topic, count
    return run_module("clients.loops", *arguments, **variables(client))


def compared(verb: str, clients: Sequence[str], kafka: KafkaServer, topic: str) -> dict[str, Any]:
    """Runs the clients in turn; returns the median run of each client, and adds a line for it to the table."""
    runs: dict[str, list[Any]] = {client: [] for client in clients}
    for _ in range(ROUNDS):
        for client in clients:
            count = max(COUNT // 10, 10_000) if (client, verb) == SLOW else COUNT
            runs[client].append(run(client, verb, kafka, topic, count))
    medians = {client: sorted(found, key=lambda r: float(r["seconds"]))[ROUNDS // 2] for client, found in runs.items()}
    measured[f"event loop, {verb}"] |= medians
    for client, found in medians.items():
        # A client without options to tune is compared with the defaults of others.
        first = medians.get(f"ours{DEFAULTS}" if client.endswith(DEFAULTS) else "ours", medians["ours"])
        rate, cpu = found["rows"] / found["seconds"], found["cpu"] / found["rows"] * 1e6
        times = first["rows"] / first["seconds"] / rate
        woken = f", {found['wakes']} wake-ups for {found['requests']} requests" if "wakes" in found else ""
        loops.append(f"{verb:<12}{client:<20}{rate:>12,.0f}/s{cpu:>10.2f} us CPU{times:>8.2f} x as fast by ours{woken}")
    return medians


@pytest.mark.parametrize("verb", ["send", "deliveries"])
def test_awaited_sends(kafka: KafkaServer, verb: str) -> None:
    clients = ["ours, defaults", "aiokafka, defaults", "ours", "aiokafka"]
    if verb == "send":
        clients.append("asyncio")
    result = compared(verb, clients, kafka, create_topic(kafka, f"loops-{verb}"))
    # The counts do not depend on the machine. The metadata request for the topic is not counted.
    assert result["ours"]["wakes"] <= result["ours"]["requests"] + 1


def test_batches(kafka: KafkaServer, topic: str) -> None:
    result = compared("batches", ("ours", "blocking"), kafka, topic)
    assert result["ours"]["rows"] == result["blocking"]["rows"] == COUNT * PASSES


def test_records(kafka: KafkaServer, topic: str) -> None:
    result = compared("records", ("ours", "blocking", "aiokafka", "confluent", "confluent, defaults"), kafka, topic)
    assert len({(item["rows"], item["bytes"]) for item in result.values()}) == 1


def test_a_record_at_a_time(kafka: KafkaServer) -> None:
    topic = create_topic(kafka, "loops-waited")
    clients = ("ours", "blocking", "aiokafka")
    ways = [*(client + DEFAULTS for client in clients), *clients]
    results: dict[str, list[Any]] = {client: [] for client in ways}
    for client in turns(list(results), ROUNDS):
        results[client].append(run(client, "waited", kafka, topic, 2000))
    for client, runs in results.items():
        cuts = {p: [item[p] for item in runs] for p in ("p50", "p95", "p99")}
        loops.append(each_run(f"waited, {client}", cuts))
        measured["event loop, a record at a time"][client] = cuts
