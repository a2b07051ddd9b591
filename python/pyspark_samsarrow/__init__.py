"""Entry point for Spark, which finds the class `DefaultSource` of packages named `pyspark_*` without `register()`."""

from samsarrow.spark import KafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
