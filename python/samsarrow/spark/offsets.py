"""Offsets as Spark keeps them in checkpoints: `{"topic":{"0":23}}`, each the next one to read.

That is the JSON of Spark's own connector: a checkpoint of the one is continued by the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from samsarrow.exceptions import ConfigurationError
from samsarrow.types import TopicPartition

Json = dict[str, dict[str, int]]


def to_json(offsets: Mapping[TopicPartition, int]) -> Json:
    """Sorted by topic and number of the partition: Spark takes offsets for equal only if their texts are."""
    result: Json = {}
    for tp in sorted(offsets):
        result.setdefault(tp.topic, {})[str(tp.partition)] = offsets[tp]
    return result


def from_json(told: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """What `to_json` or the connector wrote.

    Raises:
        ConfigurationError: these are offsets of another source.
    """
    try:
        return {TopicPartition(t, int(p)): int(offset) for t, ps in told.items() for p, offset in ps.items()}
    except (AttributeError, TypeError, ValueError):
        raise ConfigurationError(
            f"the checkpoint has offsets of another source: {told!r} instead of {{'topic': {{'0': 23}}}}; "
            "give the query a checkpointLocation of its own"
        ) from None
