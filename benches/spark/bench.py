"""Compares Spark's own Kafka connector with ours, on one broker and in one session; every result is checked.

    python benches/spark/bench.py [--records 2000000] [--rounds 5] [--only noop,count,sink,values,stream,first]

Prints medians with their spread, records per second, the ratio to the connector, and microseconds of CPU per record of
the JVM, of Python's workers and of the broker. `prebuilt` is a Python source that repeatedly yields a prebuilt batch,
`vectors` a source in the JVM that yields a batch of Spark's own vectors: upper limits for any source.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tests")]

import prebuilt  # noqa: E402
import shapes  # noqa: E402
import vectors  # noqa: E402
from clock import Clock  # noqa: E402
from pyspark import cloudpickle  # noqa: E402
from shapes import JVM, KAFKA, PARTITIONS, PREBUILT, PYTHON, SHAPES, VECTORS, Shape  # noqa: E402

import values  # noqa: E402
from samsarrow import Admin, Consumer, NewTopic  # noqa: E402
from samsarrow.testing import Registry  # noqa: E402
from support.kafka import KafkaServer  # noqa: E402
from support.spark import local_session  # noqa: E402

SINK_FLOORS = {PYTHON: 1.5, JVM: 3.0}
# The Python source may miss its floor if its rate is at least AT_THE_LIMIT times the rate of prebuilt batches. The rate
# of the source in the JVM must be at least OF_VECTORS times the rate of vectors.
AT_THE_LIMIT = 0.85
OF_VECTORS = 0.6
STREAM_BATCHES = 40
# Number of micro-batches that are not measured, because the first ones compile code.
STREAM_WARM = 10


class Bench:
    """Compares sources, prints the results, and collects missed floors."""

    def __init__(self, spark: Any, servers: str, records: int, clock: Clock) -> None:
        self.spark, self.servers, self.records, self.clock = spark, servers, records, clock
        self.missed: list[str] = []

    def reader(self, source: str, topic: str) -> Callable[..., Any]:
        """Returns a reader of a topic that selects the given columns, or all."""
        options = {"kafka.bootstrap.servers": self.servers, "subscribe": f"bench-{topic}"}
        if source in (PREBUILT, VECTORS):
            options = {"rows": str(self.records)}

        def read(*columns: str) -> Any:
            # Sources in Python select columns by an option, because Spark does not prune columns of these sources.
            named = {"columns": ",".join(columns)} if columns and source in (PYTHON, PREBUILT) else {}
            frame = self.spark.read.format(source).options(**options, **named).load()
            return frame.select(*columns) if columns else frame

        return read

    def shape(self, name: str, shape: Shape, topic: str) -> None:
        sources = (KAFKA, PYTHON, JVM, *shape.limits)
        records = self.records // 5 if topic == "large" else self.records
        runs = {source: lambda s=source: shape.run(self.reader(s, topic), records) for source in sources}
        self.compare(f"{name}, {topic}", runs, records, {PYTHON: shape.python, JVM: shape.jvm})

    def compare(self, case: str, runs: dict[str, Callable[[], object]], records: int, floors: dict[str, float]) -> None:
        taken = self.clock.by_turns(runs)
        connector, limit = taken[KAFKA].median, taken[PREBUILT].median if PREBUILT in taken else None
        for source, took in taken.items():
            ratio, cpu = connector / took.median, [spent / len(took.seconds) / records * 1e6 for spent in took.cpu]
            rate = records / took.median / 1e6
            print(
                f"{case:22} {source:16} {took.median:7.3f} s ±{took.spread:4.0%} {rate:6.2f} M/s {ratio:6.2f} x  "
                f"CPU {cpu[0]:5.2f} {cpu[1]:5.2f} {cpu[2]:5.2f} µs",
                flush=True,
            )
            at_the_limit = source == PYTHON and limit is not None and limit / took.median >= AT_THE_LIMIT
            if ratio < floors.get(source, 0) and not at_the_limit:
                self.missed.append(f"{case}, {source}: {ratio:.2f} x, {floors[source]} x is wanted")
        if VECTORS in taken:
            share = taken[VECTORS].median / taken[JVM].median
            print(f"{'':22} {share:.0%} of what Spark does with vectors that are there", flush=True)
            if share < OF_VECTORS:
                self.missed.append(f"{case}, {JVM}: {share:.0%} of vectors, {OF_VECTORS:.0%} is wanted")

    def sink(self) -> None:
        numbers = iter(range(1_000))
        frame = self.spark.range(self.records, numPartitions=2).selectExpr("lpad(id, 100, '0') value").cache()
        assert frame.count() == self.records

        def write(source: str) -> None:
            topic = f"sink-{next(numbers)}"
            with Admin(bootstrap_servers=self.servers) as admin:
                admin.create_topics([NewTopic(topic, PARTITIONS, 1)])
                writer = frame.write.format(source).option("kafka.bootstrap.servers", self.servers).mode("append")
                writer.option("topic", topic).save()
                with Consumer(bootstrap_servers=self.servers) as consumer:
                    assert sum(consumer.end_offsets(consumer.partitions_for(topic)).values()) == self.records
                admin.delete_topics([topic])

        runs = {source: lambda s=source: write(s) for source in (KAFKA, PYTHON, JVM)}
        self.compare("sink", runs, self.records, SINK_FLOORS)
        frame.unpersist()

    def stream(self, folder: Path) -> None:
        """Measures complete triggers of small micro-batches."""
        took: dict[str, tuple[float, float]] = {}
        rows = min(20_000, self.records // (STREAM_BATCHES + 5))
        for source in (KAFKA, PYTHON, JVM, PREBUILT):
            options = {
                "kafka.bootstrap.servers": self.servers,
                "subscribe": "bench-plain",
                "startingOffsets": "earliest",
            }
            frame = self.spark.readStream.format(source).options(**options, maxOffsetsPerTrigger=str(rows)).load()
            query = frame.writeStream.format("noop").option("checkpointLocation", str(folder / source)).start()
            try:
                while query.lastProgress is None or query.lastProgress["batchId"] < STREAM_BATCHES:
                    if query.exception() is not None:
                        raise query.exception()
                    time.sleep(0.2)
            finally:
                query.stop()
            counted = query.recentProgress[STREAM_WARM:STREAM_BATCHES]
            times = [p["durationMs"]["triggerExecution"] for p in counted]
            # The rows per trigger are divided by two partitions and rounded down.
            assert all(rows - PARTITIONS <= p["numInputRows"] <= rows for p in counted), [
                p["numInputRows"] for p in counted
            ]
            took[source] = statistics.median(times), statistics.quantiles(times, n=100, method="inclusive")[98]
            middle, late = took[source]
            print(f"{f'micro-batch of {rows:,}':22} {source:16} p50 {middle:5.0f} ms  p99 {late:5.0f} ms", flush=True)
        (middle, late), ours = took[KAFKA], took[JVM]
        if took[PYTHON][0] > middle + 100:
            self.missed.append(f"micro-batch, {PYTHON}: {took[PYTHON][0]:.0f} ms, {middle:.0f} + 100 is wanted")
        if ours[0] > middle or ours[1] > 1.1 * late:
            expected = f"p50 {middle:.0f}, p99 1.1 x {late:.0f}"
            self.missed.append(f"micro-batch, {JVM}: p50 {ours[0]:.0f}, p99 {ours[1]:.0f} ms, {expected} is wanted")

    def values(self) -> None:
        """Compares decoding of Avro and JSON into columns."""
        records = self.records // 2
        with Registry() as registry:
            values.fill(self.servers, registry.url, records)
            for form, floor in values.FLOORS.items():
                runs = values.runs(self.spark, self.servers, registry.url, form, records)
                self.compare(f"values, {form}", runs, records, {PYTHON: floor, JVM: floor})

    def first(self, rounds: int) -> None:
        """Measures the first query of a session, each time in a new session."""
        took: dict[str, list[float]] = {source: [] for source in (KAFKA, PYTHON, JVM, PREBUILT)}
        # The first round writes bytecode, and is not measured.
        for measured in (False, *[True] * rounds):
            for source, seconds in took.items():
                program = [sys.executable, str(HERE / "first.py"), source, self.servers, str(self.records)]
                done = subprocess.run(program, capture_output=True, text=True, check=True, timeout=300)
                if measured:
                    seconds.append(float(done.stdout.split()[-1]))
        medians = {source: statistics.median(seconds) for source, seconds in took.items()}
        for source, seconds in medians.items():
            print(f"{'first query':22} {source:16} {seconds:7.3f} s {medians[KAFKA] / seconds:6.2f} x", flush=True)
        if medians[JVM] > medians[KAFKA]:
            self.missed.append(f"first query, {JVM}: {medians[JVM]:.2f} s, {medians[KAFKA]:.2f} is wanted")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--records", type=int, default=2_000_000)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--only", default="")
    parsed = arguments.parse_args()
    only = set(filter(None, parsed.only.split(",")))
    for module in (prebuilt, shapes):
        cloudpickle.register_pickle_by_value(module)
    with tempfile.TemporaryDirectory() as folder, KafkaServer() as kafka:
        # Python processes load bytecode, as after an installation with pip. Otherwise each new worker compiles pyarrow,
        # numpy and samsarrow, which takes longer than anything else that it does.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")
        shapes.fill(kafka.bootstrap_servers, parsed.records)
        spark = local_session(Path(folder), spark_ui_showConsoleProgress="false")
        spark.dataSource.register(prebuilt.Prebuilt)
        spark.sql(f"ADD JAR '{vectors.jar(Path(folder))}'")
        clock = Clock(parsed.rounds, int(spark._jvm.java.lang.ProcessHandle.current().pid()), kafka.pid)
        bench = Bench(spark, kafka.bootstrap_servers, parsed.records, clock)
        for name, shape in SHAPES.items():
            for topic in shape.topics if not only or name in only else ():
                bench.shape(name, shape, topic)
        if not only or "sink" in only:
            bench.sink()
        if not only or "values" in only:
            bench.values()
        if not only or "stream" in only:
            bench.stream(Path(folder))
        print(f"the most memory that Spark's JVM had: {clock.peak():,} MiB", flush=True)
        spark.stop()
        if not only or "first" in only:
            bench.first(min(parsed.rounds, 3))
    print("floors missed:\n  " + "\n  ".join(bench.missed) if bench.missed else "all floors hold")
    sys.exit(1 if bench.missed else 0)


if __name__ == "__main__":
    main()
