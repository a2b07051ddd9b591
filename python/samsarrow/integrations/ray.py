"""Source and sink of Ray Data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from itertools import chain
from typing import Any, Literal

import pyarrow as pa

from samsarrow.integrations import check_parallel_write, check_plan
from samsarrow.integrations.parts import Condition, Part
from samsarrow.integrations.pushdown import matching
from samsarrow.ranges import Plan, Split
from samsarrow.tables import write
from samsarrow.types import TopicPartition, check_topic
from samsarrow.values.decode import Format

try:
    from ray.data import DataContext
    from ray.data.block import BlockAccessor, BlockMetadata
    from ray.data.datasource import Datasink, Datasource, ReadTask
except ImportError:
    raise ImportError("samsarrow.ray needs Ray Data 2.60 or later: pip install 'ray[data]>=2.60'") from None

__all__ = ["Topic", "TopicSink"]


class Topic(Datasource):  # type: ignore[misc]
    """Rows of a plan for `ray.data.read_datasource`. Each split is a read task.

        plan = samsarrow.ranges.plan("events", splits=64, bootstrap_servers="localhost:9092")
        dataset = ray.data.read_datasource(samsarrow.ray.Topic(plan))

    The tasks fetch only columns that the query selects before other steps, and only partitions, offsets and timestamps
    that a filter of expressions may match. If a task fails or its worker is killed, Ray repeats the task, and each row
    is in the dataset once: a repeated task returns equal blocks.
    """

    def __init__(self, plan: Plan) -> None:
        """Keeps the plan, whose options are sent to the workers.

        Raises:
            TypeError: `plan` is not a plan.
        """
        super().__init__()
        self._projection_map = None
        self._plan = check_plan(plan, "samsarrow.ray.Topic")
        self._found: tuple[Condition, tuple[Split, ...]] | None = None

    def get_name(self) -> str:
        """Returns the name of the read tasks."""
        return f"Topic({self._plan.topic})"

    def supports_projection_pushdown(self) -> bool:
        """Returns true: columns that are not selected are not read."""
        return True

    def supports_predicate_pushdown(self) -> bool:
        """Returns true: filters of expressions are applied by the read tasks."""
        return True

    def estimate_inmemory_data_size(self) -> int:
        """Returns a size from which Ray derives one block per split. Without a size it makes 200 blocks of slices."""
        # With 4 tasks and 1,000,000 records of 100 bytes, the slices take 60 % more time. Ray has no other use for it.
        return len(self._splits()[1]) * int(DataContext.get_current().target_min_block_size)

    def get_read_tasks(
        self, parallelism: int, per_task_row_limit: int | None = None, data_context: Any = None
    ) -> list[ReadTask]:
        """Returns a task for each split with rows that may match. The plan, not `parallelism`, has their number."""
        condition, splits = self._splits()
        names, selected = self._plan.schema.names, self._get_data_columns()
        # For a count, Ray selects no columns, and its blocks need one.
        columns = tuple(names if selected is None else selected or names[-1:])
        # The number of rows is known only after the read: compacted and transactional topics have offsets without rows.
        unknown = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        parts = [Part(split, columns, condition) for split in splits]
        return [ReadTask(part.repeatable_blocks, unknown, part.schema, per_task_row_limit) for part in parts]

    def _splits(self) -> tuple[Condition, tuple[Split, ...]]:
        """Returns the condition, and splits with the rows that may match. Looks up times once, for several calls."""
        if (predicate := self.get_current_predicate()) is None:
            return None, self._plan.splits
        condition = predicate.to_pyarrow()
        if self._found is None or not condition.equals(self._found[0]):
            self._found = condition, matching(self._plan, condition)
        return self._found


class TopicSink(Datasink[Mapping[TopicPartition, int]]):  # type: ignore[misc]
    """Writes a dataset to a topic: `dataset.write_datasink(samsarrow.ray.TopicSink("out", …))`.

    Each write task has a producer, and ends after the brokers have acknowledged its rows. If Ray repeats a task whose
    worker was killed, some of its rows are in the topic twice.

    Attributes:
        counts: the number of rows that the last `write_datasink` has written to each partition.
    """

    def __init__(
        self,
        topic: str,
        config: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        value: str | list[str] | None = None,
        headers: str | None = None,
        partition: str | None = None,
        timestamp: str | None = None,
        key_format: Format | None = None,
        value_format: Literal["json", "ipc"] | Format | None = None,
        **options: Any,
    ) -> None:
        """Keeps the arguments, which are those of `samsarrow.write`. They are sent to the workers with their passwords.

        Raises:
            ConfigurationError: an option is unknown, or has no effect here.
        """
        check_topic(topic)
        check_parallel_write(config, options)
        columns: dict[str, Any] = {"key": key, "value": value, "headers": headers, "partition": partition}
        columns |= {"timestamp": timestamp, "key_format": key_format, "value_format": value_format}
        self._topic = topic
        self.counts: Mapping[TopicPartition, int] = {}
        self._write: Callable[..., dict[TopicPartition, int]] = partial(
            write, topic, config=config, progress=False, **columns, **options
        )

    def get_name(self) -> str:
        """Returns the name of the write tasks."""
        return f"TopicSink({self._topic})"

    def write(self, blocks: Iterable[Any], ctx: Any) -> Mapping[TopicPartition, int]:
        """Writes the blocks of a task, and returns the number of rows by partition."""
        tables = (table for block in blocks if (table := BlockAccessor.for_block(block).to_arrow()).num_rows)
        if (first := next(tables, None)) is None:
            return {}
        batches = (batch for table in chain([first], tables) for batch in table.cast(first.schema).to_batches())
        reader = pa.RecordBatchReader.from_batches(first.schema, batches)
        return self._write(reader)

    def on_write_complete(self, write_result: Any) -> None:
        """Adds the numbers of rows of all tasks."""
        total = sum(map(Counter, write_result.write_returns), Counter[TopicPartition]())
        self.counts = dict(sorted(total.items()))
