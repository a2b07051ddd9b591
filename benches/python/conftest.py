"""Apache Kafka for the benches, and a summary table at the end."""

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tests")]

import harness  # noqa: E402  (the path above is what finds it)
import plot  # noqa: E402
from cases import CASES, Case  # noqa: E402
from clients.tuning import DEFAULTS  # noqa: E402
from support.kafka import KafkaServer  # noqa: E402


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer(heap="1g") as server:
        yield server


@pytest.fixture(scope="session")
def written(kafka: KafkaServer) -> Callable[[Case], str]:
    """Returns the topic of a case. confluent-kafka writes the topic on first use, so that samsarrow does not read only
    its own records.
    """

    @functools.cache
    def topic(case: Case) -> str:
        made = harness.create_topic(kafka, case.name.replace(" ", "-"))
        harness.run_client("confluent", "produce", kafka, made, case.count, case.kind, case.codec)
        return made

    return topic


@pytest.fixture(scope="session")
def warm_kafka(kafka: KafkaServer) -> KafkaServer:
    """A broker whose JVM has compiled its produce path, so that no client pays for the compilation."""
    harness.run_client("confluent", "produce", kafka, harness.create_topic(kafka, "produce-warm-up"))
    return kafka


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the summary table below the table of pytest-benchmark. Writes the file of results and draws its chart on
    request.
    """
    for line in harness.table():
        terminalreporter.write_line(line)
    if not (path := os.environ.get("SAMSARROW_BENCH_RESULTS")):
        return
    about = {"command": "make bench-python", "date": f"{datetime.now(UTC):%Y-%m-%d}", "processors": os.cpu_count()}
    results = merged(Path(path), harness.figures())
    Path(path).write_text(json.dumps(about | results, indent=1) + "\n")
    rates = {
        case.title: {
            client: row["records_per_second"]
            for client, row in results["medians"][case.name].items()
            if not client.endswith(DEFAULTS)
        }
        for case in CASES
        if case.name in results["medians"]
    }
    if rates and (path := os.environ.get("SAMSARROW_BENCH_PLOT")):
        Path(path).write_text(plot.bars("A topic into Arrow, from Apache Kafka on the same machine", rates))


def merged(path: Path, figures: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Returns the figures, with those of an earlier run for benches and clients that have not run."""
    earlier = json.loads(path.read_text()) if path.exists() else {}
    return {
        kind: {
            bench: with_earlier(earlier.get(kind, {}).get(bench), found.get(bench))
            for bench in earlier.get(kind, {}) | found
        }
        for kind, found in figures.items()
    }


def with_earlier(earlier: Any, found: Any) -> Any:
    if isinstance(earlier, dict) and isinstance(found, dict):
        return earlier | found
    return earlier if found is None else found
