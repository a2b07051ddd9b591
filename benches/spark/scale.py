"""The source in Spark's JVM with many partitions, on a cluster of two workers with a core each.

    python benches/spark/scale.py [--records 100000000] [--partitions 100] [--planned 5000]

Records have 100 bytes and are compressed with lz4. Prints the rates with many partitions and with two partitions, the
memory of each executor beyond its heap, which has a fixed size and is touched at the start, and the time to plan a
topic with thousands of partitions.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tests")]

import pyarrow as pa  # noqa: E402
from shapes import JVM, VALUE_BYTES, equal  # noqa: E402

from samsarrow import Admin, NewTopic, Producer  # noqa: E402
from samsarrow.testing import Broker  # noqa: E402
from support.kafka import KafkaServer  # noqa: E402
from support.spark import built_jar  # noqa: E402
from support.spark_cluster import standalone  # noqa: E402

HEAP = "512m"
CHUNK = 1_000_000
ROUNDS = 3
LEAST_RATE = 0.8
MOST_NATIVE = 300
MOST_PLANNING = 0.3


def fill(servers: str, partitions: int, records: int) -> str:
    topic = f"scale-{partitions}"
    values = pa.table({"value": pa.array([b'{"id":%093d}' % i for i in range(CHUNK)], pa.binary())})
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(topic, partitions, 1)])
    with Producer(bootstrap_servers=servers, compression_type="lz4") as producer:
        # Fills one partition at a time, so that batches are as full as those of a busy topic.
        for chunk in range(records // CHUNK):
            spread = pa.array([(chunk + 37 * (i // 5_000)) % partitions for i in range(CHUNK)], pa.int32())
            producer.send_batch(topic, values.append_column("to", spread), partition="to").result(300)
    return topic


def session(master: str, folder: Path) -> Any:
    from pyspark.sql import SparkSession

    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {
        "spark.jars": ",".join(built_jar()),
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": HEAP,
        "spark.executor.cores": "1",
        "spark.executor.extraJavaOptions": f"-Xms{HEAP} -XX:+AlwaysPreTouch -XX:+UseSerialGC",
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    builder = SparkSession.builder.master(master).appName("scale")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def resident() -> dict[int, int]:
    """Returns the resident MiB of each executor."""
    results = {}
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                status = (entry / "status").read_text()
                lines = [line for line in status.splitlines() if line.startswith("VmRSS")]
                # Counts only the process `java`, because the script that starts an executor has the same arguments.
                if lines and (entry / "comm").read_text() == "java\n":
                    results[int(entry.name)] = int(lines[0].split()[1]) // 1024
        except OSError:
            continue
    return results


class Scale:
    def __init__(self, spark: Any, servers: str) -> None:
        self.spark, self.servers = spark, servers
        self.missed: list[str] = []

    def frame(self, topic: str, servers: str | None = None) -> Any:
        options = {"kafka.bootstrap.servers": servers or self.servers, "subscribe": topic}
        return self.spark.read.format(JVM).options(**options).load()

    def rate(self, topic: str, records: int) -> float:
        seconds = []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            result = self.frame(topic).selectExpr("count(value) n", "sum(length(value)) s").collect()[0]
            seconds.append(time.perf_counter() - start)
            equal(tuple(result), (records, records * VALUE_BYTES))
        rate = records / statistics.median(seconds) / 1e6
        print(f"{topic:12} {records:13,} records {rate:6.2f} M records/s", flush=True)
        return rate

    def planned(self, partitions: int) -> None:
        with Broker(topics={"planned": partitions}) as broker:
            seconds = []
            for _ in range(ROUNDS + 1):
                start = time.perf_counter()
                frame = self.frame("planned", broker.bootstrap_servers)
                # Only plans the query: the partitions are empty, so it has no tasks.
                frame.rdd.getNumPartitions()
                seconds.append(time.perf_counter() - start)
        took = statistics.median(seconds[1:])
        print(
            f"planning {partitions:,} partitions: {took * 1000:.0f} ms, the first {seconds[0] * 1000:.0f}", flush=True
        )
        if took > MOST_PLANNING:
            self.missed.append(f"planning: {took * 1000:.0f} ms, {MOST_PLANNING * 1000:.0f} is wanted")


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--records", type=int, default=100_000_000)
    arguments.add_argument("--partitions", type=int, default=100)
    arguments.add_argument("--planned", type=int, default=5_000)
    parsed = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder, KafkaServer() as kafka, standalone(Path(folder)) as master:
        few = max(parsed.records // 10 // CHUNK, 2) * CHUNK
        many = parsed.records // CHUNK * CHUNK
        topics = [fill(kafka.bootstrap_servers, *sizes) for sizes in ((2, few), (parsed.partitions, many))]
        spark = session(master, Path(folder))
        scale = Scale(spark, kafka.bootstrap_servers)
        spark.range(10_000_000, numPartitions=2).selectExpr("sum(id)").collect()
        heap = resident()
        two = scale.rate(topics[0], few)
        share = scale.rate(topics[1], many) / two
        native = {pid: now - heap[pid] for pid, now in resident().items()}
        print(f"many partitions: {share:.2f} of the rate of two; executors beside their heap: {native} MiB", flush=True)
        scale.planned(parsed.planned)
        spark.stop()
    if share < LEAST_RATE:
        scale.missed.append(f"{parsed.partitions} partitions: {share:.2f} of the rate of two, {LEAST_RATE} is wanted")
    if max(native.values()) > MOST_NATIVE:
        scale.missed.append(f"an executor took {max(native.values())} MiB beside its heap, {MOST_NATIVE} is wanted")
    print("floors missed:\n  " + "\n  ".join(scale.missed) if scale.missed else "all floors hold")
    sys.exit(1 if scale.missed else 0)


if __name__ == "__main__":
    main()
