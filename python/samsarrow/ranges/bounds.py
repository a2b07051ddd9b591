"""Start and end of a read: conversion of times, groups and named offsets to an offset in each partition."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple, TypeAlias

from samsarrow._range_reader import name_of
from samsarrow.exceptions import ConfigurationError, OffsetOutOfRangeError
from samsarrow.ranges.plans import Offsets
from samsarrow.types import OffsetAndMetadata, TopicPartition, to_committed, to_milliseconds, to_pair

Bound: TypeAlias = str | datetime | timedelta | Mapping[TopicPartition, int]
"""Start or end of a read: `"earliest"`, `"latest"`, a time, `"group:NAME"`, or an offset for each partition.

A time is a `datetime`, a `timedelta` before now, or ISO 8601 text. A time without a time zone is local, as in all of
Python.
"""

Kind = Literal["earliest", "latest", "time", "group", "offsets"]


class Position(NamedTuple):
    """A checked `Bound`.

    Attributes:
        name: name of the argument, for errors.
        kind: kind of the bound.
        time: for `time`, milliseconds since 1970.
        group: for `group`, the name of the group.
        offsets: for `offsets`, the offset of each partition.
    """

    name: str
    kind: Kind
    time: int = 0
    group: str = ""
    offsets: Mapping[TopicPartition, int] = {}

    @classmethod
    def of(cls, name: str, bound: Bound, topic: str) -> Position:
        """Checks a bound.

        Raises:
            ConfigurationError: the text is neither a name nor a time, or an offset is not of the topic.
            TypeError: the bound has another type.
        """
        if isinstance(bound, str):
            return cls._of_text(name, bound, topic)
        if isinstance(bound, datetime):
            return cls(name, "time", time=_milliseconds(name, bound))
        if isinstance(bound, timedelta):
            if bound < timedelta():
                raise ConfigurationError(f"{name} is a timedelta before now, so it must not be negative: {bound!r}")
            try:
                time = datetime.now(UTC) - bound
            except OverflowError:
                raise ConfigurationError(
                    f"{name} is a timedelta before now, and reaches before the year 1: {bound}"
                ) from None
            return cls(name, "time", time=_milliseconds(name, time))
        if isinstance(bound, Mapping):
            return cls(name, "offsets", offsets=_checked(name, bound, topic))
        if name == "since":
            raise TypeError(
                f"since is a datetime, a timedelta before now, or ISO 8601 text, not {type(bound).__name__}"
            )
        raise TypeError(
            f"{name} is 'earliest', 'latest', a datetime, a timedelta before now, a time as ISO text, 'group:NAME' or "
            f"a mapping of TopicPartition to offset, not {type(bound).__name__}"
        )

    @classmethod
    def _of_text(cls, name: str, text: str, topic: str) -> Position:
        if text == "earliest":
            return cls(name, "earliest")
        if text == "latest":
            return cls(name, "latest")
        if text.startswith("group:") and text != "group:":
            return cls(name, "group", group=text.removeprefix("group:"))
        if text.lstrip().startswith("{"):
            return cls(name, "offsets", offsets=_checked(name, Offsets.from_json(text), topic))
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            if name == "since":
                raise ConfigurationError(
                    f"since is a datetime, a timedelta before now, or a time such as '2026-11-01T10:00' or "
                    f"'2026-11-01T10:00:00Z', not {text!r}"
                ) from None
            raise ConfigurationError(
                f"{name} is 'earliest', 'latest', 'group:NAME', the text of Offsets.to_json(), or a time such as "
                f"'2026-11-01T10:00' or '2026-11-01T10:00:00Z', not {text!r}"
            ) from None
        return cls(name, "time", time=_milliseconds(name, time))

    def at(
        self,
        begins: Mapping[TopicPartition, int],
        ends: Mapping[TopicPartition, int],
        found: Mapping[TopicPartition, int | None],
    ) -> dict[TopicPartition, int]:
        """Returns the offset in each partition.

        Args:
            begins: log start offsets.
            ends: end offsets, which were looked up before `found`.
            found: for `time` the first offset at or after the time, for `group` the committed offset, or None.

        Raises:
            ConfigurationError: a partition has no offset.
        """
        if self.kind == "earliest":
            return dict(begins)
        if self.kind == "latest":
            return dict(ends)
        if self.kind == "time":
            # Records after `ends` may be appended before the lookup by time, and belong to the next read.
            return {tp: end if (at := found[tp]) is None else min(at, end) for tp, end in ends.items()}
        if self.kind == "group":
            if all(at is None for at in found.values()):
                raise ConfigurationError(
                    f"{self.name}: group {self.group} has committed no offset of {next(iter(ends)).topic}; check the "
                    "name of the group, or use 'earliest'"
                )
            return {tp: begin if (at := found[tp]) is None else at for tp, begin in begins.items()}
        if unknown := [tp for tp in self.offsets if tp not in ends]:
            raise ConfigurationError(f"{self.name} has an offset of {name_of(unknown[0])}, which is not read")
        missing = [tp for tp in ends if tp not in self.offsets]
        if missing and self.name == "end":
            raise ConfigurationError(
                f"end has no offset of {name_of(missing[0])}: add it, or name the partitions to read in partitions="
            )
        # Partitions that were added since the offsets were stored are read from their beginning.
        return {tp: self.offsets.get(tp, begin) for tp, begin in begins.items()}


def check_start(start: Position, end: Position) -> None:
    """Rejects a start that is later than the end.

    Raises:
        ConfigurationError: both are times, and the start is later.
    """
    if start.kind == end.kind == "time" and start.time > end.time:
        raise ConfigurationError(
            f"{start.name} {_shown(start.time)} is later than end {_shown(end.time)}: no record is between them"
        )


def check_end(tp: TopicPartition, end: int, log_end: int) -> None:
    """Rejects an end offset that the log does not have yet.

    Raises:
        OffsetOutOfRangeError: the end is past the end of the log.
    """
    if end > log_end:
        raise OffsetOutOfRangeError(
            f"{name_of(tp)} ends at offset {log_end}, and should be read up to {end}: wait for the records, or use "
            "end='latest' (with read_committed, a partition ends at its first open transaction)"
        )


def _checked(name: str, offsets: Mapping[TopicPartition, int], topic: str) -> Mapping[TopicPartition, int]:
    checked: dict[TopicPartition, int] = {}
    for tp, offset in offsets.items():
        pair = to_pair(tp)
        integer = isinstance(offset, OffsetAndMetadata) or hasattr(offset, "__index__")
        at = to_committed(offset)[0] if integer else None
        if at is None or isinstance(offset, bool):
            raise TypeError(f"{name} has {offset!r} as the offset of {name_of(tp)}: offsets are int")
        if pair[0] != topic:
            raise ConfigurationError(f"{name} has an offset of topic {pair[0]}, but topic {topic} is read")
        if at < 0:
            raise ConfigurationError(f"{name} has offset {at} of {name_of(tp)}: offsets start at 0")
        checked[TopicPartition(*pair)] = at
    if isinstance(offsets, Offsets):
        return Offsets(topic, checked, offsets.topic_id)
    return checked


def _milliseconds(name: str, time: datetime) -> int:
    try:
        found = to_milliseconds(time)
    except (OverflowError, OSError, ValueError):
        found = -1
    if found < 0:
        raise ConfigurationError(f"{name} {time.isoformat()} is not between 1970 and 9999")
    return found


def _shown(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
