"""Runners that let blocking and async clients share one implementation.

Shared methods are coroutines. Blocking classes run them with `run_sync`, async classes await them.
"""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

from samsarrow import _core
from samsarrow._aio import runs_trio
from samsarrow._names import rename_methods

T = TypeVar("T")
Class = TypeVar("Class", bound=type)


class RunCall(Protocol):
    """Type of `Runner._run`, which waits for a call of the Rust client."""

    def __call__(self, call: _core.Call[T], /) -> Coroutine[Any, Any, T]: ...


def run_sync(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine of a blocking class in this thread until it ends.

    Raises:
        RuntimeError: the coroutine awaits an object that needs an event loop.
    """
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("a blocking call received an awaitable: use the class for event loops")


class Runner:
    """Base of clients, whose `_run` waits for calls of the Rust client."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        rename_methods(cls)

    @staticmethod
    async def _run(call: _core.Call[T]) -> T:
        raise NotImplementedError


class Blocking(Runner):
    """Runner that blocks the calling thread."""

    @staticmethod
    async def _run(call: _core.Call[T]) -> T:
        return call.wait()


class Awaiting(Runner):
    """Runner that awaits in the running event loop."""

    @staticmethod
    async def _run(call: _core.Call[T]) -> T:
        return await call


def documented_by(other: type) -> Callable[[Class], Class]:
    """Copies docstrings from the methods of `other` to methods of the decorated class that have none."""

    def document(cls: Class) -> Class:
        for name, member in vars(cls).items():
            text = getattr(getattr(other, name, None), "__doc__", None)
            if callable(member) and not name.startswith("__") and not member.__doc__ and text:
                member.__doc__ = text
        return cls

    return document


def base_of_clients(cls: Class) -> Class:
    """Removes the name of a private base class from its public methods, which TypeErrors of Python contain."""
    for name, member in vars(cls).items():
        if callable(member) and not name.startswith("_"):
            member.__qualname__ = name
    return cls


class _Yield:
    def __await__(self) -> Generator[None, None, None]:
        yield


async def checkpoint() -> None:
    """Yields to the event loop once, so that other tasks can run and a pending cancellation is raised."""
    if runs_trio():
        await sys.modules["trio"].lowlevel.checkpoint()
    else:
        await _Yield()


async def shielded(work: Awaitable[T]) -> T:
    """Waits until `work` ends even if the caller is cancelled; the cancellation is raised afterwards."""
    if runs_trio():
        with sys.modules["trio"].CancelScope(shield=True):
            return await work
    # Imported here because blocking clients do not need asyncio.
    import asyncio

    anyio = sys.modules.get("anyio")
    # A cancelled scope of anyio cancels the task repeatedly, so the wait runs in a shielded scope.
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
            # Retrieves the exception, because asyncio logs exceptions that are never retrieved.
            task.exception()
        raise cancelled
    return task.result()
