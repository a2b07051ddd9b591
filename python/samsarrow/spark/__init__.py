"""Kafka as a Spark data source: `spark.read.format("samsarrow")`, `readStream`, `write`, `writeStream`.

Spark uses the source in its JVM if it has loaded the jar of `samsarrow[spark]`, otherwise the source in Python. Spark
finds the latter in the Python that `PYSPARK_DRIVER_PYTHON`, else `PYSPARK_PYTHON`, names in the environment in which
Spark starts, else in the `python3` on the PATH; `spark.pyspark.python` has no effect on it. `check_session` checks
whether samsarrow is installed there.
"""

from samsarrow.spark import checks as checks  # runs before imports that fail with an older Spark
from samsarrow.spark.clusters import hide_secrets, spark_cluster_options
from samsarrow.spark.datasource import KafkaDataSource
from samsarrow.spark.errors import DataLossError, SchemaEvolvedError
from samsarrow.spark.jar import add_jar, jar
from samsarrow.spark.listener import ProgressListener, SourceProgress, count_bytes
from samsarrow.spark.session import wait_for_sources
from samsarrow.spark.session_checks import check_session

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
