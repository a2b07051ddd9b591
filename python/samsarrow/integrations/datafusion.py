"""Plans as tables of DataFusion, with pushdown of columns, and of conditions on offsets and times."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from samsarrow.exceptions import ConfigurationError, KafkaError
from samsarrow.integrations import check_plan
from samsarrow.integrations.parts import Condition, Part, merged
from samsarrow.integrations.pushdown import matching
from samsarrow.ranges import Plan, Split

try:
    import datafusion as _datafusion  # noqa: F401
except ImportError:
    raise ImportError("samsarrow.datafusion needs DataFusion: pip install 'datafusion>=55'") from None

__all__ = ["table"]


def table(plan: Plan, *, lateness: timedelta | None = None) -> ds.Dataset:
    """Returns a plan as a table for `SessionContext.register_table`.

        plan = samsarrow.ranges.plan("events", bootstrap_servers="localhost:9092")
        context.register_table("events", samsarrow.datafusion.table(plan))
        context.sql("SELECT count(*) FROM events WHERE partition = 2 AND timestamp >= '2026-11-01'")

    Every query reads the plan again. It fetches only

    - partitions, offsets and timestamps that the condition may match: comparisons with literals, `BETWEEN` and `IN`,
      joined by `AND` and `OR`. The broker finds the first record at or after a time in its index;
    - columns that the query uses: other keys and values are not decoded.

    The splits of the plan are merged to one for each processor, which DataFusion reads at the same time.

    Args:
        plan: the plan.
        lateness: maximum time by which a record can be earlier than a previous record of its partition; zero if
            timestamps never decrease, as with `message.timestamp.type=LogAppendTime`. If it is set, an upper bound of
            `timestamp` ends the read of a partition. By default a partition is read to its end.

    Returns:
        A `pyarrow.dataset.Dataset` for DataFusion: other methods than those that DataFusion calls do not work.

    Raises:
        TypeError: `plan` is not a plan.
        ConfigurationError: `lateness` is negative.
        Exception: raised by DataFusion for a query instead of the errors of `Split.read`, with their messages.
    """
    check_plan(plan, "samsarrow.datafusion.table")
    if lateness is not None and (not isinstance(lateness, timedelta) or lateness < timedelta()):
        raise ConfigurationError(f"lateness is a timedelta of zero or more, not {lateness!r}")
    found: _Dataset = _Dataset.__new__(_Dataset)
    found._plan, found._lateness = plan, lateness
    return found


class _Dataset(ds.Dataset):  # type: ignore[misc]
    """Dataset with the attributes and methods that DataFusion uses."""

    _plan: Plan
    _lateness: timedelta | None

    def __init__(self) -> None:
        raise TypeError("call samsarrow.datafusion.table(plan)")

    def __repr__(self) -> str:
        return f"<table of {self._plan!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self._plan, self._lateness)

    @property
    def schema(self) -> pa.Schema:
        return self._plan.schema

    def scanner(self, columns: list[str] | None = None, filter: Condition | None = None) -> _Scanner:  # noqa: A002
        """Returns the scanner from which DataFusion takes the schema of a query."""
        return _Scanner(self.schema, columns, None, None)

    def get_fragments(self, filter: Condition | None = None) -> Iterator[_Fragment]:  # noqa: A002
        """Yields the parts that DataFusion reads at the same time."""
        try:
            splits = merged(matching(self._plan, filter, self._lateness), os.cpu_count() or 1)
        except KafkaError as error:
            # DataFusion adds the traceback as text to the message of an error that is raised here.
            return iter([_Fragment(error)])
        return map(_Fragment, splits or (None,))


class _Fragment:
    """Split that DataFusion reads; None is an empty table, and an error is raised by the read."""

    def __init__(self, split: Split | KafkaError | None) -> None:
        self._split = split

    def scanner(
        self,
        schema: pa.Schema,
        columns: list[str] | None,
        filter: Condition | None,  # noqa: A002
        batch_size: int,
    ) -> _Scanner:
        """Returns a scanner of the rows that match the filter."""
        return _Scanner(schema, columns, filter, self._split)


class _Scanner:
    """Scanner of a fragment."""

    def __init__(
        self,
        schema: pa.Schema,
        columns: list[str] | None,
        condition: Condition | None,
        split: Split | KafkaError | None,
    ) -> None:
        self._columns = tuple(schema.names if columns is None else columns)
        self.projected_schema = pa.schema([schema.field(name) for name in self._columns])
        self._split, self._condition = split, condition

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows."""
        if isinstance(self._split, KafkaError):
            raise self._split.with_traceback(None)
        return iter(()) if self._split is None else Part(self._split, self._columns, self._condition).batches()


def _restore(plan: Plan, lateness: timedelta | None) -> ds.Dataset:
    return table(plan, lateness=lateness)
