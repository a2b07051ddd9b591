"""Where a task is in a query that writes exactly once."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext

from samsarrow.exceptions import KafkaError


@dataclass(frozen=True)
class Place:
    """Where a task is in a query: the same for every attempt of a micro-batch.

    Attributes:
        query: its id, which its checkpoint keeps.
        batch: number of the micro-batch.
        task: number of the task.
    """

    query: str
    batch: int
    task: int

    @classmethod
    def here(cls) -> Place:
        """That of the task that runs here.

        Raises:
            KafkaError: Spark does not say, so nothing could be written exactly once.
        """
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        if context is None or not query or batch is None:
            raise KafkaError(
                "exactlyOnce needs a streaming query, or foreachBatch in one: Spark does not provide the query's id "
                "and the number of the micro-batch here. Nothing was written"
            )
        return cls(query, int(batch), context.partitionId())


@dataclass(frozen=True)
class Attempt:
    """What became of one attempt of a task.

    Attributes:
        place: of the task.
        topic: where its note is; None for a task without rows.
        repeated: whether an attempt before had written its rows.
    """

    place: Place
    topic: str | None = None
    repeated: bool = False
