"""Tests the source and the sink with a version of PySpark. A Python with this PySpark runs the program.

    python spark_smoke.py                      everything against the embedded broker
    python spark_smoke.py --batches            batches only, against each broker listed on standard input

Prints a line of JSON per outcome: `{"feature": ..., "error": null or text}`.
"""

import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from samsarrow import Producer
from samsarrow.spark import check_session
from samsarrow.testing import Broker, Registry

JSON_SCHEMA = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}, "city": {"type": "string"}}})
PROTO = 'syntax = "proto3"; message Order { int64 id = 1; optional string city = 2; }'
FORMATS: dict[str, dict[str, str]] = {
    "avro": {},
    "json": {"value.schema": JSON_SCHEMA},
    "protobuf": {"value.schema": PROTO},
}
SCRATCH = Path(tempfile.mkdtemp(prefix="samsarrow-spark-"))
OUT = os.fdopen(os.dup(1), "w")


def session(**more: str) -> SparkSession:
    """Starts a small local session, with additional settings."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(SCRATCH / "warehouse"),
        "spark.local.dir": str(SCRATCH / "local"),
        "spark.ui.showConsoleProgress": "false",
        **more,
    }
    builder = SparkSession.builder.master("local[2]").appName("samsarrow matrix")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")
    return spark


def equal(actual: object, expected: object) -> None:
    if actual != expected:
        raise AssertionError(f"found {actual!r:.300}, expected {expected!r:.300}")


def ran_to_its_end(frame: Any, name: str, function: Callable[[Any, int], None], **trigger: Any) -> None:
    """Runs a finite streaming query; the function receives each micro-batch."""
    query = (
        frame.writeStream.foreachBatch(function)
        .option("checkpointLocation", str(SCRATCH / name))
        .trigger(**trigger)
        .start()
    )
    try:
        if not query.awaitTermination(90):
            raise AssertionError(f"the query {name} runs on")
    finally:
        query.stop()


def orders(spark: SparkSession, count: int = 30) -> Any:
    """Returns structs as values, with their numbers as keys. Some structs are null or have a null field."""
    value = "if(id % 7 = 6, null, named_struct('id', id, 'city', if(id % 5 = 4, null, concat('city ', id))))"
    return spark.range(count).selectExpr("id as key", f"{value} as value")


def formatted(registry: Registry, kind: str) -> dict[str, str]:
    """Returns options for reading and writing that format."""
    return {"key.format": "long", "value.format": kind, "schema.registry.url": registry.url, **FORMATS[kind]}


class Smoke:
    """The features, as methods that raise on failure."""

    def __init__(self, spark: SparkSession, servers: str) -> None:
        self.spark, self.servers = spark, servers

    def rows(self, count: int = 50) -> Any:
        return self.spark.range(count).selectExpr("cast(id as string) as key", "cast(id * 2 as string) as value")

    def loaded(self, reader: Any, topic: str, **options: str) -> Any:
        reader = reader.format("samsarrow").option("kafka.bootstrap.servers", self.servers).option("subscribe", topic)
        frame = reader.option("startingOffsets", "earliest").options(**options).load()
        return frame.selectExpr("cast(key as string) as key", "cast(value as string) as value")

    def write(self, topic: str) -> None:
        self.rows().write.format("samsarrow").option("kafka.bootstrap.servers", self.servers).option(
            "topic", topic
        ).mode("append").save()

    def content(self, topic: str) -> list[tuple[str, str]]:
        return sorted((r.key, r.value) for r in self.loaded(self.spark.read, topic).collect())

    def batch(self, topic: str = "batch") -> None:
        """Writes rows, reads them back, and compares them."""
        with Producer(bootstrap_servers=self.servers) as producer:
            producer.partitions_for(topic)
        self.write(topic)
        equal(self.content(topic), sorted((r.key, r.value) for r in self.rows().collect()))

    def filter(self) -> None:
        """A predicate on offsets returns the same rows as Spark's own filter."""
        frame = self.spark.read.format("samsarrow").option("kafka.bootstrap.servers", self.servers)
        frame = frame.option("subscribe", "batch").load().where("offset >= 3 and offset < 7")
        equal({r.offset for r in frame.collect()}, {3, 4, 5, 6})

    def _query(self, frame: Any, name: str, **trigger: Any) -> list[int]:
        """Runs a finite query, and returns the number of rows of each micro-batch."""
        sizes: list[int] = []
        ran_to_its_end(frame, name, lambda batch, number: sizes.append(batch.count()), **trigger)
        return [size for size in sizes if size]

    def stream_read(self) -> None:
        # On Spark 4.2 and later, the first micro-batch of a new query is empty (ADR 61): the second run reads the rows.
        frame = self.loaded(self.spark.readStream, "batch")
        equal(sum(self._query(frame, "once", once=True) + self._query(frame, "once", once=True)), 50)

    def available_now(self) -> None:
        frame = self.loaded(self.spark.readStream, "batch")
        equal(sum(self._query(frame, "now", availableNow=True)), 50)

    def limited(self) -> None:
        frame = self.loaded(self.spark.readStream, "batch", maxOffsetsPerTrigger="20")
        sizes = self._query(frame, "limited", availableNow=True)
        equal(sum(sizes), 50)
        equal(max(sizes) <= 20, True)

    def stream_write(self) -> None:
        query = (
            self.loaded(self.spark.readStream, "batch")
            .writeStream.format("samsarrow")
            .option("kafka.bootstrap.servers", self.servers)
            .option("topic", "copy")
            .option("checkpointLocation", str(SCRATCH / "copy"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            equal(query.awaitTermination(90), True)
        finally:
            query.stop()
        equal(self.content("copy"), self.content("batch"))

    def typed(self) -> None:
        """Writes and reads each value format, in batches and streams; also reads a single field."""
        expected = sorted(map(repr, orders(self.spark).collect()))
        with Registry() as registry:
            for kind in FORMATS:
                options = {"kafka.bootstrap.servers": self.servers, **formatted(registry, kind)}
                topic = f"typed-{kind}"
                orders(self.spark).write.format("samsarrow").options(**options, topic=topic).mode("append").save()
                read = {**options, "subscribe": topic, "startingOffsets": "earliest"}
                frame = self.spark.read.format("samsarrow").options(**read).load()
                equal(sorted(map(repr, frame.select("key", "value").collect())), expected)
                some = self.spark.read.format("samsarrow").options(**read, **{"value.fields": "city"}).load()
                equal(some.where("value.city is not null").count(), sum("city " in row for row in expected))
                stream = self.spark.readStream.format("samsarrow").options(**read).load().select("key", "value")
                actual: list[str] = []
                ran_to_its_end(
                    stream, topic, lambda batch, _, to=actual: to.extend(map(repr, batch.collect())), availableNow=True
                )
                equal(sorted(actual), expected)


FEATURES = ("batch", "filter", "stream_read", "available_now", "limited", "stream_write", "typed")


def report(feature: str, step: Callable[[], None]) -> None:
    """Runs a step and prints its outcome."""
    error = None
    try:
        step()
    except Exception as failure:
        # Extracts the errors from the worker's traceback.
        lines = [line.strip() for line in str(failure).splitlines() if "Error:" in line] or [str(failure)]
        error = f"{type(failure).__name__}: {' / '.join(lines)}"
        traceback.print_exc()
    OUT.write(json.dumps({"feature": feature, "error": error}) + "\n")
    OUT.flush()


def addresses() -> Iterator[str]:
    for line in sys.stdin:
        yield line.strip()


def main(*arguments: str) -> None:
    spark = session()
    try:
        check_session(spark)
        if arguments == ("--batches",):
            for number, servers in enumerate(addresses()):
                report("spark", lambda n=number, s=servers: Smoke(spark, s).batch(f"spark-{n}"))
            return
        with Broker(topics={"batch": 1, "copy": 1, **{f"typed-{kind}": 1 for kind in FORMATS}}) as broker:
            smoke = Smoke(spark, broker.bootstrap_servers)
            for feature in FEATURES:
                report(feature, getattr(smoke, feature))
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
