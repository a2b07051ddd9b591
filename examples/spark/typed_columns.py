"""Reads JSON of a topic as typed columns, and keeps records that do not match the schema.

spark-submit typed_columns.py localhost:9092 readings /data/readings
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

READING = "sensor string, celsius double, at timestamp, broken string"


def readings(spark: SparkSession, servers: str, topic: str) -> tuple[DataFrame, DataFrame]:
    """Returns the decoded readings, and the records that could not be decoded."""
    records = (
        spark.read.format("samsarrow")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .schema("value string, partition int, offset bigint")
        .load()
    )
    options = {"columnNameOfCorruptRecord": "broken"}
    parsed = records.select("partition", "offset", f.from_json("value", READING, options).alias("reading"))
    broken = f.col("reading.broken").isNotNull()
    return (
        parsed.where(~broken).select("partition", "offset", "reading.sensor", "reading.celsius", "reading.at"),
        parsed.where(broken).select("partition", "offset", "reading.broken"),
    )


def run(spark: SparkSession, servers: str, topic: str, folder: str) -> None:
    good, broken = readings(spark, servers, topic)
    good.write.mode("overwrite").parquet(folder)
    broken.write.mode("overwrite").json(f"{folder}.broken")


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), *sys.argv[1:])
