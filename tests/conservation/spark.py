"""Spark interfaces: batches and streams of both implementations. All runs share one session, which the first run
starts.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from conservation.clusters import Cluster, Row, log_rows
from conservation.reading import Application, ReadInterface
from conservation.writing import WriteInterface, Writer

IMPLEMENTATIONS = ("samsarrow-python", "samsarrow-jvm")
PARTITIONS = 4
# Seconds without progress after which a run has failed: on a busy machine, a micro-batch takes seconds.
PATIENCE = 60.0
# Factor by which pauses of disturbances are longer with Spark. A fault that is removed before Spark sends its next
# request would have no effect.
PACE = 3.0
COLUMNS = "partition int, offset bigint, key binary"
# Text in the error of a stream whose topic was deleted. The stream then needs a new checkpoint.
DATA_LOSS = "failOnDataLoss"


@cache
def session() -> Any:
    """Returns the session that all runs share. Its tasks have four attempts."""
    from support.spark import QUICK, local_session

    # Lets Python workers import this module.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    spark = local_session(scratch(), master="local[2,4]", connector=False, **QUICK | {"spark_driver_memory": "1g"})
    # Hides the errors of queries, which are expected.
    spark.sparkContext.setLogLevel("OFF")
    return spark


@cache
def scratch() -> Path:
    """Returns the folder of checkpoints."""
    return Path(tempfile.mkdtemp(prefix="samsarrow-conservation-"))


def stop() -> None:
    """Stops the session if it was started."""
    if session.cache_info().currsize:
        session().stop()


def unavailable(implementation: str) -> str | None:
    """Returns the reason why an implementation cannot be run, or None."""
    if find_spec("pyspark") is None:
        return "PySpark is not installed"
    from support.spark import built_jar

    if implementation == "samsarrow-jvm" and not built_jar():
        return "the jar of samsarrow-jvm is not built: make jar"
    return None


def options(cluster: Cluster) -> dict[str, str]:
    """Returns the options that sources and sinks share."""
    return {
        "kafka.bootstrap.servers": str(cluster.options()["bootstrap_servers"]),
        "kafka.metadata.max.age.ms": "500",
        "kafka.retry.backoff.ms": "50",
    }


def source_options(cluster: Cluster) -> dict[str, str]:
    """Returns the options of a source that reads from the cluster."""
    return options(cluster) | {"kafka.default.api.timeout.ms": "20000", "fetchOffset.retryIntervalMs": "100"}


def failing_once(frame: Any, schema: str) -> Any:
    """Returns a frame whose tasks each fail once: in the first attempt, after reading all rows."""

    def fail(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        if context is not None and context.attemptNumber() == 0:
            raise RuntimeError("on purpose")

    return frame.mapInArrow(fail, schema)


def rows_of(frame: Any) -> list[Row]:
    return [Row(row.partition, row.offset, bytes(row.key).decode()) for row in frame.collect()]


class SparkReadInterface(ReadInterface):
    """An interface for reading that runs a query of Spark."""

    group = False
    spark = True
    partitions, patience, pace = PARTITIONS, PATIENCE, PACE

    def __init__(self, implementation: str) -> None:
        self.implementation = implementation
        self.name = f"Spark {self.kind}, {implementation}"

    kind: str

    def unavailable(self) -> str | None:
        return unavailable(self.implementation)

    def prepare(self) -> None:
        session()


class Batch(SparkReadInterface):
    kind = "batch"
    whole = True

    def once(self, app: Application) -> None:
        while app.going():
            expected = app.expected()
            try:
                reader = session().read.format(self.implementation).options(**source_options(app.cluster))
                frame = reader.option("subscribe", app.topic).load().select("partition", "offset", "key")
                rows = rows_of(failing_once(frame, COLUMNS) if app.fails_tasks else frame)
            except Exception as error:
                app.failed(error)
                continue
            app.passes.append((expected, {row.id for row in rows}))
            app.replace(rows)


class Stream(SparkReadInterface):
    """A stream that keeps rows by micro-batch like an idempotent sink: a repeated micro-batch replaces its rows."""

    kind = "stream"
    checkpointed = True

    def run(self, app: Application) -> None:
        self._batches: dict[tuple[int, int], list[Row]] = {}
        self._checkpoint = 0
        super().run(app)

    def once(self, app: Application) -> None:
        folder = scratch() / f"{app.topic}-{self._checkpoint}"
        reader = session().readStream.format(self.implementation).options(**source_options(app.cluster))
        frame = reader.option("subscribe", app.topic).option("startingOffsets", "earliest").load()
        query = None
        try:
            writer = self._writer(app, frame).option("checkpointLocation", str(folder))
            app.consumer = query = writer.trigger(processingTime="200 milliseconds").start()
            while app.going() and query.isActive:
                query.awaitTermination(0.2)
                self._progress(app)
            if (error := query.exception()) is not None:
                raise error
        except Exception as failure:
            app.failed(failure)
            if DATA_LOSS in str(failure):
                self._checkpoint += 1
        finally:
            app.consumer = None
            if query is not None:
                query.stop()
            self._progress(app)
        if app.restart.is_set():
            forget_commit(folder)

    def _writer(self, app: Application, frame: Any) -> Any:
        checkpoint = self._checkpoint

        def take(batch: Any, number: int) -> None:
            self._batches[checkpoint, number] = rows_of(batch)
            app.replace([row for rows in list(self._batches.values()) for row in rows])

        selected = frame.select("partition", "offset", "key")
        return (failing_once(selected, COLUMNS) if app.fails_tasks else selected).writeStream.foreachBatch(take)

    def _progress(self, app: Application) -> None:
        """Records the rows that have arrived in the other topic."""


class ExactlyOnce(Stream):
    """A stream that writes to another topic. The rows in that topic count as returned."""

    kind = "exactly once"
    dead = "-copy"
    writes = True

    def _writer(self, app: Application, frame: Any) -> Any:
        # Makes the session active in this thread, because Spark looks for Python sinks of streams in the active
        # session.
        session().createDataFrame([], COLUMNS)
        selected = frame.select("key", "value")
        if app.fails_tasks:
            selected = failing_once(selected, "key binary, value binary")
        writer = selected.writeStream.format(self.implementation).options(**options(app.cluster))
        return writer.option("topic", f"{app.topic}{self.dead}").option("exactlyOnce", "true")

    def _progress(self, app: Application) -> None:
        # Leaves out the positions, so that two copies of a row are equal.
        app.replace([Row(-1, -1, row.id) for row in log_rows(app.cluster, f"{app.topic}{self.dead}")])


def forget_commit(checkpoint: Path) -> None:
    """Removes the commit of the last micro-batch, so that Spark repeats it as if the driver had been killed before."""
    offsets, commits = (
        [int(path.name) for path in (checkpoint / name).glob("[0-9]*")] for name in ("offsets", "commits")
    )
    if commits and max(commits) == max(offsets):
        (checkpoint / "commits" / f".{max(commits)}.crc").unlink(missing_ok=True)
        (checkpoint / "commits" / str(max(commits))).unlink()


class SparkWrite(WriteInterface):
    """A batch write with at-least-once delivery: rows of repeated tasks are written again."""

    spark = True
    at_least_once = True
    partitions, patience, pace = PARTITIONS, PATIENCE, PACE

    def __init__(self, implementation: str) -> None:
        self.implementation = implementation
        self.name = f"Spark write, {implementation}"

    def unavailable(self) -> str | None:
        return unavailable(self.implementation)

    def prepare(self) -> None:
        session()

    def once(self, app: Writer) -> None:
        while app.going():
            rows = app.give(self.rows)
            try:
                frame = session().createDataFrame(
                    [(row.encode(), app.value) for row in rows], "key binary, value binary"
                )
                frame = frame.repartition(2)
                if app.fails_tasks:
                    frame = failing_once(frame, "key binary, value binary")
                writer = frame.write.format(self.implementation).options(**options(app.cluster))
                writer.option("topic", app.topic).mode("append").save()
            except Exception as error:
                app.failed(rows, error)
            else:
                app.acknowledged.update(rows)
            time.sleep(0.02)


SPARK_READING: tuple[ReadInterface, ...] = tuple(
    kind(implementation) for kind in (Batch, Stream, ExactlyOnce) for implementation in IMPLEMENTATIONS
)
SPARK_WRITING: tuple[WriteInterface, ...] = tuple(SparkWrite(implementation) for implementation in IMPLEMENTATIONS)
