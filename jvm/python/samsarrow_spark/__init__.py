"""Holds `samsarrow-spark.jar`, which `samsarrow.spark.jar()` finds."""
