"""The steps of the probe, one for each feature: each does it, and checks what came of it value by value.

A step returns when the feature works and raises otherwise. What it writes is read back by us, and by librdkafka where
another reader or writer could tell a difference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from . import group_steps, record_steps
from .subject import Probe


def steps(features: Sequence[str]) -> list[Callable[[Probe], None]]:
    """Those of these features, in their order."""
    everything = {**vars(record_steps), **vars(group_steps)}
    return [everything[name] for name in features]
