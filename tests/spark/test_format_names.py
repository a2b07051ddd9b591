"""Resolution of format names: `samsarrow` means the JVM source if the jar is loaded, otherwise the Python source."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samsarrow import Producer
from samsarrow.testing import Broker
from support.kafka import SUPPORT, KafkaServer

NewTopicName = Callable[..., str]


@pytest.fixture
def topic(kafka: KafkaServer, new_topic: NewTopicName) -> str:
    name = new_topic(2)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number in range(10):
            producer.send(name, str(number))
    return name


def plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_jar_registers_the_name(built: None, spark: Any, kafka: KafkaServer, topic: str) -> None:
    options = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic}
    for name, words in (("samsarrow", "samsarrow-jvm"), ("SamsArrow", "samsarrow-jvm"), ("samsarrow-python", "Python")):
        frame = spark.read.format(name).options(**options).load()
        assert words in plan(frame), name
        assert frame.count() == 10


def test_sql_resolves_the_name(built: None, spark: Any, kafka: KafkaServer, topic: str) -> None:
    options = f"`kafka.bootstrap.servers` '{kafka.bootstrap_servers}', subscribe '{topic}'"
    spark.sql(f"CREATE OR REPLACE TEMP VIEW named USING samsarrow OPTIONS ({options})")
    frame = spark.sql("SELECT value FROM named WHERE offset >= 0")
    assert "samsarrow-jvm" in plan(frame)
    assert frame.count() == 10


def test_sql_tables(built: None, spark: Any, broker: Broker) -> None:
    """Spark passes the options of a table to sources in the JVM, but not to sources in Python."""
    broker.create_topic("table")
    options = f"`kafka.bootstrap.servers` '{broker.bootstrap_servers}', subscribe 'table', topic 'table'"
    for name in ("samsarrow-jvm", "samsarrow-python"):
        table = name.replace("-", "_")
        spark.sql(f"CREATE TABLE {table} USING `{name}` OPTIONS ({options})")
        try:
            if name == "samsarrow-python":
                with pytest.raises(Exception, match=r"no option is set.*CREATE TEMPORARY VIEW"):
                    spark.sql(f"SELECT value FROM {table}").collect()
                continue
            # Inserts each row with its own statement, because two tasks may write the rows of a single statement in
            # either order.
            for value in ("a", "b"):
                spark.sql(f"INSERT INTO {table} (value) VALUES (cast('{value}' AS BINARY))")
            values = spark.sql(f"SELECT cast(value AS STRING) FROM {table} WHERE offset > 0")
            assert [row.value for row in values.collect()] == ["b"]
            # Options of a read override those of the table.
            one = spark.sql(f'SELECT * FROM {table} WITH (endingOffsets = \'{{"table":{{"0":1}}}}\')')
            assert one.count() == 1
        finally:
            spark.sql(f"DROP TABLE {table}")


@pytest.mark.timeout(400)
def test_query_continues_after_jar_is_added(
    built: None, kafka: KafkaServer, topic: str, new_topic: NewTopicName, tmp_path: Path
) -> None:
    gone = new_topic(2)
    program = [sys.executable, "-m", "support.spark_names", str(tmp_path), kafka.bootstrap_servers, topic, gone]
    done = subprocess.run(program, cwd=SUPPORT.parent, capture_output=True, text=True, timeout=360, check=False)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout.splitlines()[-1])
    without, with_jar = output["without"], output["with"]
    assert "samsarrow-jvm" in without.pop("samsarrow-jvm"), "the name is not found"
    assert without == {"samsarrow": "python 10", "samsarrow-python": "python 10"}
    assert with_jar == {"samsarrow": "jvm 20", "samsarrow-python": "python 20", "samsarrow-jvm": "jvm 20"}
    assert [output[f"copied {when}"] for when in ("without", "with", "again")] == [[10], [10], [10]]
