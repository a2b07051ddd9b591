"""Threads on which the Rust client calls Python for log lines, delivery callbacks, assignors and token providers."""

from __future__ import annotations

import _imp
import _thread
import functools
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from importlib.machinery import BuiltinImporter
from types import ModuleType
from typing import Any

from samsarrow import _core
from samsarrow.exceptions import KafkaError


def _unpatched() -> ModuleType:
    """Returns a second instance of the module `_thread`, because gevent and eventlet patch the imported instance."""
    spec = BuiltinImporter.find_spec("_thread")
    if spec is None:
        raise ImportError("this Python has no built-in module _thread, which threads of clients need")
    module: ModuleType = _imp.create_builtin(spec)
    _imp.exec_builtin(module)
    return module


_native = _unpatched()


def run_in_thread(function: Callable[..., object], *arguments: object) -> None:
    """Calls a function in a new system thread. The process can exit while the thread runs."""
    _native.start_new_thread(_run_to_end, (function, arguments))


def _run_to_end(function: Callable[..., object], arguments: tuple[object, ...]) -> None:
    try:
        function(*arguments)
    finally:
        # Before Python 3.13, `threading` keeps an entry for each thread that it did not start, even when it has ended.
        threading._active.pop(threading.get_ident(), None)  # type: ignore[attr-defined]


def allocate_lock() -> Any:
    """Returns a lock between system threads. Its holder must not switch greenlets."""
    return _native.allocate_lock()


def start(queue: _core.CallbackQueue, name: str, in_application: bool) -> None:
    """Starts the thread that runs queued calls. The process can exit while the thread runs.

    Args:
        queue: the calls.
        name: name of the thread.
        in_application: whether a greenlet of the application runs the calls when `threading` is patched to use
            greenlets.
    """
    notify = _hub(functools.partial(serve, queue)) if in_application else None
    if notify is None:
        run_in_thread(_serve, queue, name)
    else:
        queue.serve_in_application()
        run_in_thread(_notify, queue, notify)


def replaced_by() -> str | None:
    """Returns the library that replaced threads by greenlets, `gevent` or `eventlet`; None if threads are unpatched."""
    library = (getattr(_thread.start_new_thread, "__module__", None) or "").partition(".")[0]
    return library if library in ("gevent", "eventlet") else None


def _hub(function: Callable[[], None]) -> Callable[[], None] | None:
    """Returns a thread-safe function that runs `function` in a greenlet of this thread; None without greenlets."""
    library = replaced_by()
    if library == "gevent":
        gevent = sys.modules["gevent"]
        return functools.partial(gevent.get_hub().loop.run_callback_threadsafe, gevent.spawn, function)
    if library == "eventlet":
        return _eventlet_hub(function)
    return None


def _eventlet_hub(function: Callable[[], None]) -> Callable[[], None]:
    # Other threads can only wake an eventlet hub through a file descriptor.
    eventlet, process = sys.modules["eventlet"], os.getpid()
    write = eventlet.patcher.original("os").write
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)

    def watch() -> None:
        while True:
            eventlet.hubs.trampoline(reader, read=True)
            if os.getpid() != process:
                # The child of a fork inherits this greenlet, but must not read from the parent's pipe.
                return
            os.read(reader, 4096)
            function()

    def notify() -> None:
        # If the pipe is full, the greenlet has not read yet and will see the earlier notifications.
        with suppress(BlockingIOError):
            write(writer, b"\0")

    eventlet.spawn(watch)
    return notify


def _notify(queue: _core.CallbackQueue, notify: Callable[[], None]) -> None:
    # `notify` raises ValueError when the thread of the gevent loop has ended, because gevent then destroys the loop.
    # From then on other threads run the queued calls while they wait.
    with suppress(ValueError):
        while queue.wait():
            notify()


def serve(queue: _core.CallbackQueue) -> None:
    """Runs queued calls, unless another greenlet is already running them."""
    if not queue.begin_serving():
        return
    try:
        while calls := queue.take_remaining():
            _call_all(calls)
    finally:
        queue.end_serving()


def _serve(queue: _core.CallbackQueue, name: str) -> None:
    # Sets the name, the trace function and the profile function, as `threading` does for its own threads.
    threading.current_thread().name = name
    if (trace := threading.gettrace()) is not None:
        sys.settrace(trace)
    if (profile := threading.getprofile()) is not None:
        sys.setprofile(profile)
    while (calls := queue.next()) is not None:
        _call_all(calls)
        # Releases the arguments before waiting for the next calls.
        calls = None


def _call_all(calls: list[tuple[Callable[..., Any], tuple[Any, ...]]]) -> None:
    for function, arguments in calls:
        try:
            function(*arguments)
        except BaseException as error:
            # If the call is `Context.run`, its first argument is the callback.
            inside = isinstance(getattr(function, "__self__", None), Context)
            if (failure := _failure(arguments)) is not None:
                # Logs the delivery error, because the callback may have raised before it read the error.
                text = "records were not delivered, and their callback raised %r: %s"
                logging.getLogger("samsarrow").error(text, error, failure)
            _core.unraisable(arguments[0] if inside else function, error)


def _failure(arguments: tuple[Any, ...]) -> object:
    """Returns the delivery error in the arguments of a delivery callback; None for other calls."""
    for argument in arguments:
        if isinstance(argument, KafkaError):
            return argument
        if isinstance(argument, _core.Delivery | _core.BatchDelivery):
            return argument.exception(0)
    return None


def finish(queue: _core.CallbackQueue, seconds: float) -> None:
    """Runs pending calls for up to `seconds`, in the thread that finalizes the interpreter."""
    deadline = _core.Deadline(seconds)
    while (calls := queue.take_remaining()) and not deadline.passed():
        _call_all(calls)


def answer(method: Callable[..., Any], arguments: tuple[Any, ...], reply: _core.Reply) -> None:
    """Calls a method of an assignor, and passes its result or exception to the Rust client."""
    try:
        result = method(*arguments)
    except BaseException as error:
        reply.fail(repr(error))
    else:
        reply.give(result)
