"""Fixtures of the tests of engines."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import samsarrow
from samsarrow import ranges
from support.engines import ENGINES, PLANNED, READS, Pipeline, Read, need, started_ray


@pytest.fixture(scope="session")
def ray_session() -> Iterator[None]:
    need("ray")
    yield from started_ray()


@pytest.fixture(params=PLANNED)
def read(request: pytest.FixtureRequest) -> Read:
    """A function that reads a plan with an engine."""
    need(request.param)
    if request.param == "ray":
        request.getfixturevalue("ray_session")
    return READS[request.param]


@pytest.fixture(params=ENGINES)
def read_topic(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., pa.Table]:
    """A function that reads a topic with an engine: `read_topic(servers, topic, splits=4)`."""
    need(request.param)
    if request.param == "ray":
        request.getfixturevalue("ray_session")

    def planned(servers: str, topic: str, **arguments: object) -> pa.Table:
        plan = ranges.plan(topic, bootstrap_servers=servers, **arguments)  # type: ignore[arg-type]
        return READS[request.param](plan)

    def loaded(servers: str, topic: str, splits: int | None = None, **arguments: object) -> pa.Table:
        pipeline = Pipeline(tmp_path)
        pipeline.run(samsarrow.dlt.topic(topic, bootstrap_servers=servers, name="rows", **arguments))  # type: ignore[arg-type]
        return pipeline.table()

    return loaded if request.param == "dlt" else planned
