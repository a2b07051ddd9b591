"""Contains `samsarrow-spark.jar`, which `samsarrow.spark.jar()` locates."""
