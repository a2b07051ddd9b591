"""Ctrl-C and SIGTERM: a command that reads or writes ends between two batches, with what it has done in order."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType


class Interrupted(KeyboardInterrupt):
    """The user, or a supervisor, wants the command to end.

    Attributes:
        exit_code: as shells have it, 128 and the number of the signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


class Signals:
    """Calls `wake` at the first signal; the second one, or one while there is nothing to wake, is raised at once."""

    def __init__(self) -> None:
        self.wake: Callable[[], object] | None = None
        self.received: int | None = None
        self._before: dict[int, object] = {}

    def _take(self, number: int, _frame: FrameType | None) -> None:
        first, self.received = self.received is None, number
        if not first or self.wake is None:
            raise Interrupted(number)
        self.wake()

    def raise_received(self) -> None:
        """Ends the command with the exit code of the signal, if there was one."""
        if self.received is not None:
            raise Interrupted(self.received)

    def __enter__(self) -> Signals:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._take)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
