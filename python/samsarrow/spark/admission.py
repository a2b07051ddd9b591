"""How much of what is there a micro-batch takes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from samsarrow.spark.bounds import PerPartition


def share(limit: int, start: Mapping, latest: PerPartition, new: Mapping) -> PerPartition:  # type: ignore[type-arg]
    """Ends of a micro-batch of about `limit` offsets, each partition in proportion to its backlog.

    Args:
        limit: `maxOffsetsPerTrigger`.
        start: where each partition is.
        latest: where each partition ends.
        new: first offsets of partitions that are not in `start`.
    """
    sizes = {tp: end - start.get(tp, new.get(tp, end)) for tp, end in latest.items()}
    total = sum(size for size in sizes.values() if size > 0)
    if total == 0:
        return dict(latest)
    result = {}
    for tp, end in latest.items():
        if sizes[tp] <= 0:
            result[tp] = end
            continue
        # The least share is one offset: small partitions do not starve beside large ones.
        part = limit * (sizes[tp] / total)
        result[tp] = min(end, end - sizes[tp] + (math.ceil(part) if part < 1 else math.floor(part)))
    return result


class Patience:
    """Waits for `minOffsetsPerTrigger`, but no longer than `maxTriggerDelay`."""

    def __init__(self, least: int, delay_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._least = least
        self._delay_s = delay_s
        self._clock = clock
        # The first micro-batch starts with whatever there is.
        self._started: float | None = None

    def wait(self, start: PerPartition, latest: PerPartition) -> bool:
        """Whether the micro-batch should wait for more."""
        now = self._clock()
        waiting = sum(end - start.get(tp, 0) for tp, end in latest.items())
        if self._started is not None and now - self._started < self._delay_s and waiting < self._least:
            return True
        self._started = now
        return False
