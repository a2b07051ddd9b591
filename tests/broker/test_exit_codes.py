"""Exit codes of programs with clients. `make test-exits` runs hundreds of programs, and also uses other Python
versions.
"""

import importlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from samsarrow import Producer
from samsarrow.testing import Broker

EXITS = Path(__file__).parents[1] / "exits"
sys.path.insert(0, str(EXITS))
programs = importlib.import_module("programs")
sys.path.pop(0)

RUNS = 3


@pytest.fixture(scope="module")
def servers():
    with Broker(topics={programs.TOPIC: 4}) as broker:
        # Some of the programs wait until they have read a record.
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send(programs.TOPIC, b"v")
        yield broker.bootstrap_servers


@pytest.mark.parametrize("kind", programs.KINDS, ids=lambda kind: kind.name)
def test_exit_codes(kind, servers, tmp_path):
    texts = programs.write(tmp_path)[kind.name]
    for run in range(max(RUNS, len(texts))):
        ended = programs.end(sys.executable, kind, texts[run % len(texts)], servers, f"{kind.name}-{time.time_ns()}")
        assert ended.well, f"{texts[run % len(texts)].name} ended with {ended.code}: {ended.stderr}"


def test_exit_codes_of_spark_workers(servers):
    pytest.importorskip("pyspark")
    command = [sys.executable, str(EXITS / "spark.py"), servers, str(RUNS)]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 0, done.stderr
