"""The shapes of queries on the Spark that is installed; `make test-spark-versions` has them on all four."""

import pytest

pytest.importorskip("pyspark.sql", reason="PySpark is not installed")

from matrix.probe import WORKS
from matrix.surroundings import SPARKS, shapes
from support.spark import need_jar


@pytest.mark.timeout(600)
def test_all_shapes_find_what_spark_finds_without_kafka() -> None:
    need_jar()
    [row] = shapes(SPARKS[-1:])
    assert row.kind == WORKS, row.text
