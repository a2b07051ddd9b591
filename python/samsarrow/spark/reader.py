"""A batch read: planned on the driver, read in tasks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.bounds import LATEST, Bound
from samsarrow.spark.pushdown import Predicates
from samsarrow.spark.ranges import OffsetRange, split

if TYPE_CHECKING:
    from pyspark.sql.datasource import InputPartition

    from samsarrow.spark.options import ReadOptions


class KafkaReader(DataSourceReader):
    """A batch read. Holds options only: Spark pickles it, and a worker makes its own consumer."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._predicates = Predicates()
        # A reader with a `pushFilters` of its own cannot be used at all unless
        # `spark.sql.python.filterPushdown.enabled` is set, which a worker cannot see. This one is taken for the
        # inherited one where it is not set, and called where it is.
        self.pushFilters = _PushFilters(self._predicates)  # type: ignore[method-assign]

    def partitions(self) -> list[InputPartition]:
        """Asked on the driver: which ranges there are to read."""
        return list(plan(self._options, self._predicates))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Asked in a task: the range's records, in order, none outside it."""
        from samsarrow.spark.fetch import read_range

        if not isinstance(partition, OffsetRange):
            # Where there is no range at all, Spark asks once with a partition of its own.
            return iter(())
        return read_range(self._options, partition)


class _PushFilters:
    """`pushFilters` of a reader: takes what it can use and leaves every filter to Spark too."""

    def __init__(self, predicates: Predicates) -> None:
        self._predicates = predicates

    @property
    def __func__(self) -> Any:
        return getattr(DataSourceReader, "pushFilters", None)

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        self._predicates.take(filters)
        return filters


def plan(options: ReadOptions, predicates: Predicates | None = None) -> list[OffsetRange]:
    """Asks the brokers for what `options` leave open and cuts the result into tasks.

    Raises:
        UnknownTopicOrPartitionError: a topic or partition to be read does not exist.
        ConfigurationError: given offsets do not cover exactly the partitions to be read, or end before they start.
    """
    from samsarrow.spark.brokers import Brokers

    wanted = predicates or Predicates()
    ending = options.ending or Bound("endingOffsets", LATEST)
    with Brokers(options) as brokers:
        partitions = brokers.partitions()
        starts = brokers.resolve(options.starting, partitions)
        ends = brokers.resolve(ending, partitions)
        since = {}
        if wanted.since_ms is not None:
            later = Bound("timestamp", times=dict.fromkeys(partitions, wanted.since_ms))
            since = brokers.resolve(later, partitions)
    ranges = []
    for tp in filter(wanted.allow, partitions):
        if starts[tp] > ends[tp]:
            raise ConfigurationError(
                f"{tp.topic}-{tp.partition} would be read from offset {starts[tp]} ({options.starting.option}) to "
                f"{ends[tp]} ({ending.option}), where it ends before it starts"
            )
        start, end = wanted.clip(max(starts[tp], since.get(tp, 0)), ends[tp])
        ranges.append(OffsetRange(tp.topic, tp.partition, start, end))
    return split(ranges, options.min_partitions, options.max_records_per_partition)


def with_columns(options: ReadOptions, columns: tuple[str, ...], text: frozenset[str]) -> ReadOptions:
    """The same read with another choice of columns."""
    return replace(options, columns=columns, text=text)
