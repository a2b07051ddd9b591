"""The second name of the source in Python: Spark takes one class of each top-level package `pyspark_*`."""

from samsarrow.spark.datasource import PythonKafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
