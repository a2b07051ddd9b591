"""Tests compatibility with versions of Kafka, Python, pyarrow and Spark (`make test-matrix`) for
docs/compatibility.md.
"""
