"""Kafka as a Spark data source: `spark.read.format("samsarrow")`, `readStream`, `write`, `writeStream`.

Spark uses the source in its JVM if it has loaded the jar of `samsarrow[spark]`, otherwise the source in Python. Spark
finds the latter in the Python that `PYSPARK_DRIVER_PYTHON`, else `PYSPARK_PYTHON`, names in the environment in which
Spark starts, else in the `python3` on the PATH; `spark.pyspark.python` has no effect on it. `check_session` checks
whether samsarrow is installed there.
"""

import importlib
from typing import TYPE_CHECKING, Any

from samsarrow.spark import checks as checks  # runs before imports that fail with an older Spark

if TYPE_CHECKING:
    from samsarrow.spark.clusters import hide_secrets, spark_cluster_options
    from samsarrow.spark.datasource import KafkaDataSource
    from samsarrow.spark.errors import DataLossError, SchemaEvolvedError
    from samsarrow.spark.jar_file import add_jar, jar
    from samsarrow.spark.listener import ProgressListener, SourceProgress, count_bytes
    from samsarrow.spark.session import wait_for_sources
    from samsarrow.spark.session_checks import check_session

# Loaded on first use (PEP 562), because Spark starts several Python processes for each query, and all of them import
# this package.
_HOMES = {
    "DataLossError": "errors",
    "KafkaDataSource": "datasource",
    "ProgressListener": "listener",
    "SchemaEvolvedError": "errors",
    "SourceProgress": "listener",
    "add_jar": "jar_file",
    "check_session": "session_checks",
    "count_bytes": "listener",
    "hide_secrets": "clusters",
    "jar": "jar_file",
    "spark_cluster_options": "clusters",
    "wait_for_sources": "session",
}

__all__ = [
    "DataLossError",
    "KafkaDataSource",
    "ProgressListener",
    "SchemaEvolvedError",
    "SourceProgress",
    "add_jar",
    "check_session",
    "count_bytes",
    "hide_secrets",
    "jar",
    "spark_cluster_options",
    "wait_for_sources",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        caller = importlib.import_module("sys")._getframe().f_back
        raise importlib.import_module("samsarrow._names").unknown_name(name, __all__, __name__, caller)
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*(name for name in globals() if name.startswith("__")), *__all__})
