"""Levels of the `samsarrow` loggers, which the Rust client follows, and log lines of the Rust client."""

from __future__ import annotations

import logging
from typing import Any

from samsarrow import _core

_loggers: list[logging.Logger] = []


class _LevelCache(dict[int, bool]):
    """The level cache of a logger. `logging` clears it whenever the level of any logger changes."""

    def clear(self) -> None:
        """Removes all entries, and passes the new levels to the Rust client."""
        super().clear()
        _pass_levels()


def follow_levels() -> None:
    """Passes the levels of the loggers to the Rust client, now and whenever they change."""
    # The loggers exist from now on, because no logger may be created while `logging` clears the caches.
    _loggers[:] = map(logging.getLogger, _core.loggers())
    cache = getattr(_loggers[0], "_cache", None)
    if isinstance(cache, dict) and not isinstance(cache, _LevelCache):
        _loggers[0]._cache = _LevelCache(cache)  # type: ignore[attr-defined]
    _pass_levels()


def _pass_levels() -> None:
    # Like `Logger.isEnabledFor`, but without its lock, which the caller may hold.
    least = logging.root.manager.disable + 1
    _core.set_log_levels([max(least, logger.getEffectiveLevel()) for logger in _loggers])


def write(dropped: int, logger: str, level: int, text: str, fields: dict[str, str]) -> None:
    """Writes a log line of the Rust client. If lines before it were dropped, first logs their number.

    Args:
        dropped: number of lines that were dropped before this line.
        logger: name of the logger.
        level: level, such as `logging.INFO`.
        text: the line.
        fields: client id, group and other details of the line, which become the attribute `kafka` of the `LogRecord`.
    """
    if dropped:
        notice = "%d log lines were dropped: they arrived faster than they could be written"
        logging.getLogger("samsarrow").warning(notice, dropped)
    extra: dict[str, Any] = {"kafka": fields}
    logging.getLogger(logger).log(level, "%s", text, extra=extra)
