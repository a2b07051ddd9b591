"""Waits for the sources of a query."""

from __future__ import annotations

from typing import TYPE_CHECKING

from samsarrow import _core
from samsarrow.exceptions import KafkaTimeoutError

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def wait_for_sources(query: StreamingQuery, timeout: float = 120.0) -> None:
    """Waits until Spark has created the sources of a query that was just started, or the query has ended.

    Call it between the starts of several queries in one session: Spark (seen in 4.3.0) lets the first queries write
    concurrently to a map that is not thread-safe, and that all uses of a Python source share. Occasionally this
    corrupts the map, and all queries on the source fail with "Task not serializable", "Illegal size ... of collection",
    until the driver is restarted.

    Args:
        query: query returned by `start()`.
        timeout: seconds.

    Raises:
        KafkaTimeoutError: the sources of the query did not exist in time.
    """
    deadline = _core.Deadline(timeout)
    while query.isActive and query.status["message"].startswith("Initializing"):
        if deadline.passed():
            raise KafkaTimeoutError(f"the sources of query {query.id} are not there after {timeout:g} s")
        deadline.sleep(0.02)
