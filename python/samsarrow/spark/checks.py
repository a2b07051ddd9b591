"""Check for a PySpark that supports Python data sources, with a clearer error than a failed import."""


def check() -> None:
    """Raises ImportError if PySpark is missing or too old."""
    missing = "samsarrow.spark needs Spark 4.0 or later: pip install 'pyspark[sql]>=4.0' 'pandas<3'"
    try:
        import pyspark
    except ModuleNotFoundError as error:
        raise ImportError(missing) from error
    # After PySpark was uninstalled, the jar of samsarrow-spark is still in its folder, which can then be imported.
    version = getattr(pyspark, "__version__", None)
    if version is None:
        raise ImportError(missing)
    # Checks the version instead of trying an import, so that a broken PySpark is not reported as an old PySpark.
    if int(version.partition(".")[0]) < 4:
        raise ImportError(
            f"samsarrow.spark needs Spark 4.0 or later, and this is PySpark {version}: data sources in Python came "
            "with 4.0"
        )


check()
