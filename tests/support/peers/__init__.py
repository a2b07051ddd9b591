"""Kafka clients with a common interface, one module per client.

`produce(bootstrap, topic, codec, records, partition=0, **options)` and `consume(bootstrap, topic, count, partition=0,
**options)`; the options are those of the client. `takes(record)` returns true if the producer accepts a
record.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Headers = tuple[tuple[str, bytes | None], ...]


def dotted(options: Mapping[str, T]) -> dict[str, T]:
    """Converts the names of keyword options to Kafka's names."""
    return {name.replace("_", "."): value for name, value in options.items()}


@dataclass(frozen=True)
class Sent:
    """A record to produce. If the timestamp is None, the producer sets it."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None


@dataclass(frozen=True)
class Received:
    """A consumed record. Its timestamp is in milliseconds, or None if it is missing."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True)
class Poll:
    """The records of one `poll` as (partition, record), and the positions of the partitions after it."""

    records: tuple[tuple[int, Received], ...]
    positions: tuple[int, ...]
