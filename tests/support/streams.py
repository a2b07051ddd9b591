"""Streaming queries for tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from samsarrow import Admin, Consumer, Producer
from support.kafka import KafkaServer
from support.waiting import until

TRIGGER = {"availableNow": True}


def produce(kafka: KafkaServer, topic: str, values: Mapping[int, list[str]], **options: Any) -> None:
    """Sends text values to a topic, given by partition."""
    with Producer(bootstrap_servers=kafka.bootstrap_servers, **options) as producer:
        for partition, texts in values.items():
            for text in texts:
                producer.send(topic, text, partition=partition)


def _plain(frame: Any) -> Any:
    return frame.selectExpr("topic", "partition", "offset", "cast(value as string) value")


class Stream:
    """A streaming query over Kafka that keeps the rows of each micro-batch.

    `shape` transforms the rows of the source; `fail_in` is the number of a micro-batch that fails.

    Args:
        spark: the session.
        kafka: the broker.
        folder: folder for the checkpoint.
        format: `samsarrow-python`, `samsarrow-jvm` or `kafka`.
        **options: options of the source.
    """

    def __init__(
        self,
        spark: Any,
        kafka: KafkaServer,
        folder: Path,
        format: str = "samsarrow-python",  # noqa: A002
        **options: str,
    ) -> None:
        self.checkpoint = folder
        self.batches: dict[int, list[Any]] = {}
        self._dotted = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **options}
        self._spark = spark
        self._format = format
        self.fail_in: int | None = None
        self.shape: Callable[[Any], Any] = _plain

    def frame(self) -> Any:
        return self._spark.readStream.format(self._format).options(**self._dotted).load()

    def start(self, **trigger: Any) -> Any:
        frame = self.shape(self.frame())

        def keep(batch: Any, number: int) -> None:
            if self.fail_in == number:
                raise RuntimeError("on purpose")
            self.batches[number] = batch.collect()

        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(self.checkpoint))
        return writer.trigger(**(trigger or TRIGGER)).start()

    def drain(self, **trigger: Any) -> Any:
        """Runs the query until it has read all rows, and returns it."""
        query = self.start(**trigger)
        assert query.awaitTermination(120), "the query did not end"
        return query

    def values(self) -> list[str]:
        """Returns all values that have been read, ordered by partition and offset."""
        rows = [row for number in sorted(self.batches) for row in self.batches[number]]
        return [row.value for row in sorted(rows, key=lambda r: (r.topic, r.partition, r.offset))]

    def offsets(self) -> dict[int, dict[str, dict[str, int]]]:
        """Returns the end offsets of each micro-batch from the checkpoint."""
        return {
            int(file.name): json.loads(file.read_text().splitlines()[-1])
            for file in (self.checkpoint / "offsets").iterdir()
            if file.name.isdecimal()
        }


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Polls until `condition` returns true."""
    until(condition, None, seconds, 0.05)


def wait_for_ends(servers: str, *transactional_ids: str) -> None:
    """Waits until none of these transactions is being completed. Other transactions on the topics may stay open."""
    with Admin(bootstrap_servers=servers) as admin:
        look = lambda: [of.state for of in admin.describe_transactions(transactional_ids).values()]  # noqa: E731
        until(lambda: not any(state.startswith("Prepare") for state in look()), look)


def wait_for_markers(servers: str, topic: str) -> None:
    """Waits until no transaction on a topic is open. Kafka responds to a commit before the markers are written."""
    with (
        Consumer(bootstrap_servers=servers) as every,
        Consumer(bootstrap_servers=servers, isolation_level="read_committed") as committed,
    ):
        places = every.partitions_for(topic)
        until(
            lambda: committed.end_offsets(places) == every.end_offsets(places),
            lambda: (committed.end_offsets(places), every.end_offsets(places)),
            90,
        )
