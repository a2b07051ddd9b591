"""Offset ranges, one a Spark task."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from samsarrow.spark.tokens import Token


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Offsets `start` up to, not including, `end` of one partition, and the token of its task, if it has one."""

    topic: str
    partition: int
    start: int
    end: int
    token: Token | None = None

    def __len__(self) -> int:
        return self.end - self.start
