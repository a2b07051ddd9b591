"""What this Spark can do for data sources in Python."""

from importlib import import_module
from importlib.util import find_spec

from pyspark.sql import datasource


def tells_where_a_stream_is() -> bool:
    """Whether a streaming source is given where the query is, and how much it may read: Spark 4.2 and later."""
    name = "pyspark.sql.streaming.datasource"
    return find_spec(name) is not None and hasattr(import_module(name), "SupportsTriggerAvailableNow")


def streams_arrow_to_sinks() -> bool:
    """Whether a streaming sink is given Arrow batches, not rows: Spark 4.1 and later."""
    return hasattr(datasource, "DataSourceStreamArrowWriter")
