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
    """Registers a bridge with an asyncio loop, which keeps it alive; returns False if the loop cannot watch sockets."""
    try:
        running.add_reader(bridge.fileno(), bridge.drain)
    except NotImplementedError:
        # The Proactor loop of Windows watches no sockets.
        bridge.wake_by_thread()
        return False
    return True


def ring(running: AbstractEventLoop | None, bridge: _core.Bridge | None) -> None:
    """Schedules a drain of the bridge in a loop that watches no sockets; called from threads of the Rust client."""
    if running is not None and bridge is not None:
        # A closed loop raises, and has no waiters.
        with suppress(RuntimeError):
            running.call_soon_threadsafe(bridge.drain)


def runs_trio() -> bool:
    """Returns whether this thread runs a trio task, without importing trio."""
    trio = sys.modules.get("trio")
    # The attributes are missing while another thread imports trio, and in old versions.
    in_task = getattr(getattr(trio, "lowlevel", None), "in_trio_task", None)
    return in_task is not None and bool(in_task())


def runs_loop() -> bool:
    """Returns whether this thread runs an event loop, which a blocking call would block, without importing asyncio."""
    # The attribute is missing while another thread imports asyncio; then no loop runs here.
    running_loop = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    return (running_loop is not None and running_loop() is not None) or runs_trio()


def in_trio() -> tuple[_core.Bridge, Any, Generator[Any, Any, Any]] | None:
    """Returns the bridge of the current trio run, a waiter and its awaiting generator; None outside trio."""
    if not runs_trio():
        return None
    from samsarrow import _trio

    return _trio.waiter()
