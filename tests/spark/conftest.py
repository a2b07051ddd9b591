"""One Spark session for all Spark tests, on two threads of this machine."""

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.kafka import KafkaServer, KafkaUnavailableError

pyspark_sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")


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


@pytest.fixture
def load(spark: Any, kafka: KafkaServer) -> Callable[..., Any]:
    """A batch read: `load(subscribe="t")`."""

    def read(format: str = "samsarrow", **options: str) -> Any:  # noqa: A002
        dotted = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **options}
        return spark.read.format(format).options(**dotted).load()

    return read


@pytest.fixture(scope="session")
def topics(kafka: KafkaServer) -> Any:
    """The topics that reads through both sources are compared on."""
    from support.parity import Topics

    return Topics(kafka)
