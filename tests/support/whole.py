"""Cases that take minutes together: `make test` runs some of their kind."""

import os

import pytest

WHOLE = pytest.mark.skipif(
    not os.environ.get("SAMSARROW_SPARK_WHOLE"), reason="takes minutes: make test-spark-whole runs it"
)
