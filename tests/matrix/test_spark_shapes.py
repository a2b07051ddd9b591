"""Queries of some shapes on the Spark that is installed; `make test-spark-versions` has all, on all four."""

import pytest

pytest.importorskip("pyspark.sql", reason="PySpark is not installed")

from matrix.probe import WORKS
from matrix.surroundings import SPARKS, shapes
from support.spark import need_jar

# One for each way in which columns leave the reader.
FEW = (
    "everything", "filter_that_is_pushed", "group_by", "broadcast_join", "cache", "explode_headers", "to_arrow",
    "python_udf", "pandas_udf", "map_in_arrow", "columnar", "stream",
)  # fmt: skip


@pytest.mark.timeout(600)
def test_shapes_find_what_spark_finds_without_kafka() -> None:
    need_jar()
    [row] = shapes(SPARKS[-1:], FEW)
    assert row.kind == WORKS, row.text
