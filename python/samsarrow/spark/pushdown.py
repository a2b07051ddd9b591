"""Predicates on topic, partition, offset and timestamp as bounds of what is read at all.

Spark evaluates every predicate again on what is read: here is only decided what need not be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

# The largest offset that there can be.
LAST = 2**63 - 1
_OFFSETS_ABOVE = {"GreaterThan": 1, "GreaterThanOrEqual": 0}
_OFFSETS_BELOW = {"LessThan": 0, "LessThanOrEqual": 1}
_EQUAL = ("EqualTo", "EqualNullSafe")


@dataclass
class Predicates:
    """What rows must be like to be wanted; nothing given allows everything.

    Attributes:
        topics: names that a row may have.
        partitions: numbers that a row may have.
        first: lowest offset that a row may have.
        end: offset that every row is below.
        since_ms: lowest time that a row may have. An upper one would help nobody: later records may be older.
    """

    topics: set[str] | None = None
    partitions: set[int] | None = None
    first: int = 0
    end: int | None = None
    since_ms: int | None = None
    used: list[str] = field(default_factory=list)

    def take(self, filters: Iterable[Any]) -> None:
        """Looks at Spark's filters, which all must hold; those of no use are passed over."""
        for one in filters:
            name = type(one).__name__
            attribute: tuple[str, ...] = getattr(one, "attribute", ())
            if len(attribute) == 1 and self._use(attribute[0].lower(), name, getattr(one, "value", None)):
                self.used.append(f"{attribute[0]} {name}")

    def _use(self, column: str, name: str, value: Any) -> bool:
        if column in ("topic", "partition") and (name in _EQUAL or name == "In"):
            # A null equals nothing that is ever in these columns.
            values = {v for v in (value if name == "In" else (value,)) if v is not None}
            if column == "topic":
                self.topics = values if self.topics is None else self.topics & values
            else:
                self.partitions = values if self.partitions is None else self.partitions & values
            return True
        if column == "offset":
            return self._use_offset(name, value)
        if column == "timestamp" and isinstance(value, datetime) and (name in _OFFSETS_ABOVE or name in _EQUAL):
            aware = value if value.tzinfo else value.replace(tzinfo=UTC)
            # Down to the millisecond: Kafka knows no finer time.
            since = int(aware.timestamp() * 1_000_000) // 1000
            self.since_ms = max(since, self.since_ms or 0, 0)
            return True
        return False

    def _use_offset(self, name: str, value: Any) -> bool:
        low = high = None
        if name in _OFFSETS_ABOVE and value is not None:
            low = value + _OFFSETS_ABOVE[name]
        elif name in _OFFSETS_BELOW and value is not None:
            high = value + _OFFSETS_BELOW[name]
        elif name in _EQUAL and value is not None:
            low, high = value, value + 1
        elif name == "In" and (numbers := [v for v in value if v is not None]):
            low, high = min(numbers), max(numbers) + 1
        if low is not None:
            self.first = max(self.first, low)
        if high is not None:
            self.end = high if self.end is None else min(self.end, high)
        return low is not None or high is not None

    def question(self) -> dict[str, Any]:
        """As the planner is asked; offsets within those that there can be."""
        return {
            "topics": None if self.topics is None else sorted(self.topics),
            "partitions": None if self.partitions is None else sorted(self.partitions),
            "offset_from": min(self.first, LAST),
            "offset_until": None if self.end is None else min(self.end, LAST),
            "time_from": self.since_ms,
        }
