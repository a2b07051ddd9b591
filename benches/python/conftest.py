"""Real Apache Kafka for the benches, each client in a process of its own, and one table at the end."""

import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tests")]

from support.kafka import KafkaServer  # noqa: E402  (the path above is what finds it)

RECORDS = int(os.environ.get("SAMSARROW_BENCH_RECORDS", "3000000"))
Result = dict[str, Any]
_results: dict[str, dict[str, list[Result]]] = defaultdict(lambda: defaultdict(list))


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
    _results[verb][client].append(result)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer(heap="1g") as server:
        yield server


def create_topic(kafka: KafkaServer, topic: str, partitions: int = 1) -> str:
    kafka.tool(
        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", kafka.bootstrap_servers,
        "--create", "--topic", topic, "--partitions", str(partitions),
    )  # fmt: skip
    return topic


def _median(runs: list[Result]) -> Result:
    return sorted(runs, key=lambda r: float(r["seconds"]))[len(runs) // 2]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The table: medians of the runs, and each client's rate as a ratio of the slowest peer's named in the head."""
    for verb, clients in _results.items():
        medians = {name: _median(runs) for name, runs in clients.items()}
        base = medians.get("confluent")
        terminalreporter.write_line("")
        terminalreporter.write_line(
            f"{verb}: {RECORDS:,} records of 100 bytes, Apache Kafka on this machine, median of runs"
        )
        terminalreporter.write_line(
            f"{'client':<12}{'records/s':>14}{'CPU us/record':>16}{'peak RSS MiB':>15}{'x confluent':>14}"
        )
        for name, r in sorted(medians.items(), key=lambda item: float(item[1]["seconds"])):
            rate = r["rows"] / r["seconds"]
            ratio = f"{base['seconds'] / r['seconds']:.1f}" if base else "-"
            cpu = r["cpu"] / r["rows"] * 1e6
            terminalreporter.write_line(f"{name:<12}{rate:>14,.0f}{cpu:>16.3f}{r['rss_mib']:>15,.0f}{ratio:>14}")
