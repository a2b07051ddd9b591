"""Kafka clients behind one face, a module each.

`produce(bootstrap, topic, codec, records, partition=0, **options)` and `consume(bootstrap, topic, count, partition=0,
**options)`; options are the client's own. `takes(record)` tells whether the producer accepts a
record at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
Headers = tuple[tuple[str, bytes | None], ...]


def dotted(options: Mapping[str, T]) -> dict[str, T]:
    """Options given as keywords, under Kafka's names."""
    return {name.replace("_", "."): value for name, value in options.items()}


@dataclass(frozen=True)
class Sent:
    """What is given to a producer. A timestamp of None is the producer's own choice."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp: int | None = None


@dataclass(frozen=True)
class Received:
    """What a consumer says it read; timestamps in milliseconds, None where there is none."""

    offset: int
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True)
class Poll:
    """What one `poll` gave, as (partition, record), and the positions after it in the order of the partitions."""

    records: tuple[tuple[int, Received], ...]
    positions: tuple[int, ...]
