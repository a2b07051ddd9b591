"""One Spark session for all Spark tests, on two threads of this machine."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from samsarrow.testing import Broker
from support.kafka import KafkaServer, KafkaUnavailableError

HERE = Path(__file__).parent
pyspark_sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Has tests run again, at most twice, that fail as a worker did not start in Spark's time."""
    from support.spark import STALLED

    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=STALLED))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["pyspark_sql.SparkSession"]:
    from support.spark import QUICK, local_session

    try:
        session = local_session(tmp_path_factory.mktemp("spark"), **QUICK)
    except KafkaUnavailableError as reason:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(reason))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def built() -> None:
    """For tests of `samsarrow-jvm`, whose jar takes a build of its own."""
    from support.spark import need_jar

    need_jar()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The address of a cluster of two workers."""
    from support.spark_cluster import standalone

    with standalone(tmp_path) as address:
        yield address


@pytest.fixture
def load(spark: Any, kafka: KafkaServer) -> Callable[..., Any]:
    """A batch read: `load(subscribe="t")`."""

    def read(format: str = "samsarrow-python", **options: str) -> Any:  # noqa: A002
        dotted = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **options}
        return spark.read.format(format).options(**dotted).load()

    return read


@pytest.fixture(scope="session")
def topics(kafka: KafkaServer) -> Any:
    """The topics that reads through both sources are compared on."""
    from support.parity import Topics

    return Topics(kafka)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """An embedded broker, for what needs no Kafka."""
    with Broker() as embedded:
        yield embedded


@pytest.fixture
def jvm(built: None, spark: Any, broker: Broker) -> Callable[..., Any]:
    """A batch read of the embedded broker by the JVM: `jvm(subscribe="t")`."""

    def read(**options: str) -> Any:
        dotted = {"kafka.bootstrap.servers": broker.bootstrap_servers, **options}
        return spark.read.format("samsarrow-jvm").options(**dotted).load()

    return read
