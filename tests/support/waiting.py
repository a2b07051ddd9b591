"""Functions that wait for a condition."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(met: Callable[[], T], how: Callable[[], object] | None = None, seconds: float = 60, pause: float = 0.01) -> T:
    """Waits until `met` returns a true value, and returns it. After a timeout, `how` returns the error message."""
    deadline = time.monotonic() + seconds
    while not (found := met()):
        assert time.monotonic() < deadline, "it did not happen" if how is None else how()
        time.sleep(pause)
    return found


def settled(look: Callable[[], T], seconds: float = 60, pause: float = 0.2) -> T:
    """Waits until two calls of `look`, `pause` seconds apart, return the same value, and returns it."""
    deadline = time.monotonic() + seconds
    found = look()
    while True:
        time.sleep(pause)
        if (now := look()) == found:
            return found
        assert time.monotonic() < deadline, f"it goes on changing: {found}, {now}"
        found = now
