"""From options to offset ranges, one a Spark task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pyspark.sql.datasource import InputPartition

from samsarrow.consumer import Consumer
from samsarrow.exceptions import ConfigurationError, UnknownTopicOrPartitionError
from samsarrow.spark.options import EARLIEST, LATEST, Offsets, ReadOptions
from samsarrow.types import TopicPartition


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """Offsets `start` up to, not including, `end` of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    def __len__(self) -> int:
        return self.end - self.start


def plan(options: ReadOptions) -> list[OffsetRange]:
    """Asks the brokers for what `options` leave open and cuts the result into tasks.

    Raises:
        UnknownTopicOrPartitionError: a topic or partition to be read does not exist.
        ConfigurationError: given offsets do not cover exactly the partitions to be read.
    """
    with Consumer(options.kafka) as consumer:
        partitions = _partitions(consumer, options)
        starts = _resolve(consumer, "startingOffsets", options.starting, partitions)
        ends = _resolve(consumer, "endingOffsets", options.ending, partitions)
    ranges = [OffsetRange(tp.topic, tp.partition, starts[tp], ends[tp]) for tp in partitions if starts[tp] < ends[tp]]
    return split(ranges, options.min_partitions)


def _partitions(consumer: Consumer, options: ReadOptions) -> list[TopicPartition]:
    if options.topics is not None:
        return [tp for topic in options.topics for tp in sorted(consumer.partitions_for(topic))]
    wanted = [TopicPartition(t, p) for t, ps in (options.assigned or {}).items() for p in ps]
    existing = {tp for topic in options.assigned or {} for tp in consumer.partitions_for(topic)}
    missing = [tp for tp in wanted if tp not in existing]
    if missing:
        names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in missing)
        raise UnknownTopicOrPartitionError(f"option assign names partitions that do not exist: {names}")
    return wanted


def _resolve(
    consumer: Consumer, option: str, wanted: int | Offsets, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    """Offsets of all partitions: given numbers as they are, -2 and -1 as the brokers have them now."""
    given = dict.fromkeys(partitions, wanted) if isinstance(wanted, int) else _given(option, wanted, partitions)
    result = dict(given)
    for symbol, ask in ((EARLIEST, consumer.beginning_offsets), (LATEST, consumer.end_offsets)):
        result.update(ask([tp for tp, offset in given.items() if offset == symbol]))
    return result


def _given(option: str, wanted: Offsets, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, int]:
    given = {TopicPartition(t, p): offset for t, ps in wanted.items() for p, offset in ps.items()}
    if set(given) != set(partitions):
        specified, assigned = (
            ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(tps)) for tps in (given, partitions)
        )
        raise ConfigurationError(
            f"option {option} must give an offset for every partition that is read (-1 for latest, -2 for earliest): "
            f"given for {specified or 'none'}, read are {assigned}"
        )
    return given


def split(ranges: Sequence[OffsetRange], min_partitions: int | None) -> list[OffsetRange]:
    """Cuts large ranges so that there are about `min_partitions` tasks of similar size, as the connector does."""
    total = sum(map(len, ranges))
    if min_partitions is None or len(ranges) >= min_partitions or total == 0:
        return list(ranges)
    result = []
    for r in ranges:
        parts = min(len(r), max(1, round(len(r) / total * min_partitions)))
        cuts = [r.start + len(r) * i // parts for i in range(parts + 1)]
        result += [OffsetRange(r.topic, r.partition, a, b) for a, b in pairwise(cuts)]
    return result
