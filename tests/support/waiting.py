"""Waiting for what comes in its own time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(met: Callable[[], T], how: Callable[[], object] | None = None, seconds: float = 60, pause: float = 0.01) -> T:
    """What `met` finds once it finds something. If it never does, `how` says how things are."""
    deadline = time.monotonic() + seconds
    while not (found := met()):
        assert time.monotonic() < deadline, "it did not happen" if how is None else how()
        time.sleep(pause)
    return found


def settled(look: Callable[[], T], seconds: float = 60, pause: float = 0.2) -> T:
    """What `look` finds once it finds the same twice, a moment apart."""
    deadline = time.monotonic() + seconds
    found = look()
    while True:
        time.sleep(pause)
        if (now := look()) == found:
            return found
        assert time.monotonic() < deadline, f"it goes on changing: {found}, {now}"
        found = now
