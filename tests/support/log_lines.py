"""Log lines of clients, collected by a handler."""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator

from samsarrow import Consumer, _core
from support.waiting import until


class Lines(logging.Handler):
    """Keeps all records of the loggers below `samsarrow`."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def written(self) -> list[logging.LogRecord]:
        """Returns the records so far, including those that another thread still writes."""
        if (written := _core.log_lines_written()) is not None:
            written.wait()
        return list(self.records)

    def texts(self, logger: str = "samsarrow", level: int = 0) -> list[str]:
        """Returns the messages of a logger and of those below it."""
        chosen = (r for r in self.written() if f"{r.name}.".startswith(f"{logger}.") and r.levelno >= level)
        return [record.getMessage() for record in chosen]


@contextlib.contextmanager
def log_lines(level: int) -> Iterator[Lines]:
    """Sets the level of logger `samsarrow`, and yields the handler that keeps its lines."""
    logger, lines = logging.getLogger("samsarrow"), Lines()
    before = logger.level
    logger.addHandler(lines)
    logger.setLevel(level)
    try:
        yield lines
    finally:
        lines.written()
        logger.setLevel(before)
        logger.removeHandler(lines)


def member_lines(servers: str, level: int) -> list[str]:
    """Returns the lines of a member that joins, polls, commits and leaves, without values that differ in each run."""
    with log_lines(level) as lines:
        with Consumer(
            bootstrap_servers=servers, client_id="billing", group_id="invoices", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["orders"])
            until(lambda: consumer.poll(1).num_rows)
            consumer.commit()
        return [stable(record) for record in lines.written()]


def stable(record: logging.LogRecord) -> str:
    """Returns a line with fixed ports, ids and times."""
    text = f"{record.levelname} {record.name}: {record.getMessage()}"
    text = re.sub(r"127\.0\.0\.1:\d+", "localhost:9092", text)
    text = re.sub(r"\b[0-9a-f]{32}\b", "5d41402abc4b2a76b9719d911017c592", text)
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "8c6e5b60-41fa-4a9e-a2a5-9b0d3c1e7f42", text)
    return re.sub(r"session_id=\d+", "session_id=1203456789", text)
