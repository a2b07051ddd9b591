"""Event loops under which the async clients are tested, and helpers to check that no resources are left open."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import trio
import uvloop

Main = Callable[[], Awaitable[Any]]


class NoReadersLoop(asyncio.SelectorEventLoop):
    """An event loop that can watch only its own socket, like the Proactor loop of Windows."""

    def add_reader(self, fd: Any, *arguments: Any) -> None:  # type: ignore[override]
        if fd is not self._ssock.fileno():  # type: ignore[attr-defined]
            raise NotImplementedError
        super().add_reader(fd, *arguments)


def _runner(loop_factory: Any) -> Callable[[Main], Any]:
    def run(main: Main) -> Any:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(_coroutine(main))

    return run


async def _coroutine(main: Main) -> Any:
    return await main()


#: Functions that run a coroutine function in a new event loop, by the name of the loop.
RUN: dict[str, Callable[[Main], Any]] = {
    "asyncio": _runner(asyncio.SelectorEventLoop),
    "uvloop": _runner(uvloop.new_event_loop),
    "trio": lambda main: trio.run(main),
    "thread": _runner(NoReadersLoop),
}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> set[str]:
    """Returns the names of all Python threads."""
    return {thread.name for thread in threading.enumerate()}


#: Names of the loops that applications use.
COMMON = ("asyncio", "uvloop", "trio")


async def within(seconds: float, work: Callable[[], Awaitable[Any]]) -> Any:
    """Returns the result of `work()`, or None if it takes longer than `seconds` and is cancelled."""
    if _in_trio():
        with trio.move_on_after(seconds):
            return await work()
        return None
    try:
        return await asyncio.wait_for(work(), seconds)
    except TimeoutError:
        return None


async def cancel_after(begun: Callable[[], bool], work: Callable[[], Awaitable[Any]]) -> None:
    """Runs `work` and cancels it once `begun` returns True."""
    if _in_trio():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            while not begun():
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        return
    task = asyncio.ensure_future(_coroutine(work))
    while not begun() and not task.done():
        await asyncio.sleep(0.01)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def together(*works: Callable[[], Awaitable[Any]]) -> None:
    """Runs the functions concurrently."""
    if _in_trio():
        async with trio.open_nursery() as nursery:
            for work in works:
                nursery.start_soon(work)
    else:
        await asyncio.gather(*(work() for work in works))


async def pause(seconds: float) -> None:
    await (trio.sleep(seconds) if _in_trio() else asyncio.sleep(seconds))


def _in_trio() -> bool:
    return trio.lowlevel.in_trio_task()
