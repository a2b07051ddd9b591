"""Runs one client in a process of its own, and remembers what it measured for the table at the end."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.kafka import KafkaServer

HERE = Path(__file__).resolve().parent
RECORDS = int(os.environ.get("SAMSARROW_BENCH_RECORDS", "3000000"))
Result = dict[str, Any]
results: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))
# What the benches of groups and of waiting found, a line each.
groups: list[str] = []
waits: list[str] = []
# And those of event loops.
loops: list[str] = []
# What metrics cost.
metrics: list[str] = []


@dataclass(frozen=True)
class Secured:
    """Another way to the same Kafka."""

    bootstrap_servers: str
    options: dict[str, str]


def run_client(
    name: str,
    verb: str,
    kafka: KafkaServer,
    topic: str,
    count: int = RECORDS,
    kind: str = "100B",
    codec: str = "none",
    secured: Secured | None = None,
) -> Any:
    """One client doing one thing once, in a fresh process."""
    servers = kafka.bootstrap_servers if secured is None else secured.bootstrap_servers
    command = [sys.executable, "-m", "clients", name, verb, servers, topic, str(count), kind, codec]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    if secured is not None:
        environment["SAMSARROW_BENCH_SECURITY"] = json.dumps(secured.options)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def record(verb: str, client: str, result: Result) -> None:
    """Remembers one measured run for the table."""
    results[verb][client].append(result)


def create_topic(kafka: KafkaServer, topic: str, partitions: int = 1) -> str:
    """Creates a topic with Kafka's own tool."""
    kafka.tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", kafka.bootstrap_servers,
        "--create", "--topic", topic, "--partitions", str(partitions),
    )  # fmt: skip
    return topic


def median(runs: list[Result]) -> Result:
    """The run in the middle, by time."""
    return sorted(runs, key=lambda r: float(r["seconds"]))[len(runs) // 2]


def table() -> list[str]:
    """Medians of the runs, and each client's rate as a ratio of confluent-kafka's and of the raw loop's."""
    lines = []
    for what, clients in results.items():
        medians = {name: median(runs) for name, runs in clients.items()}
        peers = {"x confluent": medians.get("confluent"), "x raw loop": medians.get("raw")}
        head = f"{'client':<12}{'records/s':>14}{'CPU us/record':>16}{'peak RSS MiB':>15}"
        lines += ["", f"{what}: Apache Kafka on this machine, median of runs"]
        lines.append(head + "".join(f"{title:>14}" for title in peers))
        for name, r in sorted(medians.items(), key=lambda item: -float(item[1]["rows"]) / float(item[1]["seconds"])):
            rate, cpu = r["rows"] / r["seconds"], r["cpu"] / r["rows"] * 1e6
            ratios = [f"{rate * p['seconds'] / p['rows']:.2f}" if p else "-" for p in peers.values()]
            line = f"{name:<12}{rate:>14,.0f}{cpu:>16.3f}{r['rss_mib']:>15,.0f}"
            lines.append(line + "".join(f"{ratio:>14}" for ratio in ratios))
    named = (
        ("a record at a time, waited for", waits),
        ("groups", groups),
        ("event loops", loops),
        ("metrics", metrics),
    )
    for title, found in named:
        lines += ["", title, *found] if found else []
    return lines
