"""A program that copies topics of a secured cluster with Spark in several processes.

    python spark_secured.py MASTER FOLDER < settings.json

MASTER is `spark://host:port` or `connect`. The settings are `format`, of source and sink; `conf`, of the session;
`files`, which Spark distributes to its tasks; and `copies`, pairs of the options of a source and of a sink. For each
copy, the program prints the number of rows and the number of executors as JSON.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from support.spark import built_jar, local_session


# Functions that executors run must be defined in this file, since executors cannot import from this folder.
def count_by_executor(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the number of rows, and the parent process of the Python worker, which identifies the executor."""
    rows = sum(batch.num_rows for batch in batches)
    yield pa.RecordBatch.from_pydict({"daemon": [os.getppid()], "rows": [rows]})


def session(master: str, folder: Path, conf: dict[str, str]) -> Any:
    if master != "connect":
        small = {"spark_executor_memory": "512m", "spark_executor_cores": "1", "spark_driver_memory": "1g"}
        # Spark waits until both executors are registered before it runs the first task.
        small |= {"spark_cores_max": "2", "spark_scheduler_minRegisteredResourcesRatio": "1"}
        settings_by_keyword = {name.replace(".", "_"): value for name, value in conf.items()}
        return local_session(folder, master=master, connector=False, **small, **settings_by_keyword)
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {"spark.sql.shuffle.partitions": "2", "spark.ui.enabled": "false"}
    settings |= {"spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.local.dir": str(folder / "local")}
    settings["spark.jars"] = ",".join(built_jar())
    builder = SparkSession.builder.remote("local[2]")
    for name, value in (settings | conf).items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def main(master: str, folder: str) -> None:
    settings = json.load(sys.stdin)
    spark = session(master, Path(folder), settings["conf"])
    for file in settings["files"]:
        if master == "connect":
            spark.addArtifacts(file, file=True)
        else:
            spark.sparkContext.addFile(file)
    results, name = [], settings["format"]
    for number, (read, write) in enumerate(settings["copies"]):
        batch = spark.read.format(name).options(**read).load()
        seen = batch.select("value").mapInArrow(count_by_executor, "daemon long, rows long").collect()
        # The calling test searches the output for the password.
        for mode in ("simple", "extended", "codegen", "cost", "formatted"):
            batch.explain(mode=mode)
        batch.select("key", "value").write.format(name).options(**write).mode("append").save()
        stream = spark.readStream.format(name).options(**read, startingOffsets="earliest").load()
        sink = stream.select("key", "value").writeStream.format(name).options(**write)
        query = sink.option("checkpointLocation", f"{folder}/checkpoint{number}").trigger(availableNow=True).start()
        assert query.awaitTermination(120)
        rows, executors = sum(row["rows"] for row in seen), len({row["daemon"] for row in seen})
        results.append({"rows": rows, "executors": executors})
    sys.stdout.write(json.dumps(results) + "\n")
    sys.stdout.flush()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
