"""Whether Spark's workers run a Python that has samsarrow."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from samsarrow.exceptions import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
