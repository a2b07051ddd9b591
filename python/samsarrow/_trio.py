"""The bridge in trio, and so in anyio over trio. Imported by nothing but a program that runs trio."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import outcome
import trio

from samsarrow import _core

_BRIDGE: trio.lowlevel.RunVar[_core.Bridge] = trio.lowlevel.RunVar("samsarrow bridge")


class _Waiter:
    """A task that waits, with the methods of a future that the core calls."""

    __slots__ = ("_over", "_task")

    def __init__(self) -> None:
        self._task = trio.lowlevel.current_task()
        self._over = False

    def done(self) -> bool:
        return self._over

    def set_result(self, value: Any) -> None:
        self._over = True
        trio.lowlevel.reschedule(self._task, outcome.Value(value))

    def set_exception(self, error: BaseException) -> None:
        self._over = True
        trio.lowlevel.reschedule(self._task, outcome.Error(error))

    def exception(self) -> None:
        """Futures of asyncio log an exception that nobody asks for; here there is nothing to do."""

    def _abort(self, _raise_cancel: Any) -> trio.lowlevel.Abort:
        self._over = True
        return trio.lowlevel.Abort.SUCCEEDED

    async def wait(self) -> Any:
        return await trio.lowlevel.wait_task_rescheduled(self._abort)


def waiter() -> tuple[_core.Bridge, _Waiter, Generator[Any, Any, Any]]:
    """The bridge of this run, made at its first use; one who waits; and what awaits it."""
    try:
        bridge = _BRIDGE.get()
    except LookupError:
        bridge = _core.Bridge()
        _BRIDGE.set(bridge)
        trio.lowlevel.spawn_system_task(_serve, bridge)
    waits = _Waiter()
    return bridge, waits, waits.wait().__await__()


async def _serve(bridge: _core.Bridge) -> None:
    """Drains the bridge until the run ends."""
    try:
        while True:
            await trio.lowlevel.wait_readable(bridge.fileno())
            bridge.drain()
    finally:
        bridge.close()
