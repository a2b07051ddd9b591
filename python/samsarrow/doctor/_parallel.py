"""Blocking calls in parallel, with a deadline."""

from __future__ import annotations

import itertools
import queue
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from samsarrow import _core

T = TypeVar("T")
R = TypeVar("R")

_WORKERS = 32


def map_until(function: Callable[[T], R], items: Sequence[T], timeout: float) -> list[R | None]:
    """Calls a function for each item, in up to 32 threads.

    The threads are daemons, because a call to the system's resolver cannot be interrupted and may take longer than the
    timeout.

    Args:
        function: function that must not raise. If it does, the result is None.
        items: arguments of the function.
        timeout: seconds for all calls.

    Returns:
        The results in the order of the items; None for calls that have not ended in time.
    """
    deadline = _core.Deadline(timeout)
    results: list[R | None] = [None] * len(items)
    ended: queue.SimpleQueue[bool] = queue.SimpleQueue()
    numbers = itertools.count()

    def work() -> None:
        # `next` is atomic, so each item is processed once.
        while (number := next(numbers)) < len(items) and not deadline.passed():
            try:
                results[number] = function(items[number])
            finally:
                ended.put(True)

    for _ in range(min(_WORKERS, len(items))):
        threading.Thread(target=work, daemon=True, name="samsarrow-doctor").start()
    for _ in items:
        try:
            ended.get(timeout=deadline.left())
        except queue.Empty:
            break
    # A copy, because threads that are still running may write to the list.
    return list(results)
