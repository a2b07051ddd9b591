"""Cancels a call at its k-th wait, in asyncio and trio."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any


class CallCancelledError(Exception):
    """The disturbance cancelled a call."""


class Cancelled:
    """Cancels each call at its k-th wait; k grows from 1 to the number of waits of a call."""

    def __init__(self, calls: int, late: bool, loop: str) -> None:
        self._left, self._late, self._trio = calls, late, loop == "trio"
        self._k = 1

    async def call(self, work: Awaitable[Any]) -> Any:
        """Awaits `work` and cancels it at its k-th wait.

        Raises:
            CallCancelledError: the call was cancelled.
        """
        if self._left == 0:
            return await work
        self._left -= 1
        waits = _Waits(work, self._k, self._late, self._trio)
        try:
            if self._trio:
                import trio

                with trio.CancelScope() as scope:
                    waits.cancel = scope.cancel
                    return await waits
                raise CallCancelledError
            try:
                return await waits
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if not waits.reached or task is None:
                    raise
                task.uncancel()
                raise CallCancelledError from None
        finally:
            if waits.reached:
                self._k += 1
            else:
                self._k, self._late = 1, not self._late


class _Waits:
    """Wraps an awaitable: counts its waits, and cancels the task at the k-th wait.

    With `late` the cancellation arrives after the wait has its result and before the task runs again.
    """

    def __init__(self, work: Awaitable[Any], k: int, late: bool, in_trio: bool) -> None:
        self._work, self._k, self._late, self._trio = work, k, late, in_trio
        self.reached = False
        self.cancel: Callable[[], object] | None = None

    def __await__(self) -> Generator[Any, Any, Any]:
        waits, count = self._work.__await__(), 0
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                wait = waits.send(value) if error is None else waits.throw(error)
            except StopIteration as done:
                return done.value
            count += 1
            if count == self._k:
                self._cancel(wait)
            value, error = None, None
            try:
                value = yield wait
            except BaseException as caught:
                error = caught

    def _cancel(self, wait: Any) -> None:
        self.reached = True
        if self._trio:
            assert self.cancel is not None
            self.cancel()
            return
        task = asyncio.current_task()
        assert task is not None
        if self._late and wait is not None:
            wait.add_done_callback(lambda _wait: task.cancel())
        else:
            task.cancel()
