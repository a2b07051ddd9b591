"""A program that resolves format names in one Spark session, first without the jar and then with it.

    python -m support.spark_names FOLDER BOOTSTRAP COME GONE

Prints as JSON the source that reads COME by each name before and after the jar is added, and the rows per micro-batch
of a query that was started without the jar and continued with it.
"""

import json
import sys
from pathlib import Path
from typing import Any

from samsarrow.spark import add_jar
from support.spark import QUICK, local_session

NAMES = ("samsarrow", "samsarrow-python", "samsarrow-jvm")


def reader(frame: Any) -> str:
    """Returns the kind of source from which the plan reads: `jvm` or `python`."""
    plan = frame._jdf.queryExecution().executedPlan().toString()
    return "jvm" if "samsarrow-jvm" in plan else "python" if "Python" in plan else plan


def source_of(spark: Any, options: dict[str, str], name: str) -> str:
    try:
        frame = spark.read.format(name).options(**options).load()
        return f"{reader(frame)} {frame.count()}"
    except Exception as error:
        return str(error)


def copy(spark: Any, options: dict[str, str], gone: dict[str, str], folder: Path) -> list[int]:
    frame = spark.readStream.format("samsarrow").options(**options, startingOffsets="earliest").load()
    writer = frame.select("key", "value").writeStream.format("samsarrow").options(**gone, exactlyOnce="true")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]


def main(folder: Path, servers: str, come: str, gone: str) -> dict[str, Any]:
    spark = local_session(folder, connector=False, native=False, spark_driver_memory="700m", **QUICK)
    dotted = {"kafka.bootstrap.servers": servers}
    read, write = dotted | {"subscribe": come}, dotted | {"topic": gone}
    more = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    results: dict[str, Any] = {}
    for when in ("without", "with"):
        if when == "with":
            add_jar(spark)
        results[when] = {name: source_of(spark, read, name) for name in NAMES}
        results[f"copied {when}"] = copy(spark, read, write, folder)
        more.write.format("samsarrow").options(**dotted, topic=come).mode("append").save()
    results["copied again"] = copy(spark, read, write, folder)
    spark.stop()
    return results


if __name__ == "__main__":
    folder, servers, come, gone = sys.argv[1:]
    sys.stdout.write(json.dumps(main(Path(folder), servers, come, gone)) + "\n")
