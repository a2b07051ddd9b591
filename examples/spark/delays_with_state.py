"""Announces each carrier's longest delay so far, with state of its own (transformWithState, Spark 4.0).

    spark-submit delays_with_state.py localhost:9092 flights records /data/delays.checkpoint

A carrier's number of flights and longest delay are stored in the checkpoint, and a record is written only if a flight
was later than all before it. Needs pandas and protobuf.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

FLIGHT = "carrier string, arr_delay double"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class LongestDelay(StatefulProcessor):
    """Number of flights and longest delay of each carrier."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Creates the state of a carrier."""
        self._state = handle.getValueState("longest", "flights bigint, delay double")

    def handleInputRows(  # noqa: N802
        self,
        key: Any,
        rows: Iterator[pd.DataFrame],
        timerValues: Any,  # noqa: N803
    ) -> Iterator[pd.DataFrame]:
        """Updates the state of a carrier with the flights of a micro-batch."""
        flights, longest = self._state.get() or (0, float("-inf"))
        before = longest
        for frame in rows:
            flights, longest = flights + len(frame), max(longest, frame["arr_delay"].max())
        self._state.update((flights, longest))
        if longest > before:
            value = json.dumps({"flights": int(flights), "longest": longest})
            yield pd.DataFrame({"key": [key[0]], "value": [value]})


def records(spark: SparkSession, servers: str, topic: str) -> DataFrame:
    flights = (
        spark.readStream.format("samsarrow")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("layout", "string")
        .option("columns", "value")
        .load()
        .select(f.from_json("value", FLIGHT).alias("flight"))
        .select("flight.*")
        .where("arr_delay is not null")
    )
    return flights.groupBy("carrier").transformWithStateInPandas(
        LongestDelay(), outputStructType="key string, value string", outputMode="append", timeMode="none"
    )


def run(spark: SparkSession, servers: str, topic: str, target: str, checkpoint: str) -> None:
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
    query = records(spark, servers, topic).writeStream.format("samsarrow").option("kafka.bootstrap.servers", servers)
    query = query.option("topic", target).option("exactlyOnce", "true").option("checkpointLocation", checkpoint)
    query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    run(SparkSession.builder.getOrCreate(), *sys.argv[1:])
