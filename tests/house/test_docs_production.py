"""docs/production.md: services that process, report their health, and stop on SIGTERM."""

import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from samsarrow import Admin, Consumer, Producer, TopicPartition
from samsarrow.testing import Broker
from support.fences import BROKER, ROOT, fences, topics_of

PAGE = ROOT / "docs" / "production.md"
PROGRAMS = [one.text for one in fences(PAGE) if one.language == "python"]


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=topics_of(PAGE.read_text())) as running:
        yield running


@contextmanager
def running(mark: str, broker: Broker, tmp_path: Path, port: int = 0) -> Iterator["subprocess.Popen[str]"]:
    """Starts the program of the page that contains `mark`, with warnings as errors."""
    (found,) = [text for text in PROGRAMS if mark in text]
    script = tmp_path / "service.py"
    script.write_text(found.replace(BROKER, broker.bootstrap_servers).replace("8080", str(port)))
    command = [sys.executable, "-W", "error", str(script)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def send(broker: Broker, *values: str) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for value in values:
            producer.send("orders", value, partition=0)


def committed(broker: Broker) -> int:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        found = admin.fetch_offsets("billing").get(TopicPartition("orders", 0))
    return 0 if found is None else found.offset


def stopped(process: "subprocess.Popen[str]") -> str:
    """Sends SIGTERM and returns the rest of the output."""
    process.send_signal(signal.SIGTERM)
    printed, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    return printed


def test_sigterm_commits_and_leaves_the_group(broker: Broker, tmp_path: Path) -> None:
    send(broker, "1", "2")
    with running("def process", broker, tmp_path) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == "2 orders\n"
        assert stopped(service) == "stopped\n"
    assert committed(broker) == 2
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        assert admin.describe_groups(["billing"])["billing"].members == ()


def test_health_and_metrics(broker: Broker, tmp_path: Path) -> None:
    send(broker, "1")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running("do_GET", broker, tmp_path, port) as service:
        assert service.stdout is not None
        assert service.stdout.readline() == "1 orders\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/live", timeout=10) as response:
            assert response.status == 200
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as response:
            assert 'samsarrow_consumer_records_lag{client_id="billing-0"' in response.read().decode()
        assert stopped(service) == ""


def test_idle_streams_stay_alive(broker: Broker) -> None:
    with Consumer(bootstrap_servers=broker.bootstrap_servers, group_id="idle") as consumer:
        consumer.subscribe(["orders"])
        assert consumer.metrics().last_poll is None
        assert list(consumer.stream(idle=3)) == []
        assert (consumer.metrics().last_poll or 0) < 2


def test_readiness(broker: Broker, tmp_path: Path) -> None:
    with running("doctor.check", broker, tmp_path) as check:
        printed, errors = check.communicate(timeout=60)
    assert (check.returncode, printed, errors) == (0, "", "")
    with Broker(auto_create_topics=False) as empty, running("doctor.check", empty, tmp_path) as check:
        printed, errors = check.communicate(timeout=60)
    assert (check.returncode, printed) == (1, "")
    assert "orders" in errors


def test_dead_letters(broker: Broker, tmp_path: Path) -> None:
    send(broker, "1", "two", "3")
    with running("orders.dead", broker, tmp_path) as service:
        assert service.stdout is not None
        assert [service.stdout.readline() for _ in range(2)] == ["order 1\n", "order 3\n"]
        deadline = time.monotonic() + 30
        while committed(broker) < 3 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert stopped(service) == ""
    assert committed(broker) == 3
    with Consumer(
        bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", include_headers=True
    ) as consumer:
        consumer.assign_topics("orders.dead")
        (letter,) = consumer.reader().read_all().to_pylist()
    assert letter["value"] == b"two"
    assert {one["key"]: one["value"] for one in letter["headers"]}["origin"] == b"orders-0:1"
