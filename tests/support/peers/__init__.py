"""Kafka clients behind one face, a module each.

`produce(bootstrap, topic, codec, records)` and `consume(bootstrap, topic, count)`, always of partition 0.
"""

from dataclasses import dataclass

Headers = tuple[tuple[str, bytes | None], ...]


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
