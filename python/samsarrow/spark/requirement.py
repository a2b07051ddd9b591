"""Whether there is a Spark that has data sources in Python: an error that says so where an import would just fail."""


def check() -> None:
    """Raises ImportError where PySpark is missing or too old."""
    try:
        import pyspark
    except ModuleNotFoundError as error:
        raise ImportError("samsarrow.spark needs Spark 4.0 or later: install samsarrow[spark]") from error
    # By the version and not by what can be imported: a broken PySpark would pass for an old one.
    if int(pyspark.__version__.partition(".")[0]) < 4:
        raise ImportError(
            f"samsarrow.spark needs Spark 4.0 or later, and this is PySpark {pyspark.__version__}: data sources in "
            "Python came with 4.0"
        )


check()
