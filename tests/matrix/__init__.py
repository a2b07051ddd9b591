"""What works with which Kafka, Python, pyarrow and Spark: `make test-matrix`, docs/compatibility.md."""
