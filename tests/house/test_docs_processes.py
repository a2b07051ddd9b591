"""docs/processes.md: programs with threads, processes and servers."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from samsarrow import Consumer
from samsarrow.testing import Broker
from support.fences import BROKER, ROOT, fences, run, topics_of

PAGE = ROOT / "docs" / "processes.md"
PROGRAMS = [one.text for one in fences(PAGE) if one.language == "python"]
SERVERS = {"gunicorn": "environ, start_response", "celery": "from celery", "gevent": "from gevent"}
ALONE = [text for text in PROGRAMS if not any(mark in text for mark in SERVERS.values())]
PRINTED = ["100 orders sent", "1000 orders processed", "1000 orders sent", "1000 orders read"]
# A stub of Celery, which calls the handlers that the page connects to signals.
CELERY = """
class Celery:
    def __init__(self, name, broker): ...
    def task(self, function): return function
"""
SIGNALS = """
class Signal:
    def connect(self, function):
        self.send = function
        return function
worker_process_init, worker_process_shutdown = Signal(), Signal()
"""


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=topics_of(PAGE.read_text())) as running:
        yield running


def program(server: str, broker: Broker) -> str:
    (found,) = [text for text in PROGRAMS if SERVERS[server] in text]
    return found.replace(BROKER, broker.bootstrap_servers)


def values(broker: Broker) -> list[bytes]:
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign_topics("orders")
        return sorted(consumer.reader().read_all()["value"].to_pylist())


@pytest.mark.parametrize(("text", "printed"), list(zip(ALONE, PRINTED, strict=True)), ids=PRINTED)
def test_threads_and_processes(text: str, printed: str, broker: Broker, tmp_path: Path) -> None:
    assert run(text, tmp_path, broker=broker.bootstrap_servers).strip() == printed


def test_each_worker_of_gunicorn_has_its_own_producer(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(program("gunicorn", broker))
    # The parent has used its producer before the fork, as a preloaded application may.
    server = """
import os, sys
from app import app
def request(path):
    return b"".join(app({"PATH_INFO": path}, lambda status, headers: None))
request("/parent")
if (child := os.fork()) == 0:
    request("/child")
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
request("/parent-again")
"""
    subprocess.run([sys.executable, "-c", server], check=True, timeout=60, cwd=tmp_path)
    assert values(broker) == [b"child", b"parent", b"parent-again"]


def test_tasks_of_celery_send_and_close(broker: Broker, tmp_path: Path) -> None:
    (tmp_path / "celery").mkdir()
    (tmp_path / "celery" / "__init__.py").write_text(CELERY)
    (tmp_path / "celery" / "signals.py").write_text(SIGNALS)
    (tmp_path / "tasks.py").write_text(program("celery", broker))
    # Celery ends its processes by `os._exit`.
    worker = """
import os, tasks
from celery.signals import worker_process_init, worker_process_shutdown
if (child := os.fork()) == 0:
    worker_process_init.send(sender=None)
    tasks.store("waited")
    tasks.producer.send("orders", "queued")
    worker_process_shutdown.send(sender=None)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    subprocess.run([sys.executable, "-c", worker], check=True, timeout=60, cwd=tmp_path, env=environment)
    assert values(broker) == [b"queued", b"waited"]


def test_greenlets(broker: Broker, tmp_path: Path) -> None:
    pytest.importorskip("gevent", reason="gevent is not installed")
    assert run(program("gevent", broker), tmp_path, broker=broker.bootstrap_servers) == "100 orders sent\n"
