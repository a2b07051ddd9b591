"""Compatibility with versions of Kafka, Python, pyarrow and Spark: `make test-matrix`, docs/compatibility.md."""
