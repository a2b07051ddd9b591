"""Durations of checks."""

from samsarrow import _core

# Longer than any check takes.
_LIMIT = 1e6


class Stopwatch:
    """Measures time since its creation, also where an application has replaced Python's clocks."""

    def __init__(self) -> None:
        self._deadline = _core.Deadline(_LIMIT)

    @property
    def seconds(self) -> float:
        """Seconds since the creation."""
        return _LIMIT - self._deadline.left()
