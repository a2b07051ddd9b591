"""Spark's own Kafka connector and ours, on one broker and in one session; every result is checked.

    python benches/spark/bench.py [--records 2000000] [--rounds 3] [--only noop,count]

Printed are seconds, records a second and the ratio to the connector. `prebuilt` is a Python source that yields one
prebuilt batch again and again: what Spark's way from Python to rows takes at best, whatever is behind it.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

import pyarrow as pa  # noqa: E402
from pyspark.sql.datasource import DataSource, DataSourceReader  # noqa: E402

from samsarrow import Admin, Consumer, NewTopic, Producer  # noqa: E402
from support.kafka import KafkaServer  # noqa: E402
from support.spark import local_session  # noqa: E402

VALUE_BYTES = 100
PARTITIONS = 2
FLOORS = {"noop": 1.5, "count": 1.5, "sum": 1.5, "two columns": 1.8, "mapInArrow": 1.0, "sink": 1.5}


class Prebuilt(DataSource):
    """Yields a batch of the source's schema until there are as many rows as wanted."""

    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> Any:
        from samsarrow.spark.schema import spark_schema

        return spark_schema(self._columns())

    def _columns(self) -> tuple[str, ...]:
        from samsarrow.spark.schema import COLUMNS

        return tuple(self.options["columns"].split(",")) if "columns" in self.options else COLUMNS[:-1]

    def reader(self, schema: Any) -> DataSourceReader:
        return PrebuiltReader(self._columns(), int(self.options["rows"]) // PARTITIONS)


class PrebuiltReader(DataSourceReader):
    def __init__(self, columns: tuple[str, ...], rows: int) -> None:
        self._columns, self._rows = columns, rows

    def partitions(self) -> Any:
        from pyspark.sql.datasource import InputPartition

        return [InputPartition(p) for p in range(PARTITIONS)]

    def read(self, partition: Any) -> Iterator[pa.RecordBatch]:
        from samsarrow.spark.schema import arrow_schema

        n = 8_000
        full = {
            "key": pa.array([None] * n, pa.binary()),
            "value": pa.array([b"%0100d" % i for i in range(n)], pa.binary()),
            "topic": pa.repeat(pa.scalar("bench-plain"), n),
            "partition": pa.repeat(pa.scalar(0, pa.int32()), n),
            "offset": pa.array(range(n), pa.int64()),
            "timestamp": pa.array([0] * n, pa.int64()).cast(pa.timestamp("us", "UTC")),
            "timestampType": pa.repeat(pa.scalar(0, pa.int32()), n),
        }
        schema = arrow_schema(self._columns)
        batch = pa.RecordBatch.from_arrays([full[name] for name in self._columns], schema=schema)
        left = self._rows
        while left > 0:
            yield batch.slice(0, min(n, left))
            left -= n


def fill(servers: str, records: int) -> None:
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(f"bench-{codec}", PARTITIONS, 1) for codec in ("plain", "lz4")])
    values = pa.table({"value": pa.array([b'{"id":%093d}' % i for i in range(records)], pa.binary())})
    for codec in ("none", "lz4"):
        topic = "bench-plain" if codec == "none" else "bench-lz4"
        with Producer(bootstrap_servers=servers, compression_type=codec, batch_size=131_072) as producer:
            producer.send_batch(topic, values).result(120)


def count_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"n": pa.array([rows], pa.int64())})


class Bench:
    def __init__(self, spark: Any, servers: str, records: int, rounds: int) -> None:
        self.spark, self.servers, self.records, self.rounds = spark, servers, records, rounds
        self.missed: list[str] = []

    def frame(self, source: str, codec: str, **options: str) -> Any:
        reader = self.spark.read.format(source)
        if source == "prebuilt":
            return reader.options(rows=str(self.records), **options).load()
        given = {"kafka.bootstrap.servers": self.servers, "subscribe": f"bench-{codec}"}
        return reader.options(**given, **options).load()

    def best(self, run: Callable[[], object]) -> float:
        times = []
        for _ in range(self.rounds):
            start = time.perf_counter()
            run()
            times.append(time.perf_counter() - start)
        return min(times)

    def compare(self, case: str, runs: dict[str, Callable[[], object]]) -> None:
        for run in runs.values():
            run()
        seconds = {source: self.best(run) for source, run in runs.items()}
        connector = seconds["kafka"]
        for source, took in seconds.items():
            rate = self.records / took / 1e6
            print(f"{case:22} {source:10} {took:7.2f} s {rate:6.2f} M records/s {connector / took:6.2f} x", flush=True)
        name = case.split(",")[0]
        ours, wall = seconds["samsarrow"], seconds.get("prebuilt")
        reached = connector / ours >= FLOORS[name]
        at_the_wall = wall is not None and wall / ours >= 0.85
        if not reached and not at_the_wall:
            self.missed.append(f"{case}: {connector / ours:.2f} x, {FLOORS[name]} x is wanted")
        if wall is not None:
            print(f"{'':22} {wall / ours:.0%} of what Spark's path from Python allows", flush=True)

    def reads(self, only: set[str]) -> None:
        n = self.records
        size = n * VALUE_BYTES

        def equal(found: Any, wanted: Any) -> None:
            assert found == wanted, f"{found} instead of {wanted}"

        def noop(source: str, codec: str) -> None:
            self.frame(source, codec).write.format("noop").mode("overwrite").save()

        def total(source: str, codec: str) -> None:
            found = self.frame(source, codec).selectExpr("sum(length(value)) s").collect()[0].s
            equal(found, size if source != "prebuilt" else n * 100)

        def two(source: str, codec: str) -> None:
            columns = {} if source == "kafka" else {"columns": "value,offset"}
            frame = self.frame(source, codec, **columns).select("value", "offset")
            frame.write.format("noop").mode("overwrite").save()

        def arrow(source: str, codec: str) -> None:
            frame = self.frame(source, codec).select("value", "offset").mapInArrow(count_batches, "n bigint")
            equal(frame.selectExpr("sum(n) n").collect()[0].n, n)

        cases: dict[str, Callable[[str, str], None]] = {
            "noop": noop,
            "count": lambda source, codec: equal(self.frame(source, codec).count(), n),
            "sum": total,
            "two columns": two,
            "mapInArrow": arrow,
        }
        for codec in ("plain", "lz4"):
            for case, run in cases.items():
                if not only or case in only:
                    sources = ("kafka", "samsarrow", "prebuilt")
                    self.compare(
                        f"{case}, {codec}", {s: lambda s=s, run=run, codec=codec: run(s, codec) for s in sources}
                    )

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

        self.compare("sink", {s: lambda s=s: write(s) for s in ("kafka", "samsarrow")})

    def stream(self, folder: Path) -> None:
        """What a small micro-batch takes."""
        took = {}
        rows = min(20_000, self.records // 25)
        for source in ("kafka", "samsarrow"):
            options = {
                "kafka.bootstrap.servers": self.servers,
                "subscribe": "bench-plain",
                "startingOffsets": "earliest",
            }
            frame = self.spark.readStream.format(source).options(**options, maxOffsetsPerTrigger=str(rows)).load()
            query = frame.writeStream.format("noop").option("checkpointLocation", str(folder / source)).start()
            try:
                while query.lastProgress is None or query.lastProgress["batchId"] < 20:
                    if query.exception() is not None:
                        raise query.exception()
                    time.sleep(0.2)
            finally:
                query.stop()
            counted = query.recentProgress[5:20]
            times = [p["durationMs"]["triggerExecution"] for p in counted]
            # Shares of two partitions are rounded down.
            assert all(rows - PARTITIONS <= p["numInputRows"] <= rows for p in counted), [
                p["numInputRows"] for p in counted
            ]
            took[source] = statistics.median(times)
            print(f"{f'micro-batch of {rows:,}':22} {source:10} {took[source]:7.0f} ms", flush=True)
        if took["samsarrow"] > took["kafka"] + 100:
            self.missed.append(
                f"micro-batch: {took['samsarrow']:.0f} ms, the connector's {took['kafka']:.0f} + 100 wanted"
            )


def python_cpu() -> float:
    """Seconds of CPU of all Python workers below this process, dead ones that were waited for included."""
    parents, used = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            fields = text.rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            name = text[text.index("(") + 1 : text.rindex(")")]
            used[int(entry.name)] = sum(map(int, fields[11:15])) if name.startswith("python") else 0
    total = 0
    for pid, ticks in used.items():
        above = pid
        while above in parents and above not in (0, os.getpid()):
            above = parents[above]
        if above == os.getpid() and pid != above:
            total += ticks
    return total / os.sysconf("SC_CLK_TCK")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--records", type=int, default=2_000_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--only", default="")
    given = arguments.parse_args()
    only = set(filter(None, given.only.split(",")))
    with tempfile.TemporaryDirectory() as folder, KafkaServer() as kafka:
        fill(kafka.bootstrap_servers, given.records)
        spark = local_session(Path(folder))
        spark.dataSource.register(Prebuilt)
        bench = Bench(spark, kafka.bootstrap_servers, given.records, given.rounds)
        everything = bench.frame("samsarrow", "plain").write.format("noop").mode("overwrite")
        everything.save()
        before, start = python_cpu(), time.perf_counter()
        for _ in range(given.rounds):
            everything.save()
        share = (python_cpu() - before) / (2 * (time.perf_counter() - start))
        print(f"{'Python workers':22} {share:.0%} of the time of both tasks is their CPU", flush=True)
        bench.reads(only)
        if not only or "sink" in only:
            bench.sink()
        if not only or "stream" in only:
            bench.stream(Path(folder))
        spark.stop()
    print("floors missed: " + "; ".join(bench.missed) if bench.missed else "all floors hold")
    sys.exit(1 if bench.missed else 0)


if __name__ == "__main__":
    main()
