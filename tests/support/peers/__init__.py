"""Kafka clients behind one interface, a module each.

`produce(bootstrap, topic, codec, records, partition=0, **options)` and `consume(bootstrap, topic, count, partition=0,
**options)`; options are the client's own. `takes(record)` returns true if the producer accepts a
record.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Headers = tuple[tuple[str, bytes | None], ...]


def dotted(options: Mapping[str, T]) -> dict[str, T]:
    """Returns options passed as keywords, under Kafka's names."""
    return {name.replace("_", "."): value for name, value in options.items()}


@dataclass(frozen=True)
class Sent:
    """A record to produce. A timestamp of None is set by the producer."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None


@dataclass(frozen=True)
class Received:
    """A consumed record; timestamps in milliseconds, None if missing."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True)
class Poll:
    """The records of one `poll` as (partition, record), and the positions after it, in the order of the partitions."""

    records: tuple[tuple[int, Received], ...]
    positions: tuple[int, ...]
