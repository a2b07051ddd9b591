"""Closing of clients that the application did not close, at garbage collection and at the exit of the interpreter."""

from __future__ import annotations

import os
import sys
import warnings
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from samsarrow import _core
from samsarrow.exceptions import ForkError, KafkaError

# Maximum seconds for closing all clients at the exit of the interpreter.
EXIT_TIMEOUT = 5.0
# Maximum additional seconds for producers to log undelivered records.
_LOG_TIMEOUT = 1.0

# A consumer or a share consumer of the Rust client.
_AnyConsumer = TypeVar("_AnyConsumer", _core.Consumer, _core.ShareConsumer)

_consumers: dict[int, _core.Consumer | _core.ShareConsumer] = {}
_producers: dict[int, tuple[_core.Producer, str]] = {}
# Process ids of multiprocessing children that call `close_all` when they exit.
_registered: set[int] = set()
# Pending calls that close a client in the background, each with the Rust producer that it closes, or None for a
# consumer.
_closing: list[tuple[_core.Call[None], _core.Producer | None]] = []


def watch_consumer(
    client: object, core: _AnyConsumer, close: Callable[[_AnyConsumer], None]
) -> weakref.finalize[..., object]:
    """Registers a consumer, which is closed by `close` when `client` is garbage collected, or closed at exit."""
    _consumers[id(core)] = core
    return _watch(client, close, core)


def watch_producer(client: object, core: _core.Producer) -> weakref.finalize[..., object]:
    """Registers a producer, which is closed when `client` is garbage collected or the interpreter exits."""
    _producers[id(core)] = core, type(client).__name__
    _close_with_process()
    return _watch(client, close_producer, core)


def _close_with_process() -> None:
    """Registers `close_all` with multiprocessing, whose forked children exit without running exit handlers."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or os.getpid() in _registered:
        return
    _registered.add(os.getpid())
    sys.modules["multiprocessing.util"].Finalize(None, close_all, exitpriority=0)


def _watch(client: object, function: Callable[..., None], core: object) -> weakref.finalize[..., object]:
    finalizer = weakref.finalize(client, function, core)
    finalizer.atexit = False
    return finalizer


def unregister(core: _core.Consumer | _core.ShareConsumer | _core.Producer) -> None:
    """Removes a client that the application closes itself."""
    _consumers.pop(id(core), None)
    _producers.pop(id(core), None)


def close_consumer(core: _core.Consumer | _core.ShareConsumer, seconds: float = EXIT_TIMEOUT) -> None:
    """Closes a consumer, so that it leaves its group, and waits until it is closed."""
    _consumers.pop(id(core), None)
    # After a fork the consumer belongs to the parent process, and `close` raises ForkError.
    with suppress(KafkaError):
        core.close(seconds).wait()


def close_consumer_in_background(core: _core.Consumer | _core.ShareConsumer) -> None:
    """Closes a consumer without waiting, because the caller may be the thread of an event loop."""
    _consumers.pop(id(core), None)
    with suppress(KafkaError):
        _start(core.close(EXIT_TIMEOUT), None)


def close_producer(core: _core.Producer, usable: bool = False) -> None:
    """Starts to close a producer in the background, which delivers its queued records.

    Args:
        core: the producer.
        usable: whether the producer still accepts calls, because finalizers of the application may use it.
    """
    # The application or the exit of the interpreter may have closed the producer already.
    if id(core) not in _producers:
        return
    _, name = _producers[id(core)]
    try:
        _start(core.finish(usable), core)
    except ForkError:
        # The producer belongs to the parent process.
        return
    finally:
        _producers.pop(id(core), None)
    warnings.warn(f"unclosed {name}: call close(), or use a with block", ResourceWarning, stacklevel=2)


def wait_at_exit(core: _core.Producer) -> None:
    """Makes the exit of the interpreter wait for the records of a producer whose `close` was interrupted."""
    with suppress(ForkError):
        _start(core.flush(None, False), core)


def _start(call: _core.Call[None], producer: _core.Producer | None) -> None:
    call.start()
    _closing[:] = [*(entry for entry in _closing if not entry[0].ended()), (call, producer)]


def close_all() -> None:
    """Closes all clients when the interpreter exits. Called by the Rust client once no other thread uses a client."""
    deadline = _core.Deadline(EXIT_TIMEOUT)
    for producer, _ in list(_producers.values()):
        # Finalizers of the application may still use the producer.
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
        # `time.sleep` is not used, because gevent and eventlet would run other greenlets during the sleep.
        deadline.sleep(0.01)
