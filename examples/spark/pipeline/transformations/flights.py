"""Reads flights of a topic into a table, and writes delayed ones to another topic."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

spark = SparkSession.active()
KAFKA = {"kafka.bootstrap.servers": str(spark.conf.get("spark.flights.servers", "localhost:9092"))}
FLIGHT = "carrier string, arr_delay double"


@dp.table(comment="Flights, one row per record")
def flights() -> DataFrame:
    records = (
        spark.readStream.format("samsarrow")
        .options(**KAFKA)
        .option("subscribe", "flights")
        .option("startingOffsets", "earliest")
        .load()
    )
    flight = f.from_json(records.value.cast("string"), FLIGHT).alias("flight")
    return records.select("partition", "offset", flight).select("partition", "offset", "flight.*")


dp.create_sink("delays", "samsarrow", {**KAFKA, "topic": "delays"})


@dp.append_flow(target="delays")
def late() -> DataFrame:
    rows = spark.readStream.table("flights").where("arr_delay > 60")
    return rows.select(f.col("carrier").alias("key"), f.to_json(f.struct("carrier", "arr_delay")).alias("value"))
