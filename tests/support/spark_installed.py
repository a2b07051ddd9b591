"""A program that reads Kafka in a Spark session without settings, in the environment of its Python.

    python -m support.spark_installed [SETTING=VALUE...]

Prints as JSON the plan of the README's query, its rows, the values of a streaming query on the same topic, and the
findings of `check_session`.
"""

import json
import sys
import tempfile
from typing import Any

from samsarrow import Producer
from samsarrow.testing import Broker


def main(settings: dict[str, str]) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    from samsarrow.spark import check_session

    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with Broker(topics={"flights": 2}) as broker, tempfile.TemporaryDirectory() as folder:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for number in range(10):
                producer.send("flights", str(number))
        spark = builder.getOrCreate()
        options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "flights"}
        flights = spark.read.format("samsarrow").options(**options).load()
        plan = flights._jdf.queryExecution().executedPlan().toString()
        rows = flights.count()
        stream = spark.readStream.format("samsarrow").options(**options, startingOffsets="earliest").load()
        writer = stream.writeStream.format("memory").queryName("copied").trigger(availableNow=True)
        query = writer.option("checkpointLocation", folder).start()
        assert query.awaitTermination(120)
        copied = spark.sql("SELECT cast(cast(value AS STRING) AS INT) AS value FROM copied").collect()
        checks = {finding.check: f"{finding.status} {finding.detail}" for finding in check_session(spark)}
        spark.stop()
    return {"checks": checks, "plan": plan, "rows": rows, "copied": sorted(row.value for row in copied)}


if __name__ == "__main__":
    pairs = dict(argument.split("=", 1) for argument in sys.argv[1:])
    sys.stdout.write(json.dumps(main(pairs)) + "\n")
