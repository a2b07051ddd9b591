"""Runs Polars in every task on Arrow batches from Kafka, without rows or pandas.

spark-submit polars_in_tasks.py localhost:9092 flights
"""

import sys
from collections.abc import Iterator

import polars as pl
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def delays(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sums the delays by carrier of the rows that this task reads."""
    for batch in batches:
        flights = pl.DataFrame(pl.from_arrow(batch)).select(
            pl.col("value").str.json_decode(pl.Struct({"carrier": pl.String, "delay": pl.Int64})).struct.unnest()
        )
        summed = flights.group_by("carrier").agg(pl.len().cast(pl.Int64).alias("flights"), pl.col("delay").sum())
        # Spark does not support string views here.
        yield from summed.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()


def delay_by_carrier(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    flights = (
        spark.read.format("samsarrow")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("columns", "value")
        .option("layout", "string")
        .load()
    )
    partial = flights.mapInArrow(delays, "carrier string, flights bigint, delay bigint")
    return partial.groupBy("carrier").agg(
        f.sum("flights").alias("flights"), (f.sum("delay") / f.sum("flights")).alias("delay")
    )


if __name__ == "__main__":
    delay_by_carrier(SparkSession.builder.getOrCreate(), *sys.argv[1:]).show()
