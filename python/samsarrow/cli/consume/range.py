"""Range of a read, from the options `--from`, `--until` and `--partition`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import click

from samsarrow.cli.errors import NoSuchPartition, NotFound
from samsarrow.cli.times import instant_of
from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from samsarrow import Consumer
    from samsarrow.cli.connection import Connection

Offsets = Mapping[TopicPartition, int]
# Positions without a number. Kafka's options and its tools have both names for the ends of a partition.
KEYWORDS = {"earliest": "earliest", "beginning": "earliest", "latest": "latest", "end": "latest", "group": "group"}
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Position:
    """A position on the command line, which stands for an offset in each partition.

    Attributes:
        kind: `earliest`, `latest`, `offset`, `back` (a number of offsets before the end), `time` or `group`.
        number: for `offset` the offset, for `back` the number of offsets, for `time` the milliseconds since 1970.
    """

    kind: str
    number: int = 0

    @property
    def described(self) -> str:
        """The position as text, for messages."""
        if self.kind == "time":
            return f"{datetime.fromtimestamp(self.number / 1000).isoformat(' ', 'seconds')} on"
        return {
            "earliest": "the beginning", "latest": "the end", "offset": f"offset {self.number} on",
            "back": f"{self.number} before the end", "group": "the group's offsets",
        }[self.kind]  # fmt: skip

    @classmethod
    def parse(cls, text: str) -> Position:
        """Parses a position on the command line.

        Raises:
            click.BadParameter: the text is not a position.
        """
        if text in KEYWORDS:
            return cls(KEYWORDS[text])
        if match := re.fullmatch(r"(-?)(\d+)", text):
            if int(match[2]) > _LARGEST:
                raise click.BadParameter(f"{text} is more than the largest offset, {_LARGEST}")
            return cls("back" if match[1] else "offset", int(match[2]))
        try:
            return cls("time", instant_of(text))
        except ValueError as error:
            if text.startswith("@"):
                raise click.BadParameter(str(error)) from None
        raise click.BadParameter(
            f"{text!r} is not one of earliest, latest, OFFSET, -N (N before the end), TIME (2026-11-01T10:00, -1h, "
            "@1793527200000 in milliseconds), group"
        )


def position_option(_context: click.Context, parameter: click.Parameter, value: str | None) -> Position | None:
    """Parses `--from` and `--until`."""
    if value is None:
        return None
    position = Position.parse(value)
    if parameter.name == "until" and position.kind in ("group", "earliest"):
        raise click.BadParameter(f"{value} is not an end: pass latest, an offset or a time")
    return position


def partitions_option(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> frozenset[int]:
    """Parses `--partition`: `3`, `0,2`, `5-7`."""
    chosen: set[int] = set()
    for part in (part for value in values for part in value.split(",")):
        match = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip())
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise click.BadParameter(f"{part!r} is not a partition or a range, for example 0 or 2-5")
        chosen.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(chosen)


def partitions_of(connection: Connection, topics: Iterable[str], chosen: frozenset[int]) -> list[TopicPartition]:
    """Returns all partitions of topics, or the partitions of each topic with the chosen numbers.

    Raises:
        click.ClickException: a topic or partition does not exist.
    """
    names = list(dict.fromkeys(topics))
    # Checks that topics exist, because a consumer would wait until a missing topic is created.
    listed = connection.admin.list_topics(names)
    found = []
    for topic in names:
        if topic not in listed:
            raise NotFound(f"topic {topic}", connection.servers)
        count = listed[topic].partitions
        if missing := sorted(number for number in chosen if number >= count):
            raise NoSuchPartition(topic, count, missing[0])
        found += [TopicPartition(topic, number) for number in range(count) if not chosen or number in chosen]
    return found


def offsets_at(consumer: Consumer, position: Position, beginnings: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """Returns the offset of a position in each partition, limited to the beginning and the end of the partition."""
    if position.kind == "earliest":
        found = dict(beginnings)
    elif position.kind == "latest":
        found = dict(ends)
    elif position.kind == "offset":
        found = dict.fromkeys(ends, position.number)
    elif position.kind == "back":
        found = {tp: end - position.number for tp, end in ends.items()}
    elif position.kind == "time":
        by_time = consumer.offsets_for_times(dict.fromkeys(ends, position.number))
        found = {tp: ends[tp] if at is None else at.offset for tp, at in by_time.items()}
    else:
        committed = consumer.committed(list(ends))
        found = {tp: beginnings[tp] if at is None else at.offset for tp, at in committed.items()}
    return {tp: min(max(at, beginnings[tp]), ends[tp]) for tp, at in found.items()}
