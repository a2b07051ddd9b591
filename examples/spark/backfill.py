"""Reprocesses a time range of a topic as a batch, for records that a stream missed or processed wrongly.

    spark-submit backfill.py localhost:9092 flights 2024-05-06T00:00:00+00:00 2024-05-07T00:00:00+00:00 /data/flights

Offsets are looked up in Kafka's time index: from the first record at or after the start to the first at or after the
end. If timestamps of a partition are not in order, that range may contain other records, which the filter removes.
"""

import sys
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def records(spark: SparkSession, servers: str, topic: str, start: datetime, end: datetime) -> DataFrame:
    between = (
        spark.read.format("samsarrow")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingTimestamp", str(int(start.timestamp() * 1000)))
        .option("startingOffsetsByTimestampStrategy", "latest")
        .option("endingTimestamp", str(int(end.timestamp() * 1000)))
        .option("maxRecordsPerPartition", "1000000")
        .load()
    )
    return between.where((f.col("timestamp") >= f.lit(start)) & (f.col("timestamp") < f.lit(end)))


def run(spark: SparkSession, servers: str, topic: str, start: str, end: str, folder: str) -> None:
    result = records(spark, servers, topic, datetime.fromisoformat(start), datetime.fromisoformat(end))
    result.write.mode("overwrite").parquet(folder)


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), *sys.argv[1:])
