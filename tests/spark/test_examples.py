"""The pipelines of examples/spark, run unmodified."""

import datetime
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from samsarrow import Consumer, Producer
from samsarrow.spark import jar
from samsarrow.testing import Broker
from support.flights import BY_HOUR, CARRIERS, NOON, send_flights
from support.kafka import KafkaServer
from support.slow import WHOLE
from support.streams import wait_for_markers
from support.waiting import until

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "spark"


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Functions for tasks are pickled by value, because workers cannot import the file.
    from pyspark import cloudpickle

    sys.modules[name] = module
    spec.loader.exec_module(module)
    cloudpickle.register_pickle_by_value(module)
    return module


@pytest.fixture
def flights(kafka: KafkaServer, new_topic: Callable[..., str]) -> str:
    topic = new_topic(2)
    send_flights(kafka.bootstrap_servers, topic)
    return topic


def test_flights_by_window(spark: Any, kafka: KafkaServer, flights: str, tmp_path: Path) -> None:
    folder = str(tmp_path / "hours")
    example("flights_by_window").run(spark, kafka.bootstrap_servers, flights, folder)
    rows = spark.read.parquet(folder).orderBy("start", "carrier").collect()
    assert [[row.start.hour, row.carrier, row.flights] for row in rows] == BY_HOUR
    assert all(row.delay == pytest.approx(4.5) for row in rows)


def test_word_count(spark: Any, kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path) -> None:
    come, gone = new_topic(2), new_topic(2)
    expected: dict[str, int] = {}
    for sentences in (["To be, or not to be", "that is the question"], ["to sleep, perchance to dream"]):
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for sentence in sentences:
                producer.send(come, sentence)
                for word in sentence.replace(",", "").lower().split():
                    expected[word] = expected.get(word, 0) + 1
        example("word_count").run(spark, kafka.bootstrap_servers, come, gone, str(tmp_path / "checkpoint"))
    wait_for_markers(kafka.bootstrap_servers, gone)
    config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with Consumer(config, bootstrap_servers=kafka.bootstrap_servers) as consumer:
        consumer.assign(consumer.partitions_for(gone))
        rows = consumer.reader().read_all().sort_by("offset").to_pylist()
    assert {row["key"].decode(): int(row["value"]) for row in rows} == expected
    assert sum(row["key"] == b"to" for row in rows) == 2


def test_typed_columns(spark: Any, kafka: KafkaServer, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for value in ('{"sensor":"a","celsius":21.5,"at":"2024-05-06T12:00:00Z"}', "{not json", '{"sensor":"b"}'):
            producer.send(topic, value)
    good, broken = example("typed_columns").readings(spark, kafka.bootstrap_servers, topic)
    assert good.schema.simpleString() == (
        "struct<partition:int,offset:bigint,sensor:string,celsius:double,at:timestamp>"
    )
    assert sorted((r.offset, r.sensor, r.celsius) for r in good.collect()) == [(0, "a", 21.5), (2, "b", None)]
    assert [(r.offset, r.broken) for r in broken.collect()] == [(1, "{not json")]


def test_backfill(spark: Any, kafka: KafkaServer, flights: str) -> None:
    start = NOON + datetime.timedelta(minutes=30)
    end = NOON + datetime.timedelta(minutes=90)
    frame = example("backfill").records(spark, kafka.bootstrap_servers, flights, start, end)
    result = sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())
    assert result == [(p, offset) for p in (0, 1) for offset in range(15, 45)]


def test_polars_in_tasks(spark: Any, kafka: KafkaServer, flights: str) -> None:
    pytest.importorskip("polars", reason="the example needs Polars")
    frame = example("polars_in_tasks").delay_by_carrier(spark, kafka.bootstrap_servers, flights)
    assert sorted((row.carrier, row.flights, row.delay) for row in frame.collect()) == [
        (carrier, 100, 4.5) for carrier in sorted(CARRIERS)
    ]


def test_delays_with_state(spark: Any, kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf", reason="Spark's state in Python needs protobuf")
    come, gone = new_topic(1), new_topic(1)
    try:
        for delays in ([5.0, 30.0, 20.0], [10.0], [45.0]):
            with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
                for delay in delays:
                    producer.send(come, json.dumps({"carrier": "UA", "arr_delay": delay}))
            example("delays_with_state").run(spark, kafka.bootstrap_servers, come, gone, str(tmp_path / "checkpoint"))
    finally:
        spark.conf.unset("spark.sql.streaming.stateStore.providerClass")
    wait_for_markers(kafka.bootstrap_servers, gone)
    config = {"isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    with Consumer(config, bootstrap_servers=kafka.bootstrap_servers) as consumer:
        consumer.assign(consumer.partitions_for(gone))
        rows = consumer.reader().read_all().sort_by("offset").to_pylist()
    # The second run has no longer delay, and the third continues with the state of the first two.
    expected = [{"flights": 3, "longest": 30.0}, {"flights": 5, "longest": 45.0}]
    assert [(row["key"], json.loads(row["value"])) for row in rows] == [(b"UA", value) for value in expected]


def test_alerts_in_real_time(
    built: None, spark: Any, kafka: KafkaServer, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    come, gone = new_topic(1), new_topic(1)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for delay in (10.0, 70.0, 50.0, 90.0):
            producer.send(come, json.dumps({"carrier": "UA", "arr_delay": delay}))
    query = example("alerts_in_real_time").start(
        spark, kafka.bootstrap_servers, come, gone, str(tmp_path / "checkpoint")
    )
    late: list[float] = []
    try:
        with Consumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([(gone, 0)])

            def both() -> bool:
                values = consumer.poll(0.1).column("value").to_pylist()
                late.extend(json.loads(value)["arr_delay"] for value in values)
                return len(late) >= 2 or query.exception() is not None

            until(both)
    finally:
        query.stop()
    assert query.exception() is None
    assert late == [70.0, 90.0]


@WHOLE
@pytest.mark.timeout(600)
def test_pipeline(built: None, tmp_path: Path) -> None:
    """Spark 4.1 and later run declarative pipelines with the command `spark-pipelines`, through Spark Connect."""
    pytest.importorskip("pyspark.pipelines", reason="PySpark has no declarative pipelines")
    folder = shutil.copytree(EXAMPLES / "pipeline", tmp_path / "pipeline")
    delays = [float(number * 20) for number in range(10)]
    with Broker(topics={"flights": 2, "delays": 1}) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for delay in delays:
                producer.send("flights", json.dumps({"carrier": "UA", "arr_delay": delay}))
        spec = folder / "spark-pipeline.yml"
        text = spec.read_text().replace("localhost:9092", broker.bootstrap_servers)
        spec.write_text(text.replace("/tmp/flights-pipeline", str(tmp_path / "storage")))
        command = [str(Path(sys.executable).with_name("spark-pipelines")), "run", "--jars", jar()]
        env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=540, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "is the Python source" not in done.stdout + done.stderr
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(consumer.partitions_for("delays"))
            rows = consumer.reader().read_all().to_pylist()
    assert sorted(json.loads(row["value"])["arr_delay"] for row in rows) == [delay for delay in delays if delay > 60]
    assert {row["key"] for row in rows} == {b"UA"}
