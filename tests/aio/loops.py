"""The event loops that everything awaited is tried under, and what they must leave behind: nothing."""

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


class NoReaders(asyncio.SelectorEventLoop):
    """A loop that watches no sockets for others, as the Proactor loop of Windows."""

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


#: How each of them runs a function.
RUN: dict[str, Callable[[Main], Any]] = {
    "asyncio": _runner(asyncio.SelectorEventLoop),
    "uvloop": _runner(uvloop.new_event_loop),
    "trio": lambda main: trio.run(main),
    "thread": _runner(NoReaders),
}


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def threads() -> set[str]:
    """Names of Python's threads."""
    return {thread.name for thread in threading.enumerate()}


#: Those that programs use.
COMMON = ("asyncio", "uvloop", "trio")


async def within(seconds: float, work: Callable[[], Awaitable[Any]]) -> Any:
    """What `work` gives; None if it was cancelled after that many seconds."""
    if _in_trio():
        with trio.move_on_after(seconds):
            return await work()
        return None
    try:
        return await asyncio.wait_for(work(), seconds)
    except TimeoutError:
        return None


async def cancelled_at(begun: threading.Event, work: Callable[[], Awaitable[Any]]) -> None:
    """Runs it, and cancels it once it has begun."""
    if _in_trio():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work)
            while not begun.is_set():
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel()
        return
    task = asyncio.ensure_future(_coroutine(work))
    while not begun.is_set() and not task.done():
        await asyncio.sleep(0.01)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def together(*works: Callable[[], Awaitable[Any]]) -> None:
    """Runs them at the same time."""
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
