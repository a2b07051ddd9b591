"""Notification of asyncio and trio event loops about completed calls. The functions are called by the Rust client."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from samsarrow import _core

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def attach(running: AbstractEventLoop, bridge: _core.Bridge) -> bool:
    """Registers a bridge with an asyncio loop, which keeps the bridge alive.

    Returns False if the loop cannot watch sockets.
    """
    try:
        running.add_reader(bridge.fileno(), bridge.drain)
    except NotImplementedError:
        # The Proactor loop of Windows cannot watch sockets.
        bridge.wake_by_thread()
        return False
    return True


def ring(running: AbstractEventLoop | None, bridge: _core.Bridge | None) -> None:
    """Schedules a drain of the bridge in a loop that cannot watch sockets. Called from threads of the Rust client."""
    if running is not None and bridge is not None:
        # A closed loop raises RuntimeError. The error can be ignored, because nothing waits in a closed loop.
        with suppress(RuntimeError):
            running.call_soon_threadsafe(bridge.drain)


def runs_trio() -> bool:
    """Returns whether this thread runs a trio task. Does not import trio."""
    trio = sys.modules.get("trio")
    # The attributes are missing in old versions of trio, and while another thread is importing trio.
    in_task = getattr(getattr(trio, "lowlevel", None), "in_trio_task", None)
    return in_task is not None and bool(in_task())


def runs_loop() -> bool:
    """Returns whether this thread runs an event loop, which a blocking call would block. Does not import asyncio."""
    # The attribute is missing while another thread is importing asyncio. In that case this thread runs no loop.
    running_loop = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    return (running_loop is not None and running_loop() is not None) or runs_trio()


def in_trio() -> tuple[_core.Bridge, Any, Generator[Any, Any, Any]] | None:
    """Returns the bridge of the current trio run, a waiter and the generator that awaits it; None outside trio."""
    if not runs_trio():
        return None
    from samsarrow import _trio

    return _trio.waiter()
