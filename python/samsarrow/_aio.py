"""How event loops learn that something is done: what the core asks of them, in their own words."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from samsarrow import _core

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


def attach(running: AbstractEventLoop, bridge: _core.Bridge) -> bool:
    """Has an asyncio loop watch a bridge, which the loop keeps from then on; False if it cannot watch sockets."""
    try:
        running.add_reader(bridge.fileno(), bridge.drain)
    except NotImplementedError:
        # The Proactor loop of Windows.
        bridge.by_thread()
        return False
    return True


def ring(running: AbstractEventLoop | None, bridge: _core.Bridge | None) -> None:
    """Asks a loop that watches no sockets to look, from a thread of the core's."""
    if running is not None and bridge is not None:
        # Closed: nobody waits there any more.
        with suppress(RuntimeError):
            running.call_soon_threadsafe(bridge.drain)


def runs_trio() -> bool:
    """Whether a task of trio's runs here; it is not imported for that."""
    trio = sys.modules.get("trio")
    # Half imported by another thread it has nothing yet, and old versions cannot say.
    here = getattr(getattr(trio, "lowlevel", None), "in_trio_task", None)
    return here is not None and bool(here())


def runs_loop() -> bool:
    """Whether an event loop runs in this thread, which a blocking call would stop; asyncio is not imported for that."""
    # Half imported by another thread it runs nothing here.
    here = getattr(sys.modules.get("asyncio"), "_get_running_loop", None)
    return (here is not None and here() is not None) or runs_trio()


def in_trio() -> tuple[_core.Bridge, Any, Generator[Any, Any, Any]] | None:
    """The bridge of the trio run that this task belongs to, one who waits there, and what awaits it; None elsewhere."""
    if not runs_trio():
        return None
    from samsarrow import _trio

    return _trio.waiter()
