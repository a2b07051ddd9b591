"""Plans as frames of Daft, with pushdown of columns, and of filters on offsets and times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from samsarrow.integrations import check_plan
from samsarrow.integrations.parts import Condition, Part, without_dictionaries
from samsarrow.integrations.pushdown import matching
from samsarrow.ranges import Plan

try:
    import daft as _daft
    from daft.io.pushdowns import Pushdowns
    from daft.io.source import DataSource, DataSourceTask
    from daft.recordbatch import RecordBatch
    from daft.schema import Schema
except ImportError:
    raise ImportError("samsarrow.daft needs Daft 0.7 or later: pip install 'daft>=0.7,<0.8'") from None

__all__ = ["read_topic"]


def read_topic(plan: Plan) -> _daft.DataFrame:
    """Returns a lazy frame with the rows of a plan, which is read by each `collect`.

        plan = samsarrow.ranges.plan("events", splits=64, bootstrap_servers="localhost:9092")
        frame = samsarrow.daft.read_topic(plan)
        frame.where(daft.col("offset") >= 100).select("value").collect()

    Columns are those of the plan, with `topic` as a string. Each split is a task of Daft. The tasks fetch only columns
    that the query uses, and only partitions, offsets and timestamps that its filter may match, if it compares them with
    literals. The whole filter is then applied to the fetched rows.

    Args:
        plan: the plan.

    Raises:
        TypeError: `plan` is not a plan.
        daft.exceptions.DaftCoreException: raised by `collect` with the message of an error of `Split.read`.
    """
    return _Topic(check_plan(plan, "samsarrow.daft.read_topic")).read()


class _Topic(DataSource):  # type: ignore[misc]
    """Source of a frame."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    @property
    def name(self) -> str:
        return f"samsarrow topic {self._plan.topic}"

    @property
    def schema(self) -> Schema:
        return Schema.from_pyarrow_schema(without_dictionaries(self._plan.schema))

    async def get_tasks(self, pushdowns: Pushdowns) -> AsyncIterator[DataSourceTask]:
        """Yields a task for each split with rows that may match."""
        names = self._plan.schema.names
        used = None if pushdowns.columns is None else {*pushdowns.columns, *pushdowns.filter_required_column_names()}
        columns = tuple(name for name in names if used is None or name in used)
        condition = _condition(pushdowns)
        # Daft's other tasks share this event loop.
        for split in await asyncio.to_thread(matching, self._plan, condition):
            yield _Task(Part(split, columns))


class _Task(DataSourceTask):  # type: ignore[misc]
    """Task that reads a split."""

    def __init__(self, part: Part) -> None:
        self._part = part

    @property
    def schema(self) -> Schema:
        return Schema.from_pyarrow_schema(without_dictionaries(self._part.schema))

    async def read(self) -> AsyncIterator[RecordBatch]:
        """Yields the rows in Daft's event loop."""
        schema = without_dictionaries(self._part.schema)
        async with aclosing(self._part.needed().aread()) as batches:
            async for batch in batches:
                found = self._part.result(batch)
                yield RecordBatch.from_arrow_record_batches([found.cast(schema)], schema)


def _condition(pushdowns: Pushdowns) -> Condition | None:
    """Returns the filter as an expression of pyarrow, or None if pyarrow has no such expression."""
    if pushdowns.filters is None:
        return None
    try:
        return pushdowns.filters.to_arrow_expr()
    except Exception:  # Daft has no class for it.
        return None
