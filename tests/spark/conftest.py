"""One Spark session for all Spark tests, on two threads of this machine."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pyspark_sql = pytest.importorskip("pyspark.sql", reason="PySpark is not installed")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator["pyspark_sql.SparkSession"]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    scratch: Path = tmp_path_factory.mktemp("spark")
    session = (
        pyspark_sql.SparkSession.builder.master("local[2]")
        .appName("samsarrow tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(scratch / "warehouse"))
        .config("spark.local.dir", str(scratch / "local"))
        .getOrCreate()
    )
    yield session
    session.stop()
