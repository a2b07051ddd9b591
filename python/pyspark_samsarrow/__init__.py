"""Where Spark looks: a top-level package `pyspark_*` with a class `DefaultSource` is found without `register()`."""

from samsarrow.spark import KafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
