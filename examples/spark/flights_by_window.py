"""Counts flights by carrier in windows of one hour, as a stream into Parquet.

spark-submit flights_by_window.py localhost:9092 flights /data/flights_by_hour
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

FLIGHT = "carrier string, departed timestamp, delay int"


def windows(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    flights = (
        spark.readStream.format("samsarrow")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("columns", "value")
        .option("layout", "string")
        .load()
        .select(f.from_json("value", FLIGHT).alias("flight"))
        .select("flight.*")
    )
    return (
        flights.withWatermark("departed", "10 minutes")
        .groupBy(f.window("departed", "1 hour").alias("hour"), "carrier")
        .agg(f.count("*").alias("flights"), f.avg("delay").alias("delay"))
        .select("hour.start", "carrier", "flights", "delay")
    )


def run(spark: SparkSession, servers: str, topic: str, folder: str) -> None:
    query = (
        windows(spark, servers, topic)
        .writeStream.format("parquet")
        .option("path", folder)
        .option("checkpointLocation", f"{folder}.checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), *sys.argv[1:])
