"""Counts the words of one topic into another, exactly once: no count is lost or duplicated by failures.

    spark-submit word_count.py localhost:9092 sentences counts /data/word_count.checkpoint

Read `counts` with `isolation.level=read_committed`; the last count of a word, which is the key, is the valid one.
"""

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def counts(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    sentences = (
        spark.readStream.format("samsarrow")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("layout", "string")
        .option("columns", "value")
        .option("isolation.level", "read_committed")
        .option("kafka.group.id", "word-count")
        .option("commitOffsets", "true")
        .load()
    )
    words = sentences.select(f.explode(f.split(f.lower("value"), r"\W+")).alias("key")).where("key != ''")
    return words.groupBy("key").count().select("key", f.col("count").cast("string").alias("value"))


def run(spark: SparkSession, servers: str, topic: str, target: str, checkpoint: str) -> None:
    def write(changed: DataFrame, _: int) -> None:
        writer = changed.write.format("samsarrow").option("kafka.bootstrap.servers", servers).option("topic", target)
        # The prefix must be unique to this write, because it distinguishes a replay from other writes of the same
        # micro-batch.
        writer = writer.option("exactlyOnce", "true").option("transactionalIdPrefix", "word-count")
        writer.mode("append").save()

    # Spark supports outputMode("update") for a Python sink only through foreachBatch.
    query = counts(spark, servers, topic).writeStream.foreachBatch(write).outputMode("update")
    query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), *sys.argv[1:])
