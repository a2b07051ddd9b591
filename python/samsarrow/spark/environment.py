"""Whether Spark's workers run a Python that has samsarrow, and whether a query's sources are there."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING

from samsarrow.exceptions import ConfigurationError, KafkaTimeoutError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def check_session(spark: SparkSession) -> None:
    """Checks that the Python of this session's workers can import samsarrow.

    Spark itself says only "Failed to find data source: samsarrow" when it cannot. The check runs that Python on
    the driver's machine: on a cluster it proves nothing about the other machines.

    Args:
        spark: the session, already started.

    Raises:
        ConfigurationError: workers would run a Python without samsarrow; the text says how to name another.
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
    """Waits until Spark has made the sources of a query that was just started, or the query has ended.

    Between the starts of several queries in one session it keeps them apart: Spark (seen in 4.3.0) lets the first
    ones write at the same time into a map that is not made for it, and that all uses of a Python source share. Once in
    a while that breaks the map, and all queries on the source fail with "Task not serializable", "Illegal size ... of
    collection", until the driver is started again.

    Args:
        query: that `start()` returned.
        timeout: seconds.

    Raises:
        KafkaTimeoutError: its sources are not there yet.
    """
    deadline = time.monotonic() + timeout
    while query.isActive and query.status["message"].startswith("Initializing"):
        if time.monotonic() > deadline:
            raise KafkaTimeoutError(f"the sources of query {query.id} are not there after {timeout:g} s")
        time.sleep(0.02)
