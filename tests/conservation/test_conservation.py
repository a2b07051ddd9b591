"""Runs each interface under each disturbance once on the embedded broker, and some pairs on Apache Kafka."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from conservation import sums
from conservation.clusters import Row
from conservation.disturbances import DISTURBANCES
from conservation.run import ALL_INTERFACES, pairs
from support.kafka import KafkaServer

# The tests take two minutes if no other tests use the processors.
pytestmark = pytest.mark.timeout(600)

# Known failures: pairs with the defect that causes the failure. Exactly these pairs must fail.
KNOWN: dict[str, str] = {}
# Number of processes. A process runs its pairs one after the other, because each run counts the log lines of its
# process.
PARTS = 4
ON_APACHE = (
    "reader × rebalance, KIP-848 on Apache",
    "reader × rebalance, cooperative-sticky on Apache",
    "poll × topic created again on Apache",
    "send_batch × partitions added on Apache",
    "AsyncProducer transactions × cancellation at each await on Apache",
    "samsarrow consume -g × SIGTERM on Apache",
)


def session(report: Path, *options: str) -> dict[str, str]:
    """Runs pairs in a separate process; returns the violations by pair."""
    command = [sys.executable, str(Path(__file__).parent), "--once", "--quick", "--json", str(report), *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=590, check=False)
    assert done.returncode in (0, 1), done.stderr
    result: list[tuple[str, str, list[str]]] = json.loads(report.read_text())
    assert result
    return {name: text if violations else "" for name, text, violations in result}


def failing(results: dict[str, str]) -> dict[str, str]:
    return {name: text for name, text in results.items() if text and name not in KNOWN}


def test_no_rows_are_lost_on_embedded_broker(tmp_path: Path) -> None:
    results: dict[str, str] = {}
    parts = [
        threading.Thread(
            target=lambda number=number: results.update(
                session(tmp_path / f"{number}.json", "--embedded", "--part", f"{number}/{PARTS}")
            )
        )
        for number in range(1, PARTS + 1)
    ]
    for part in parts:
        part.start()
    for part in parts:
        part.join()
    clusters: list[Any] = [SimpleNamespace(options=dict), SimpleNamespace(options=lambda: {"sasl_mechanism": "PLAIN"})]
    assert len(results) == len({pair.name for pair in pairs(clusters, quick=True)[0]})
    assert failing(results) == {}
    assert [name for name in KNOWN if not results[name]] == [], "no longer fails: remove it from KNOWN"


def test_no_rows_are_lost_on_apache_kafka(kafka: KafkaServer, tmp_path: Path) -> None:
    only = [option for name in ON_APACHE for option in ("--pair", name)]
    results = session(tmp_path / "apache.json", "--bootstrap", kafka.bootstrap_servers, *only)
    assert len(results) >= len(ON_APACHE)
    assert failing(results) == {}


def test_all_pairs_run_or_have_a_reason() -> None:
    clusters: list[Any] = [SimpleNamespace(options=dict), SimpleNamespace(options=lambda: {"sasl_mechanism": "PLAIN"})]
    expected, reasons = pairs(clusters)
    every = {f"{interface.name} × {disturbance.name}" for interface in ALL_INTERFACES for disturbance in DISTURBANCES}
    run = {pair.name for pair in expected}
    assert run | {f"{interface} × {disturbance}" for interface, disturbance in reasons} == every
    assert all(reasons.values())
    assert len(run) > len(every) // 3


LOG = [Row(0, 0, "row 0"), Row(0, 1, "row 1"), Row(1, 0, "row 2")]


def test_sums_detect_lost_rows() -> None:
    assert sums.missing(LOG, LOG, ["row 0", "row 1", "row 2"]) == []
    assert sums.missing(LOG, LOG[:1], ["row 0", "row 1"]) == ["1 of 2 rows were never returned: row 1 at 0:1"]
    assert sums.passed(LOG, {0: 1}, LOG[:1]) == []
    assert sums.passed(LOG, {0: 2, 1: 0}, LOG[:1]) == ["1 rows were committed and not returned: row 1 at 0:1"]
    assert sums.repeated([*LOG, LOG[0]]) == ["1 rows were returned more than once: row 0 at 0:0"]


def test_sums_detect_unreported_rows() -> None:
    given = {"row 0", "row 1", "row 2", "row 3"}
    assert sums.unreported(given, {"row 0", "row 1", "row 2"}, {"row 3"}, LOG, 0) == []
    assert sums.unreported(given, {"row 0"}, set(), LOG, 0) == [
        "1 of 4 rows were neither written nor reported as failed: row 3"
    ]
    # The producer reported one failed row itself.
    assert sums.unreported(given, {"row 0"}, set(), LOG, 1) == []
    assert sums.unreported(given, {"row 3"}, set(), LOG, 0) == [
        "1 rows were acknowledged and are not in the log: row 3"
    ]
    assert sums.unreported({"row 0", "row 1", "row 2"}, set(), set(), [*LOG, LOG[1]], 0) == [
        "1 rows are in the log more than once: row 1"
    ]
    assert sums.unreported({"row 0", "row 1"}, set(), set(), LOG, 0) == ["1 rows of the log were never given: row 2"]
    assert sums.joined({"row 2"}, LOG) == ["1 rows of aborted transactions are committed: row 2"]
