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
    """Reruns, at most twice, tests that fail because a Python worker did not start within Spark's limit."""
    from support.spark import STALLED

    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.flaky(reruns=2, only_rerun=STALLED))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["pyspark_sql.SparkSession"]:
    from support.spark import QUICK, local_session, set_aws_profile

    # Environment variables of the JVM are those at its start.
    set_aws_profile(tmp_path_factory.mktemp("aws") / "credentials")
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
    """Builds the jar that tests of `samsarrow-jvm` need."""
    from support.spark import need_jar

    need_jar()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """Starts a cluster of two workers and returns its address."""
    from support.spark_cluster import standalone

    with standalone(tmp_path) as address:
        yield address


@pytest.fixture
def load(spark: Any, kafka: KafkaServer) -> Callable[..., Any]:
    """Returns a function for batch reads: `load(subscribe="t")`."""

    def read(format: str = "samsarrow-python", **options: str) -> Any:  # noqa: A002
        dotted = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **options}
        return spark.read.format(format).options(**dotted).load()

    return read


@pytest.fixture(scope="session")
def topics(kafka: KafkaServer) -> Any:
    """Topics on which the sources are compared."""
    from support.parity import Topics

    return Topics(kafka)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """An embedded broker, for tests that need no Kafka."""
    with Broker() as embedded:
        yield embedded


@pytest.fixture
def jvm(built: None, spark: Any, broker: Broker) -> Callable[..., Any]:
    """Returns a function for batch reads of the embedded broker in the JVM: `jvm(subscribe="t")`."""

    def read(**options: str) -> Any:
        dotted = {"kafka.bootstrap.servers": broker.bootstrap_servers, **options}
        return spark.read.format("samsarrow-jvm").options(**dotted).load()

    return read
