"""Check for a PySpark that supports Python data sources, with a clearer error than a failed import."""


def check() -> None:
    """Raises ImportError if PySpark is missing or too old."""
    try:
        import pyspark
    except ModuleNotFoundError as error:
        raise ImportError("samsarrow.spark needs Spark 4.0 or later: install samsarrow[spark]") from error
    # Checks the version instead of trying an import, so that a broken PySpark is not reported as an old PySpark.
    if int(pyspark.__version__.partition(".")[0]) < 4:
        raise ImportError(
            f"samsarrow.spark needs Spark 4.0 or later, and this is PySpark {pyspark.__version__}: data sources in "
            "Python came with 4.0"
        )


check()
