"""Pushdown of conditions: the offsets of a plan whose rows may match an expression of pyarrow.

The structure of expressions is not public, but a dataset leaves out fragments whose guarantee, such as `offset < 17`,
contradicts a condition. So the first and the last offset that may match are found by bisection. A condition that Arrow
cannot simplify does not restrict the fetch, which is safe because rows are filtered, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from samsarrow._range_reader import recreated
from samsarrow._sync import run_sync
from samsarrow.consumer import Consumer
from samsarrow.exceptions import KafkaTimeoutError
from samsarrow.integrations.parts import Condition
from samsarrow.ranges import OffsetRange, Plan, Split
from samsarrow.ranges.lookup import TopicIds
from samsarrow.ranges.plans import count
from samsarrow.ranges.split_read import open_consumer
from samsarrow.types import TopicPartition

# Milliseconds from 1970 to the year 10000, after which no time is looked up.
_LAST_TIME = 253_402_300_800_000
# Columns of guarantees, which a plan with `columns` may lack.
_FIELDS = {"partition": pa.int32(), "offset": pa.int64(), "timestamp": pa.timestamp("ms", "UTC")}


def matching(plan: Plan, condition: Condition | None, lateness: timedelta | None = None) -> tuple[Split, ...]:
    """Returns splits with the offsets whose rows may match a condition. Looks up times of the condition.

    Args:
        plan: the plan.
        condition: condition on the columns of the plan; None for all rows.
        lateness: maximum time by which a record can be earlier than a previous record of its partition. If it is set,
            an upper bound of `timestamp` ends the read.

    Raises:
        OffsetOutOfRangeError: times were looked up, and the topic was deleted and created again.
        KafkaTimeoutError: no broker responded in time.
    """
    if condition is None:
        return plan.splits
    bounds = {tp: (start, end) for tp, start, end in plan.ranges if start < end}
    bounds = _in_time(plan, *_by_offset(plan, bounds, condition), lateness)
    splits = []
    for split in plan.splits:
        parts = [
            OffsetRange(tp, max(start, bounds[tp][0]), min(end, bounds[tp][1]))
            for tp, start, end in split.ranges
            if tp in bounds
        ]
        if filled := tuple(part for part in parts if part.start < part.end):
            splits.append(Split(filled, split._source))
    return tuple(splits)


Bounds = dict[TopicPartition, tuple[int, int]]


def _by_offset(plan: Plan, bounds: Bounds, condition: Condition) -> tuple[Bounds, _Guarantees]:
    """Returns the offsets of each partition whose rows may match."""
    guarantees = _Guarantees(plan.schema, condition)
    partition, offset = pc.field("partition"), pc.field("offset")
    low, high = _span(0, (1 << 63) - 1, guarantees.below(offset), guarantees.from_(offset))
    bounds = {tp: (max(start, low), min(end, high)) for tp, (start, end) in bounds.items()}
    bounds = {tp: (start, end) for tp, (start, end) in bounds.items() if start < end}
    whole = [partition == tp.partition for tp in bounds]
    ends = [(offset == start, offset == end - 1) for start, end in bounds.values()]
    alive = guarantees.may_hold(whole)
    first = guarantees.may_hold([one & two[0] for one, two in zip(whole, ends, strict=True)])
    last = guarantees.may_hold([one & two[1] for one, two in zip(whole, ends, strict=True)])
    found: Bounds = {}
    for number, (tp, (start, end)) in enumerate(bounds.items()):
        if not alive[number]:
            continue
        if not (first[number] and last[number]):
            of = partition == tp.partition
            start, end = _span(start, end, guarantees.below(offset, of), guarantees.from_(offset, of))
        if start < end:
            found[tp] = start, end
    return found, guarantees


def _in_time(plan: Plan, bounds: Bounds, guarantees: _Guarantees, lateness: timedelta | None) -> Bounds:
    """Returns the offsets of rows whose timestamps may match, which the broker finds in its index."""
    timestamp = pc.field("timestamp")
    # Records of old formats have no timestamp.
    if not bounds or any(guarantees.may_hold([timestamp.is_null()])):
        return bounds
    low, high = _span(0, _LAST_TIME, guarantees.below(timestamp, cast=_time), guarantees.from_(timestamp, cast=_time))
    late = None if lateness is None else high - lateness // timedelta(milliseconds=-1)
    source, found = plan._source, dict(bounds)
    if low == 0 and (late is None or late >= _LAST_TIME):
        return bounds
    consumer = open_consumer(Consumer, source, count(plan.ranges))
    try:
        ids = TopicIds(consumer._run, source.options, source.topic)
        if plan.topic_id is not None and run_sync(ids.find(source.timeout)) != plan.topic_id.bytes:
            raise recreated(plan.topic)
        if low:
            times = run_sync(consumer._offsets_for_times(dict.fromkeys(found, low), source.timeout))
            for tp, (start, end) in found.items():
                at = times[tp]
                # None means that the partition has no record at or after the time.
                found[tp] = (end if at is None else max(start, at.offset)), end
        if late is not None and late < _LAST_TIME:
            times = run_sync(consumer._offsets_for_times(dict.fromkeys(found, late), source.timeout))
            found = {
                tp: (start, end if (at := times[tp]) is None else min(end, at.offset))
                for tp, (start, end) in found.items()
            }
    except KafkaTimeoutError as error:
        raise KafkaTimeoutError(
            f"topic {plan.topic}: offsets of the condition's times were not found: {error}"
        ) from error
    finally:
        run_sync(consumer._close(False, 0))
    return {tp: (start, end) for tp, (start, end) in found.items() if start < end}


class _Guarantees:
    """Checks whether a condition may hold for rows with a guarantee."""

    def __init__(self, schema: pa.Schema, condition: Condition) -> None:
        missing = [pa.field(name, kind) for name, kind in _FIELDS.items() if name not in schema.names]
        self._schema, self._condition = pa.schema([*schema, *missing]), condition
        self._format, self._files = ds.CsvFileFormat(), LocalFileSystem()

    def may_hold(self, guarantees: Sequence[Condition]) -> list[bool]:
        """Returns for each guarantee whether the condition may hold."""
        fragments = [
            # The files do not exist, and are not opened.
            self._format.make_fragment(str(number), filesystem=self._files, partition_expression=one)
            for number, one in enumerate(guarantees)
        ]
        dataset = ds.FileSystemDataset(fragments, self._schema, self._format)
        found = {int(fragment.path) for fragment in dataset.get_fragments(self._condition)}
        return [number in found for number in range(len(fragments))]

    def below(
        self, field: Condition, of: Condition | None = None, cast: Callable[[int], Any] = pa.scalar
    ) -> Callable[[int], bool]:
        """Returns a function that checks whether the condition may hold for a field below a bound."""
        return lambda bound: self._one(field < cast(bound), of)

    def from_(
        self, field: Condition, of: Condition | None = None, cast: Callable[[int], Any] = pa.scalar
    ) -> Callable[[int], bool]:
        """Returns a function that checks whether the condition may hold for a field at or above a bound."""
        return lambda bound: self._one(field >= cast(bound), of)

    def _one(self, guarantee: Condition, of: Condition | None) -> bool:
        return self.may_hold([guarantee if of is None else guarantee & of])[0]


def _span(low: int, high: int, below: Callable[[int], bool], above: Callable[[int], bool]) -> tuple[int, int]:
    """Returns the bounds between which a condition may hold: no row below the first, or from the second on, matches."""
    if not below(high):
        return high, high
    first, after = low, low + 1 if below(low + 1) else high
    while after - first > 1:
        middle = (first + after) // 2
        first, after = (first, middle) if below(middle) else (middle, after)
    last, end = (high - 1, high) if above(high - 1) else (first, high - 1)
    while end - last > 1:
        middle = (last + end) // 2
        last, end = (middle, end) if above(middle) else (last, middle)
    return first, end


def _time(milliseconds: int) -> pa.Scalar:
    return pa.scalar(milliseconds, pa.timestamp("ms", "UTC"))
