"""Streaming queries that write each record exactly once, and the records that they have written."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from samsarrow import Consumer
from support.kafka import KafkaServer
from support.streams import wait_for_markers

SINKS = ["samsarrow-python", "samsarrow-jvm"]


class Copy:
    """A query that copies one topic into another, exactly once.

    Attributes:
        come: input topic with two partitions.
        gone: output topic with two partitions.
        folder: checkpoint location.
        sink: format of the source, and also of the sink unless `run` gets another one.
        first: number of the first micro-batch with rows. It is 1 for the Python source, which begins with an empty one.
        sink_options: further options of the sink.
    """

    def __init__(self, spark: Any, kafka: KafkaServer, new_topic: Callable[..., str], folder: Path, sink: str) -> None:
        self.come, self.gone = new_topic(2), new_topic(2)
        self._spark, self._kafka, self.folder, self.sink = spark, kafka, folder, sink
        self.first = int(sink == "samsarrow-python")
        self.sink_options: dict[str, str] = {}

    def run(self, *expressions: str, where: str = "true", tasks: int = 2, sink: str | None = None) -> None:
        """Copies all new rows. If the rows have a column `topic`, it determines the output topic of each row."""
        servers = {"kafka.bootstrap.servers": self._kafka.bootstrap_servers}
        frame = self._spark.readStream.format(self.sink).options(**servers, subscribe=self.come)
        frame = frame.option("startingOffsets", "earliest").option("minPartitions", str(tasks)).load().where(where)
        frame = frame.selectExpr(*(expressions or ("key", "value")))
        writer = frame.writeStream.format(sink or self.sink).options(**servers, exactlyOnce="true", **self.sink_options)
        if "topic" not in frame.columns:
            writer = writer.option("topic", self.gone)
        query = writer.option("checkpointLocation", str(self.folder)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    @property
    def group(self) -> str:
        """Consumer group in which the driver commits its markers."""
        return f"samsarrow-spark-{json.loads((self.folder / 'metadata').read_text())['id']}"

    def forget(self, batch: int) -> None:
        """Removes Spark's commit of a micro-batch. Spark then knows that the micro-batch was planned, but not if it
        completed.
        """
        (self.folder / "commits" / str(batch)).unlink()
        (self.folder / "commits" / f".{batch}.crc").unlink(missing_ok=True)

    def values(self, isolation: str = "read_committed") -> Counter[str]:
        wait_for_markers(self._kafka.bootstrap_servers, self.gone)
        config = {"isolation.level": isolation, "auto.offset.reset": "earliest"}
        with Consumer(config, bootstrap_servers=self._kafka.bootstrap_servers) as consumer:
            consumer.assign(consumer.partitions_for(self.gone))
            return Counter(v.decode() for v in consumer.reader().read_all().column("value").to_pylist())
