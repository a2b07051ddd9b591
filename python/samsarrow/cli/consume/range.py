"""Where reading begins and where it ends: `--from`, `--until`, `--partition`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from samsarrow.cli.times import instant_of
from samsarrow.types import TopicPartition

if TYPE_CHECKING:
    from samsarrow import Consumer
    from samsarrow.cli.connection import Connection

Offsets = Mapping[TopicPartition, int]
_LARGEST = 2**63 - 1


@dataclass(frozen=True)
class Place:
    """A place in each partition.

    Attributes:
        kind: `beginning`, `end`, `offset`, `back` (a number of records before the end), `time` or `group`.
        number: the offset, how many, or milliseconds since 1970.
    """

    kind: str
    number: int = 0

    @classmethod
    def of(cls, text: str) -> Place:
        """From the command line.

        Raises:
            click.BadParameter: it names no place.
        """
        if text in ("beginning", "end", "group"):
            return cls(text)
        if text.startswith("@"):
            try:
                return cls("time", instant_of(text[1:]))
            except ValueError as error:
                raise click.BadParameter(str(error)) from None
        found = re.fullmatch(r"(-?)(\d+)", text)
        if found is None or int(found[2]) > _LARGEST:
            raise click.BadParameter(
                f"{text!r} is none of beginning, end, OFFSET, -N (N before the end), @TIME "
                "(@2026-11-01T10:00, @-1h), group"
            )
        return cls("back" if found[1] else "offset", int(found[2]))


def place_option(_context: click.Context, parameter: click.Parameter, value: str | None) -> Place | None:
    """Callback of `--from` and `--until`."""
    if value is None:
        return None
    place = Place.of(value)
    if parameter.name == "until" and place.kind in ("group", "beginning"):
        raise click.BadParameter(f"nothing can be read until {value}")
    return place


def partitions_option(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> frozenset[int]:
    """Callback of `--partition`: `3`, `0,2`, `5-7`."""
    chosen: set[int] = set()
    for part in (part for value in values for part in value.split(",")):
        found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", part.strip())
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise click.BadParameter(f"{part!r} is not a partition or a range, for example 0 or 2-5")
        chosen.update(range(int(found[1]), int(found[2] or found[1]) + 1))
    return frozenset(chosen)


def partitions_of(connection: Connection, topics: Iterable[str], chosen: frozenset[int]) -> list[TopicPartition]:
    """All partitions of topics, or the chosen ones of each.

    Raises:
        click.UsageError: there is no such topic or partition.
    """
    names = list(dict.fromkeys(topics))
    # A consumer would wait for a topic that does not exist: it may be about to.
    listed = connection.admin.list_topics(names)
    found = []
    for topic in names:
        if topic not in listed:
            raise click.UsageError(f"there is no topic {topic} at {connection.servers}, or you may not see it")
        count = listed[topic].partitions
        if missing := sorted(number for number in chosen if number >= count):
            raise click.UsageError(f"topic {topic} has {count} partitions, from 0 on: there is no {missing[0]}")
        found += [TopicPartition(topic, number) for number in range(count) if not chosen or number in chosen]
    return found


def offsets_at(consumer: Consumer, place: Place, beginnings: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
    """A place as an offset in each partition, no earlier than its beginning and no later than its end."""
    if place.kind == "beginning":
        found = dict(beginnings)
    elif place.kind == "end":
        found = dict(ends)
    elif place.kind == "offset":
        found = dict.fromkeys(ends, place.number)
    elif place.kind == "back":
        found = {tp: end - place.number for tp, end in ends.items()}
    elif place.kind == "time":
        there = consumer.offsets_for_times(dict.fromkeys(ends, place.number))
        found = {tp: ends[tp] if at is None else at.offset for tp, at in there.items()}
    else:
        committed = consumer.committed(list(ends))
        found = {tp: beginnings[tp] if at is None else at.offset for tp, at in committed.items()}
    return {tp: min(max(at, beginnings[tp]), ends[tp]) for tp, at in found.items()}
