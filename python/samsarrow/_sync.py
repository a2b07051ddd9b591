"""One body for two faces: operations are coroutines, which the blocking classes run at once and the others await."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

from samsarrow import _core
from samsarrow._aio import runs_trio

T = TypeVar("T")
Class = TypeVar("Class", bound=type)


class Do(Protocol):
    """How a call of the core is waited for: `Runner._run`."""

    def __call__(self, call: _core.Call[T], /) -> Coroutine[Any, Any, T]: ...


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine of a blocking class: what it waits for, it waits for in this thread."""
    try:
        work.send(None)
    except StopIteration as done:
        found: T = done.value
        return found
    work.close()
    raise RuntimeError("a blocking call received an awaitable: use the class for event loops")


class Runner:
    """How a client waits for its core."""

    @staticmethod
    async def _run(call: _core.Call[T]) -> T:
        raise NotImplementedError


class Blocking(Runner):
    """It waits in the thread that calls."""

    @staticmethod
    async def _run(call: _core.Call[T]) -> T:
        return call.wait()


class Awaiting(Runner):
    """It awaits, in the loop that runs."""

    @staticmethod
    async def _run(call: _core.Call[T]) -> T:
        return await call


def documented_by(other: type) -> Callable[[Class], Class]:
    """Methods without a text of their own have that of the other face."""

    def document(cls: Class) -> Class:
        for name, member in vars(cls).items():
            text = getattr(getattr(other, name, None), "__doc__", None)
            if callable(member) and not name.startswith("__") and not member.__doc__ and text:
                member.__doc__ = text
        return cls

    return document


class _Yield:
    def __await__(self) -> Generator[None, None, None]:
        yield


async def checkpoint() -> None:
    """Lets other tasks of the loop run once, and cancellations arrive."""
    if runs_trio():
        await sys.modules["trio"].lowlevel.checkpoint()
    else:
        await _Yield()


async def shielded(work: Awaitable[T]) -> T:
    """Waits for the end of `work` even if cancelled, and is cancelled then."""
    if runs_trio():
        with sys.modules["trio"].CancelScope(shield=True):
            return await work
    # With the first loop, and not with every client.
    import asyncio

    anyio = sys.modules.get("anyio")
    # Its scopes cancel again and again.
    scope: AbstractContextManager[Any] = anyio.CancelScope(shield=True) if anyio else nullcontext()
    task = asyncio.ensure_future(work)
    cancelled = None
    with scope:
        while not task.done():
            try:
                await asyncio.wait([task])
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        if not task.cancelled():
            # Looked at, or it would be logged.
            task.exception()
        raise cancelled
    return task.result()
