"""Bridge between the Rust client and trio, also for anyio on trio. Imported only if the application runs trio."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import outcome
import trio

from samsarrow import _core

_BRIDGE: trio.lowlevel.RunVar[_core.Bridge] = trio.lowlevel.RunVar("samsarrow bridge")


class _Waiter:
    """A waiting trio task, with the future methods that the Rust client calls."""

    __slots__ = ("_done", "_task")

    def __init__(self) -> None:
        self._task = trio.lowlevel.current_task()
        self._done = False

    def done(self) -> bool:
        return self._done

    def set_result(self, value: Any) -> None:
        self._done = True
        trio.lowlevel.reschedule(self._task, outcome.Value(value))

    def set_exception(self, error: BaseException) -> None:
        self._done = True
        trio.lowlevel.reschedule(self._task, outcome.Error(error))

    def exception(self) -> None:
        """Does nothing, because trio, unlike asyncio, does not log exceptions that are never retrieved."""

    def _abort(self, _raise_cancel: Any) -> trio.lowlevel.Abort:
        self._done = True
        return trio.lowlevel.Abort.SUCCEEDED

    async def wait(self) -> Any:
        return await trio.lowlevel.wait_task_rescheduled(self._abort)


def waiter() -> tuple[_core.Bridge, _Waiter, Generator[Any, Any, Any]]:
    """Returns the bridge of this run, a waiter, and the generator that awaits it. Creates the bridge on first use."""
    try:
        bridge = _BRIDGE.get()
    except LookupError:
        bridge = _core.Bridge()
        _BRIDGE.set(bridge)
        trio.lowlevel.spawn_system_task(_serve, bridge)
    task = _Waiter()
    return bridge, task, task.wait().__await__()


async def _serve(bridge: _core.Bridge) -> None:
    """Drains the bridge whenever its file descriptor is readable, until the run ends."""
    try:
        while True:
            await trio.lowlevel.wait_readable(bridge.fileno())
            bridge.drain()
    finally:
        bridge.close()
