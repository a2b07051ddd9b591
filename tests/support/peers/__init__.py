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
    """What a consumer says it read; timestamps in milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
