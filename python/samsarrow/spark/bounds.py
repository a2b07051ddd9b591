"""Where reading starts and ends, as the options say it."""

from __future__ import annotations

from dataclasses import dataclass

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.values import Given, natural, numbers_per_partition
from samsarrow.types import TopicPartition

EARLIEST = -2
LATEST = -1

PerPartition = dict[TopicPartition, int]


@dataclass(frozen=True)
class Bound:
    """One end of what is read; exactly one of the attributes below `option` is set.

    Attributes:
        option: that said so, for errors.
        everywhere: `EARLIEST` or `LATEST`.
        offsets: per partition, each a number, `EARLIEST` or `LATEST`.
        time: milliseconds since 1970, for all partitions.
        times: the same per partition.
        group: the committed offsets of `kafka.group.id`.
    """

    option: str
    everywhere: int | None = None
    offsets: PerPartition | None = None
    time: int | None = None
    times: PerPartition | None = None
    group: bool = False


def starting(given: Given, streaming: bool) -> Bound:
    """Where to start; a stream at the latest offset unless told, a batch at the earliest."""
    bound = _timed(given, "startingTimestamp", "startingOffsetsByTimestamp")
    if bound is None:
        bound = _plain(given, "startingOffsets", "latest" if streaming else "earliest")
    if not streaming:
        _refuse(bound, LATEST, "latest")
    return bound


def ending(given: Given) -> Bound:
    """Where a batch ends."""
    bound = _timed(given, "endingTimestamp", "endingOffsetsByTimestamp")
    if bound is None:
        bound = _plain(given, "endingOffsets", "latest")
    if bound.group:
        raise ConfigurationError("option endingOffsets cannot be 'group': only startingOffsets can")
    _refuse(bound, EARLIEST, "earliest")
    return bound


def _timed(given: Given, everywhere: str, each: str) -> Bound | None:
    if everywhere.lower() in given:
        return Bound(everywhere, time=natural(given, everywhere))
    if each.lower() in given:
        return Bound(each, times=numbers_per_partition(given[each.lower()], each, 0, "a time in milliseconds"))
    return None


def _plain(given: Given, name: str, default: str) -> Bound:
    text = given.get(name.lower(), default).strip()
    words = {"earliest": Bound(name, EARLIEST), "latest": Bound(name, LATEST), "group": Bound(name, group=True)}
    if text.lower() in words:
        return words[text.lower()]
    return Bound(name, offsets=numbers_per_partition(text, name, EARLIEST, "an offset"))


def _refuse(bound: Bound, symbol: int, word: str) -> None:
    """A batch cannot start at the latest offset nor end at the earliest."""
    if bound.everywhere == symbol:
        raise ConfigurationError(f"option {bound.option} cannot be {word!r} in a batch read")
    for tp, offset in (bound.offsets or {}).items():
        if offset == symbol:
            raise ConfigurationError(
                f"option {bound.option}: {symbol} ({word}) of {tp.topic}-{tp.partition} cannot be used in a batch read"
            )
