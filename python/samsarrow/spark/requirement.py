"""Whether there is a Spark that has data sources in Python: an error that says so where an import would just fail."""

try:
    import pyspark
except ModuleNotFoundError as error:
    raise ImportError("samsarrow.spark needs Spark 4.0 or later: install samsarrow[spark]") from error

# Not by what can be imported: a broken PySpark would then pass for an old one.
if int(pyspark.__version__.partition(".")[0]) < 4:
    raise ImportError(
        f"samsarrow.spark needs Spark 4.0 or later, and this is PySpark {pyspark.__version__}: data sources in Python "
        "came with 4.0"
    )
