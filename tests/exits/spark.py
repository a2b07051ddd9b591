"""Spark workers that use clients: each task ends its worker, and a crashed worker fails the job."""

from __future__ import annotations

import sys


def work(index: int, servers: str) -> None:
    """Runs one task."""
    from samsarrow import Consumer, Producer

    with Producer(bootstrap_servers=servers) as producer:
        producer.send("exits", b"v", on_delivery=lambda metadata, error: None).result(30)
    # The consumer is not closed here, but when the worker ends.
    consumer = Consumer(bootstrap_servers=servers, group_id=f"spark-{index}", auto_offset_reset="earliest")
    consumer.subscribe(["exits"])
    consumer.poll(0.1)


def main(servers: str, tasks: int) -> None:
    """Runs one job with each task in a separate worker."""
    from pyspark import SparkConf, SparkContext

    settings = {
        "spark.ui.enabled": "false",
        "spark.python.worker.reuse": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    with SparkContext(conf=SparkConf().setMaster("local[2]").setAppName("exits").setAll(settings.items())) as spark:
        numbers = spark.parallelize(range(tasks), tasks)
        numbers.foreachPartition(lambda rows: [work(row, servers) for row in rows])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
