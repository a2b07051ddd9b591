"""A program that reads and writes Kafka with Spark in several processes: a standalone cluster or a Connect server.

    python spark_places.py MASTER BOOTSTRAP REGISTRY COME GONE TYPED FLIGHTS FOLDER

MASTER is `spark://host:port` or `connect`. Copies COME into GONE, writes Avro into TYPED
and reads it, runs examples/spark/flights_by_window.py on FLIGHTS, and prints its results as JSON.
"""

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa


def count_by_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the number of rows, and the parent process of the Python worker, which identifies the executor."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()], "rows": [rows]})


def session(master: str, folder: Path) -> Any:
    if master == "connect":
        from pyspark.sql import SparkSession

        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
        builder = builder.config("spark.ui.enabled", "false").config(
            "spark.sql.warehouse.dir", str(folder / "warehouse")
        )
        return builder.config("spark.local.dir", str(folder / "local")).getOrCreate()
    from support.spark import local_session

    small = {"spark_executor_memory": "512m", "spark_executor_cores": "1", "spark_driver_memory": "1g"}
    # Spark waits until both executors are registered before it runs the first task.
    both = {"spark_cores_max": "2", "spark_scheduler_minRegisteredResourcesRatio": "1"}
    return local_session(folder, master=master, connector=False, **small, **both)


def typed(spark: Any, servers: str, registry: str, topic: str) -> list[list[Any]]:
    """Writes rows as Avro with a schema that the driver registers, then reads them and returns them."""
    options = {"kafka.bootstrap.servers": servers, "schema.registry.url": registry}
    options |= {"key.format": "long", "value.format": "avro"}
    rows = spark.range(100).selectExpr("id AS key", "named_struct('id', id, 'city', concat('city ', id)) AS value")
    rows.write.format("samsarrow-python").options(**options, topic=topic).mode("append").save()
    found = spark.read.format("samsarrow-python").options(**options, subscribe=topic).load()
    return sorted(list(row) for row in found.selectExpr("key", "value.id", "value.city").collect())


def by_hour(spark: Any, servers: str, topic: str, folder: str) -> list[list[Any]]:
    """Runs the example and returns its output."""
    path = Path(__file__).resolve().parent.parent.parent / "examples" / "spark" / "flights_by_window.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    example.run(spark, servers, topic, folder)
    rows = spark.read.parquet(folder).orderBy("start", "carrier").collect()
    return [[row.start.hour, row.carrier, row.flights] for row in rows]


def main(master: str, servers: str, registry: str, come: str, gone: str, avro: str, flights: str, folder: str) -> None:
    spark = session(master, Path(folder))
    bootstrap = {"kafka.bootstrap.servers": servers}
    batch = spark.read.format("samsarrow-python").options(**bootstrap, subscribe=come).load()
    seen = batch.select("value").mapInArrow(count_by_executor, "daemon long, rows long").collect()
    options = {**bootstrap, "subscribe": come, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "500"}
    options |= {"commitOffsets": "true", "kafka.group.id": f"group-of-{come}"}
    stream = spark.readStream.format("samsarrow-python").options(**options).load().select("key", "value")
    writer = stream.writeStream.format("samsarrow-python").options(**bootstrap, topic=gone, exactlyOnce="true")
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    ended = query.awaitTermination(120)
    results = {
        "rows": sum(row["rows"] for row in seen),
        "executors": len({row["daemon"] for row in seen}),
        "ended": ended,
        "batches": len(query.recentProgress),
        "typed": typed(spark, servers, registry, avro),
        "flights": by_hour(spark, servers, flights, f"{folder}/flights"),
    }
    sys.stdout.write(json.dumps(results) + "\n")
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main(*sys.argv[1:])
