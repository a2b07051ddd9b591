"""Checks of Spark's workers, which need a Python with samsarrow, and of the sources of a query."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError, KafkaTimeoutError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def check_session(spark: SparkSession) -> None:
    """Checks that the Python of this session's workers can import samsarrow.

    Without it, Spark only reports "Failed to find data source: samsarrow". The check runs this Python on the driver's
    machine. It does not check the other machines of a cluster.

    Args:
        spark: the session, already started.

    Raises:
        ConfigurationError: workers would run a Python without samsarrow. The message explains how to choose another
            Python.
    """
    python = spark.conf.get("spark.pyspark.python", None) or spark.sparkContext.pythonExec
    probe = [python, "-c", "import samsarrow, pyarrow, pyspark_samsarrow"]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, timeout=60, check=False)
        cause = done.stderr.strip().splitlines()[-1:] if done.returncode else None
    except OSError as error:
        cause = [str(error)]
    if cause is not None:
        raise ConfigurationError(
            f"Spark's workers run {python!r}, where samsarrow cannot be imported ({''.join(cause)}): set "
            f"PYSPARK_PYTHON to the Python that has it (this one is {sys.executable}) before the Spark session starts"
        )


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
