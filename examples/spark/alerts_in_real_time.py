r"""Copies late flights to another topic within milliseconds (real-time mode, Spark 4.1).

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0 \
        alerts_in_real_time.py localhost:9092 flights late /data/late.checkpoint

Needs the jar of samsarrow-spark, because Spark has this mode for sources in the JVM only, and Spark's own connector as
the sink. A task for each partition occupies a core.
"""

import sys

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery


def start(spark: SparkSession, servers: str, topic: str, target: str, checkpoint: str) -> StreamingQuery:
    flights = (
        spark.readStream.format("samsarrow-jvm")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
    )
    late = flights.where("cast(get_json_object(string(value), '$.arr_delay') as double) > 60").select("key", "value")
    writer = late.writeStream.format("kafka").option("kafka.bootstrap.servers", servers).option("topic", target)
    writer = writer.outputMode("update").option("checkpointLocation", checkpoint)
    # Offsets are stored at the end of each batch, which lasts this long; records do not wait for it.
    query: StreamingQuery = writer.trigger(realTime="10 seconds").start()  # type: ignore[call-overload]
    return query


if __name__ == "__main__":
    start(SparkSession.builder.getOrCreate(), *sys.argv[1:]).awaitTermination()
