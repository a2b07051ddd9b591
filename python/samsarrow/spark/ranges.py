"""Offset ranges, one per Spark task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import InputPartition

if TYPE_CHECKING:
    from samsarrow.spark.tokens import Token


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """The offsets of one partition that a task reads.

    Attributes:
        topic: name of the topic.
        partition: number of the partition.
        start: the first offset.
        end: the offset after the last offset to read.
        token: delegation token with which the task logs in, or None.
        planned: time at which a batch read was planned, in seconds since 1970; None in streams.
    """

    topic: str
    partition: int
    start: int
    end: int
    token: Token | None = None
    planned: float | None = None

    def __len__(self) -> int:
        return self.end - self.start
