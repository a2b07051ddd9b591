"""A process that copies a topic exactly once, although each task fails once and the micro-batch is repeated.

python spark_repeats.py SINK BOOTSTRAP FOLDER COME WITH_ADAPTIVE WITHOUT_ADAPTIVE
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def failing_once(batches: Iterator[Any]) -> Iterator[Any]:
    from pyspark import TaskContext

    yield from batches
    context = TaskContext.get()
    if context is not None and context.attemptNumber() == 0:
        raise RuntimeError("on purpose")


def run(spark: Any, sink: str, servers: str, checkpoint: Path, come: str, gone: str) -> None:
    def write(batch: Any, _: int) -> None:
        shuffled = (
            batch.select("key", "value").repartition(3, "key").mapInArrow(failing_once, "key binary, value binary")
        )
        writer = shuffled.write.format(sink).option("kafka.bootstrap.servers", servers).option("topic", gone)
        writer.options(exactlyOnce="true", transactionalIdPrefix=gone).mode("append").save()

    options = {"kafka.bootstrap.servers": servers, "subscribe": come, "startingOffsets": "earliest"}
    frame = spark.readStream.format("samsarrow-python").options(**options).load()
    writer = frame.writeStream.foreachBatch(write).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def main(sink: str, servers: str, folder: str, come: str, *gone: str) -> None:
    from support.spark import QUICK, local_session

    small = {"spark_driver_memory": "700m"}
    spark = local_session(Path(folder) / "scratch", master="local[2,4]", connector=False, **small, **QUICK)
    for topic, adaptive in zip(gone, ("true", "false"), strict=True):
        spark.conf.set("spark.sql.adaptive.enabled", adaptive)
        checkpoint = Path(folder) / topic
        run(spark, sink, servers, checkpoint, come, topic)
        # Removes Spark's commit of the micro-batch. Spark then knows that it was planned, but not if it completed.
        for done in (checkpoint / "commits").iterdir():
            done.unlink()
        run(spark, sink, servers, checkpoint, come, topic)
    spark.stop()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    main(*sys.argv[1:])
