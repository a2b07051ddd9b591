"""Share groups: one member reads a topic of records of 100 bytes, compared with a loop of bare ShareFetch requests.

`make bench-share` runs this; it fails if a floor is missed.
"""

import os
from typing import Any

import pytest

import harness
from clients import data
from harness import HERE, cpu_us, create_topic, each_run, median, rate, record, results, run_module, sections, turns
from samsarrow import Admin, ConfigResource, Producer
from support.kafka import KafkaServer

TESTS = HERE.parent.parent / "tests"
COUNTS = (200_000, 2_000_000)
MODES = ("implicit", "explicit")
CLIENTS = ("raw", "ours", "confluent")
RUNS = 3
# Limits from the design: ratios of rates, microseconds of CPU per row, seconds from `subscribe` to the first row.
OF_RAW, OF_CONFLUENT, EXPLICIT_CPU_US, FIRST_S = 0.85, 3.0, 0.12, 1.5
FIRST = "share groups: seconds from subscribe to the first row, and rows a poll"


def run(client: str, mode: str, kafka: KafkaServer, topic: str, count: int, group: str) -> Any:
    """Runs a member of a new group in a process of its own."""
    with Admin(bootstrap_servers=kafka.bootstrap_servers) as admin:
        admin.alter_configs({ConfigResource.group(group): {"share.auto.offset.reset": "earliest"}})
    path = os.pathsep.join([str(HERE), str(TESTS), os.environ.get("PYTHONPATH", "")])
    result = run_module("clients.share", client, mode, kafka.bootstrap_servers, group, topic, count, PYTHONPATH=path)
    assert result["read"] == count, (client, mode, result)
    return result


@pytest.fixture(scope="module")
def share_kafka(kafka: KafkaServer) -> KafkaServer:
    """A broker whose JVM has compiled the path of share groups, and that has created their internal topic."""
    topic = write(kafka, "share-warm-up", 200_000)
    for number, client in enumerate(("ours", "raw", "ours")):
        run(client, "implicit", kafka, topic, 200_000, f"warm-up-{number}")
    return kafka


def write(kafka: KafkaServer, topic: str, count: int) -> str:
    create_topic(kafka, topic)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        delivery = producer.send_batch(topic, data.table(count), value="value")
        assert sum(receipt.count for receipt in delivery.result(120)) == count
    return topic


@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", COUNTS)
def test_share_group(benchmark: Any, share_kafka: KafkaServer, count: int) -> None:
    topic = write(share_kafka, f"share-{count}", count)
    verbs = {mode: f"share group, {mode}, {count:,} rows" for mode in MODES}

    def once() -> None:
        ways = [("raw", "implicit"), *((client, mode) for mode in MODES for client in ("ours", "confluent"))]
        for number, way in enumerate(turns([" ".join(way) for way in ways], RUNS)):
            client, mode = way.split()
            result = run(client, mode, share_kafka, topic, count, f"{client}-{mode}-{count}-{number}")
            # The loop has no modes.
            for verb in verbs.values() if client == "raw" else (verbs[mode],):
                record(verb, client, result)

    benchmark.pedantic(once, rounds=1)
    missed = {}
    for mode, verb in verbs.items():
        middle = {client: median(results[verb][client]) for client in CLIENTS}
        firsts = {client: sorted(result["first"] for result in results[verb][client]) for client in CLIENTS}
        polls = ", ".join(f"{client} {middle[client]['rows'] / middle[client]['polls']:,.0f}" for client in CLIENTS)
        sections[FIRST] += [each_run(f"{mode}, {count:,}", firsts, "s", 2), f"{'':24}rows a poll: {polls}"]
        found = {
            f"of the bare loop at least {OF_RAW}": rate(middle["ours"]) / rate(middle["raw"]),
            f"of confluent-kafka at least {OF_CONFLUENT}": rate(middle["ours"]) / rate(middle["confluent"]),
            f"CPU at most {EXPLICIT_CPU_US} us a row": -cpu_us(middle["ours"]),
            f"first row within {FIRST_S} s": -firsts["ours"][RUNS // 2],
        }
        floors = [OF_RAW, OF_CONFLUENT, -EXPLICIT_CPU_US if mode == "explicit" else -1.0, -FIRST_S]
        for (name, value), floor in zip(found.items(), floors, strict=True):
            sections[FIRST].append(f"{'':24}{name}: {abs(value):.3f}{' MISSED' if value < floor else ''}")
            if value < floor:
                missed[f"{verb}: {name}"] = abs(value)
    assert not missed, (missed, harness.table())
