"""Handling of Ctrl-C and SIGTERM, so that commands end cleanly between two batches."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType


class Interrupted(KeyboardInterrupt):
    """The command was interrupted by a signal.

    Attributes:
        exit_code: exit code of the command, 128 plus the number of the signal, as in shells.
    """

    def __init__(self, number: int) -> None:
        super().__init__()
        self.exit_code = 128 + number


class Signals:
    """Calls `wake` on the first signal; raises `Interrupted` on the second, or immediately if `wake` is not set."""

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
        """Raises `Interrupted` with the exit code of the received signal, if any."""
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
