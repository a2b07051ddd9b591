"""Offset ranges, one a Spark task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Offsets `start` up to, not including, `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def split(
    ranges: Sequence[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Cuts large ranges into tasks, by the connector's rules.

    Args:
        ranges: empty ones are left out.
        min_partitions: about how many tasks there should be at least; large ranges are cut in proportion.
        max_records: the most offsets in a task.
    """
    result = [r for r in ranges if r.end > r.start]
    if max_records is not None:
        result = [part for r in result for part in _cut(r, math.ceil(len(r) / max_records))]
    if min_partitions is None or len(result) >= min_partitions:
        return result
    # Partitions of which a range stays whole are left out of the proportion, so that others share all other tasks.
    total = sum(map(len, result))
    whole = [r for r in result if _share(r, total, min_partitions) == 1]
    partitions = {(r.topic, r.partition) for r in whole}
    total -= sum(map(len, whole))
    wanted = max(min_partitions - len(whole), 1)
    parts = {r: 1 if (r.topic, r.partition) in partitions else _share(r, total, wanted) for r in result}
    return [part for r in result for part in _cut(r, parts[r])]


def _share(r: OffsetRange, total: int, parts: int) -> int:
    # Half up, as Java rounds: Python's round goes to the even number.
    return max(math.floor(len(r) / total * parts + 0.5), 1)


def _cut(r: OffsetRange, parts: int) -> list[OffsetRange]:
    cuts = [r.start]
    for part in range(min(parts, len(r)), 0, -1):
        cuts.append(cuts[-1] + (r.end - cuts[-1]) // part)
    return [OffsetRange(r.topic, r.partition, a, b) for a, b in pairwise(cuts)]
