"""Some shapes of queries on the installed Spark; `make test-spark-versions` runs all, on all versions."""

import pytest

pytest.importorskip("pyspark.sql", reason="PySpark is not installed")

from matrix.probe import WORKS
from matrix.surroundings import SPARKS, shapes
from support.spark import need_jar

# One shape for each path by which columns leave the reader.
FEW = (
    "everything", "filter_that_is_pushed", "group_by", "broadcast_join", "cache", "explode_headers", "to_arrow",
    "python_udf", "pandas_udf", "map_in_arrow", "columnar", "stream",
)  # fmt: skip


@pytest.mark.timeout(600)
def test_shapes_match_spark_without_kafka() -> None:
    need_jar()
    [row] = shapes(SPARKS[-1:], FEW)
    assert row.kind == WORKS, row.text
