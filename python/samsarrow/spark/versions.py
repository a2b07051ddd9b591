"""Features of Python data sources that depend on the Spark version."""

from importlib import import_module
from importlib.util import find_spec

from pyspark.sql import datasource


def has_admission_control() -> bool:
    """Returns true if Spark passes the query's offsets and a read limit to a streaming source (Spark 4.2 and later)."""
    name = "pyspark.sql.streaming.datasource"
    return find_spec(name) is not None and hasattr(import_module(name), "SupportsTriggerAvailableNow")


def has_arrow_stream_writer() -> bool:
    """Returns true if Spark passes Arrow batches instead of rows to a streaming sink (Spark 4.1 and later)."""
    return hasattr(datasource, "DataSourceStreamArrowWriter")
