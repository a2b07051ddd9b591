"""Runs one client in a process of its own, and remembers what it measured for the table at the end."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from support.kafka import KafkaServer

HERE = Path(__file__).resolve().parent
RECORDS = int(os.environ.get("SAMSARROW_BENCH_RECORDS", "3000000"))
Result = dict[str, Any]
results: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))


def run_client(name: str, verb: str, kafka: KafkaServer, topic: str) -> Result:
    """One client doing one thing once, in a fresh process."""
    command = [sys.executable, "-m", "clients", name, verb, kafka.bootstrap_servers, topic, str(RECORDS)]
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    result: Result = json.loads(done.stdout)
    return result


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
    """Medians of the runs, and each client's rate as a ratio of confluent-kafka's."""
    lines = []
    for verb, clients in results.items():
        medians = {name: median(runs) for name, runs in clients.items()}
        base = medians.get("confluent")
        title = f"{verb}: {RECORDS:,} records of 100 bytes, Apache Kafka on this machine, median of runs"
        head = f"{'client':<12}{'records/s':>14}{'CPU us/record':>16}{'peak RSS MiB':>15}{'x confluent':>14}"
        lines += ["", title, head]
        for name, r in sorted(medians.items(), key=lambda item: float(item[1]["seconds"])):
            ratio = f"{base['seconds'] / r['seconds']:.1f}" if base else "-"
            cpu = r["cpu"] / r["rows"] * 1e6
            lines.append(f"{name:<12}{r['rows'] / r['seconds']:>14,.0f}{cpu:>16.3f}{r['rss_mib']:>15,.0f}{ratio:>14}")
    return lines
