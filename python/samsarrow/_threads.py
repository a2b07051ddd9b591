"""Threads of the core's own, on which it calls Python: log lines, delivery callbacks, assignors, tokens."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import Context
from threading import Thread
from time import monotonic
from typing import Any

from samsarrow import _core
from samsarrow.exceptions import KafkaError


def start(lane: _core.Lane, name: str) -> None:
    """Starts the thread of a lane. It never ends by itself, and keeps no program from ending."""
    Thread(target=_serve, args=(lane,), name=name, daemon=True).start()


def _serve(lane: _core.Lane) -> None:
    while (calls := lane.next()) is not None:
        _call_all(calls)
        # What was called with is not held while the lane waits.
        calls = None


def _call_all(calls: list[tuple[Callable[..., Any], tuple[Any, ...]]]) -> None:
    for function, arguments in calls:
        try:
            function(*arguments)
        except BaseException as error:
            # In a context, the function is the first argument of `run`.
            inside = isinstance(getattr(function, "__self__", None), Context)
            if (failure := _failure(arguments)) is not None:
                # The callback may have raised before it looked at the error.
                text = "records were not delivered, and their callback raised %r: %s"
                logging.getLogger("samsarrow").error(text, error, failure)
            _core.unraisable(arguments[0] if inside else function, error)


def _failure(arguments: tuple[Any, ...]) -> object:
    """Returns the reason why records were not delivered, if the arguments are those of a delivery callback."""
    for argument in arguments:
        if isinstance(argument, KafkaError):
            return argument
        if isinstance(argument, _core.Delivery | _core.BatchDelivery):
            return argument.exception(0)
    return None


def finish(lane: _core.Lane, seconds: float) -> None:
    """Makes the calls that wait, in the thread that ends the interpreter; at most for this long."""
    deadline = monotonic() + seconds
    while (calls := lane.rest()) and monotonic() < deadline:
        _call_all(calls)


def log(dropped: int, logger: str, level: int, text: str) -> None:
    """Writes a line of the core's, and how many came too fast before it."""
    if dropped:
        notice = "%d log lines were dropped: they arrived faster than they could be written"
        logging.getLogger("samsarrow").warning(notice, dropped)
    logging.getLogger(logger).log(level, "%s", text)


def answer(ask: Callable[..., Any], arguments: tuple[Any, ...], reply: _core.Reply) -> None:
    """Asks an assignor for the core."""
    try:
        found = ask(*arguments)
    except BaseException as error:
        reply.fail(repr(error))
    else:
        reply.give(found)
