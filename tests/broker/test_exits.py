"""Programs end with the exit code that they should; `make test-exits` runs hundreds, on other Pythons too."""

import importlib
import sys
import time
from pathlib import Path

import pytest

from samsarrow.testing import Broker

sys.path.insert(0, str(Path(__file__).parents[1] / "exits"))
programs = importlib.import_module("programs")
sys.path.pop(0)

RUNS = 3


@pytest.fixture(scope="module")
def servers():
    with Broker(topics={programs.TOPIC: 4}) as broker:
        yield broker.bootstrap_servers


@pytest.mark.parametrize("kind", programs.KINDS, ids=lambda kind: kind.name)
def test_programs_end_as_they_should(kind, servers, tmp_path):
    texts = programs.write(tmp_path)[kind.name]
    for run in range(max(RUNS, len(texts))):
        ended = programs.end(sys.executable, kind, texts[run % len(texts)], servers, f"{kind.name}-{time.time_ns()}")
        assert ended.well, f"{texts[run % len(texts)].name} ended with {ended.code}: {ended.stderr}"
