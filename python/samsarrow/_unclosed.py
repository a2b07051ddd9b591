"""Clients that are not closed by the application, but by garbage collection or the exit of the interpreter."""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress

from samsarrow import _core
from samsarrow.exceptions import ForkError, KafkaError

# The time that the exit of the interpreter has for all clients.
EXIT_TIMEOUT = 5.0
# Time after that in which a producer logs records that it gives up.
_LOG_TIMEOUT = 1.0

_consumers: dict[int, _core.Consumer] = {}
_producers: dict[int, tuple[_core.Producer, str]] = {}
# Processes of multiprocessing that call `close_all` as they end.
_registered: set[int] = set()
# Calls that close a client in the background; with the core of a producer.
_closing: list[tuple[_core.Call[None], _core.Producer | None]] = []


def watch_consumer(
    client: object, core: _core.Consumer, close: Callable[[_core.Consumer], None]
) -> weakref.finalize[..., object]:
    """Has `close(core)` called when `client` is garbage collected, and closes it when the interpreter exits."""
    _consumers[id(core)] = core
    return _watch(client, close, core)


def watch_producer(client: object, core: _core.Producer) -> weakref.finalize[..., object]:
    """Closes the core when `client` is garbage collected or the interpreter exits."""
    _producers[id(core)] = core, type(client).__name__
    _close_with_process()
    return _watch(client, close_producer, core)


def _close_with_process() -> None:
    """Registers `close_all` in a child of multiprocessing: one that is forked ends without the interpreter's exit."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or os.getpid() in _registered:
        return
    _registered.add(os.getpid())
    sys.modules["multiprocessing.util"].Finalize(None, close_all, exitpriority=0)


def _watch(client: object, function: Callable[..., None], core: object) -> weakref.finalize[..., object]:
    finalizer = weakref.finalize(client, function, core)
    finalizer.atexit = False
    return finalizer


def unregister(core: _core.Consumer | _core.Producer) -> None:
    """The application closes this one."""
    _consumers.pop(id(core), None)
    _producers.pop(id(core), None)


def close_consumer(core: _core.Consumer, seconds: float = EXIT_TIMEOUT) -> None:
    """Has a consumer leave its group, and waits for it."""
    _consumers.pop(id(core), None)
    # After a fork it is the parent's.
    with suppress(KafkaError):
        core.close(seconds).wait()


def close_consumer_in_background(core: _core.Consumer) -> None:
    """The same without a wait: it may be an event loop's thread."""
    _consumers.pop(id(core), None)
    with suppress(KafkaError):
        _start(core.close(EXIT_TIMEOUT), None)


def close_producer(core: _core.Producer, usable: bool = False) -> None:
    """Has a producer deliver its records in the background: its deliveries keep their results, and no thread waits."""
    # The exit of the interpreter may have been faster, or the application has closed it.
    if id(core) not in _producers:
        return
    _, name = _producers[id(core)]
    try:
        _start(core.finish(usable), core)
    except ForkError:
        # It is the parent's.
        return
    finally:
        _producers.pop(id(core), None)
    warnings.warn(f"unclosed {name}: call close(), or use a with block", ResourceWarning, stacklevel=2)


def wait_at_exit(core: _core.Producer) -> None:
    """Gives the records of a producer whose `close` was interrupted the time of the interpreter's exit, too."""
    with suppress(ForkError):
        _start(core.flush(None, False), core)


def _start(call: _core.Call[None], producer: _core.Producer | None) -> None:
    call.start()
    _closing[:] = [*(one for one in _closing if not one[0].ended()), (call, producer)]


def close_all() -> None:
    """Closes all clients as the interpreter exits, when no other thread uses a client any more. The core calls it."""
    deadline = _core.Deadline(EXIT_TIMEOUT)
    for producer, _ in list(_producers.values()):
        # Finalizers of the application may still use it.
        close_producer(producer, usable=True)
    for consumer in list(_consumers.values()):
        close_consumer(consumer, max(0.1, deadline.left()))
    _wait_until(deadline)
    for call, core in _closing:
        if core is not None and not call.ended():
            with suppress(ForkError):
                core.give_up()
    _wait_until(_core.Deadline(_LOG_TIMEOUT))


def _wait_until(deadline: _core.Deadline) -> None:
    while any(not call.ended() for call, _ in _closing) and not deadline.passed():
        # Not `time.sleep`: that of gevent and eventlet would have other greenlets run.
        deadline.sleep(0.01)
