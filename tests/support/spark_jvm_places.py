"""A program that copies a topic in Spark's JVM. Spark runs in several processes, and the executors have no Python.

    python -m support.spark_jvm_places MASTER API JAR FOLDER < settings.json

MASTER is a Spark master. API is `classic`, or `connect` for a Connect server on that master. JAR determines how the jar
is added: `setting` (with spark.jars) or `added` (to the running session). The settings are `conf`, of the session;
`options`, of sources and sinks; `come`, the input topic; `gone`, the output topics of a batch query and a streaming
query; and `typed`, the options for a topic with formats of keys and values. Prints its results as JSON.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from samsarrow.spark import add_jar, jar
from support.spark import QUICK

FORMAT = "samsarrow-jvm"
MORE = 100
NO_PYTHON = "/no/python"


def session(master: str, api: str, come: str, folder: Path, conf: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = NO_PYTHON
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    (folder / "events").mkdir(parents=True)
    # The driver's process starts workers, which write into the folder `work` below SPARK_HOME.
    (home := folder / "home").mkdir()
    for path in Path(pyspark.__file__).parent.iterdir():
        (home / path.name).symlink_to(path)
    os.environ["SPARK_HOME"] = str(home)
    settings = {
        "spark.api.mode": api,
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": QUICK["spark_driver_extraJavaOptions"],
        "spark.executor.extraJavaOptions": QUICK["spark_driver_extraJavaOptions"],
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        # Spark waits until both executors are registered, so that the first plan uses them as preferred locations.
        "spark.cores.max": "2",
        "spark.scheduler.minRegisteredResourcesRatio": "1",
        "spark.locality.wait": "60s",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        **conf,
    }
    if come == "setting":
        settings["spark.jars"] = jar()
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if come == "added":
        add_jar(spark)
    return spark


def failure(run: Any) -> str:
    """Returns the text of the error that `run` raises, or an empty text if it succeeds."""
    try:
        run()
    except (PySparkException, Py4JJavaError) as error:
        return str(error)
    return ""


def python(spark: Any) -> Any:
    """Calls a Python function with one row on an executor."""
    from pyspark.sql.functions import udf

    return spark.range(1).select(udf(lambda n: n, "long")("id")).collect()


def typed(spark: Any, read: dict[str, str]) -> list[Any]:
    """Returns aggregates of columns that the executors decoded, for a batch query and a streaming query."""
    results = []
    for name, reader in (("batch", spark.read), ("stream", spark.readStream)):
        frame = reader.format(FORMAT).options(**read, startingOffsets="earliest").load()
        frame = frame.selectExpr("count(*)", "sum(key)", "sum(value.id)", "max(value.city)")
        if name == "stream":
            writer = frame.writeStream.format("memory").queryName("typed").outputMode("complete")
            assert writer.trigger(availableNow=True).start().awaitTermination(120)
            frame = spark.table("typed")
        results += [list(row) for row in frame.collect()]
    return results


def streamed(spark: Any, read: dict[str, str], write: dict[str, str], folder: Path) -> int:
    """Copies the rows that are not in the checkpoint yet. Returns the number of micro-batches with rows."""
    source = spark.readStream.format(FORMAT).options(**read, startingOffsets="earliest", maxOffsetsPerTrigger="500")
    sink = source.load().select("key", "value").writeStream.format(FORMAT).options(**write)
    query = sink.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return sum(any(source.numInputRows for source in progress.sources) for progress in query.recentProgress)


def main(master: str, api: str, come: str, folder: Path) -> dict[str, Any]:
    settings = json.load(sys.stdin)
    spark = session(master, api, come, folder, settings["conf"])
    read = settings["options"] | {"subscribe": settings["come"]}
    batch = spark.read.format(FORMAT).options(**read).load()
    [sums] = batch.selectExpr("count(*) AS rows", "sum(CAST(CAST(value AS STRING) AS INT)) AS sum").collect()
    first, second = (settings["options"] | {"topic": topic} for topic in settings["gone"])
    batch.select("key", "value").write.format(FORMAT).options(**first).mode("append").save()
    batches = streamed(spark, read, second, folder)
    more = spark.range(sums["rows"], sums["rows"] + MORE).selectExpr("CAST(id AS STRING) AS value")
    more.write.format(FORMAT).options(**settings["options"], topic=settings["come"]).mode("append").save()
    results = {
        **sums.asDict(),
        "batches": batches,
        "again": streamed(spark, read, second, folder),
        "typed": typed(spark, settings["options"] | settings["typed"]),
        "python": failure(lambda: python(spark)),
    }
    spark.stop()
    return results


if __name__ == "__main__":
    master, api, come, folder = sys.argv[1:]
    sys.stdout.write(json.dumps(main(master, api, come, Path(folder))) + "\n")
