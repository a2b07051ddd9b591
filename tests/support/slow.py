"""Marker for cases that take minutes in total, so that `make test` runs only a part of them."""

import os

import pytest

WHOLE = pytest.mark.skipif(
    not os.environ.get("SAMSARROW_SPARK_WHOLE"), reason="takes minutes: make test-spark-whole runs it"
)
