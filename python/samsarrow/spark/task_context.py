"""Identity of a task in a query that writes exactly once."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark import TaskContext

from samsarrow import _core


@dataclass(frozen=True)
class TaskId:
    """Identity of a task, which is the same in every attempt of a micro-batch.

    Attributes:
        query: id of the query, which is stored in its checkpoint.
        batch: number of the micro-batch.
        task: number of the task.
    """

    query: str
    batch: int
    task: int

    @classmethod
    def current(cls) -> TaskId:
        """Returns the identity of the running task.

        Raises:
            ConfigurationError: Spark does not provide the identity, so the task cannot write exactly once.
        """
        context = TaskContext.get()
        query = context.getLocalProperty("sql.streaming.queryId") if context else None
        batch = context.getLocalProperty("streaming.sql.batchId") if context else None
        task = context.partitionId() if context else 0
        # Rejects missing properties.
        _core.SparkAttempt(query, batch, task, None, None)
        return cls(str(query), int(str(batch)), task)


@dataclass(frozen=True)
class Attempt:
    """Outcome of one attempt of a task.

    Attributes:
        task_id: identity of the task.
        topic: topic of the marker's offset; None for a task without rows.
        repeated: whether an earlier attempt has written the rows, so that this attempt skipped them.
    """

    task_id: TaskId
    topic: str | None = None
    repeated: bool = False
