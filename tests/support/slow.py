"""Marker for cases that take minutes together, of which `make test` runs a part."""

import os

import pytest

WHOLE = pytest.mark.skipif(
    not os.environ.get("SAMSARROW_SPARK_WHOLE"), reason="takes minutes: make test-spark-whole runs it"
)
