"""Real Apache Kafka for the benches, and one table at the end."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tests")]

import harness  # noqa: E402  (the path above is what finds it)
from support.kafka import KafkaServer  # noqa: E402


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaServer]:
    with KafkaServer(heap="1g") as server:
        yield server


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Prints the table below pytest-benchmark's own."""
    for line in harness.table():
        terminalreporter.write_line(line)
