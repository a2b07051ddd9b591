"""Steps of the probe, one for each feature. Each step uses its feature and compares the results.

A step returns if the feature works and raises otherwise. Its records are read back by us, and also by librdkafka if
another client could see a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import group_steps, record_steps
from .subject import Probe


def steps(features: Sequence[str]) -> list[Callable[[Probe], None]]:
    """Returns the steps of these features, in order."""
    everything = {**vars(record_steps), **vars(group_steps)}
    return [everything[name] for name in features]
