"""Compares results of many shapes of queries through `samsarrow-jvm` with those on a frame of the same rows.

    python spark_shapes.py JAR [SHAPE...]

Run by a Python with the PySpark under test; prints a line of JSON per shape, like spark_smoke.py.
"""

import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyspark
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.types import BinaryType, IntegerType, LongType, StructType
from spark_rows import PARTITIONS, SCHEMA, START, TOPIC, produced, rows_of
from spark_smoke import FORMATS, SCRATCH, equal, formatted, orders, ran_to_its_end, report, session

from samsarrow.testing import Broker, Registry

# Version that reads rows instead of columns, because its plain Python UDFs hang on any columnar source (SPARK-58241).
ROWS_INSTEAD = "4.2.0"

Shape = Callable[[DataFrame], Any]
SHAPES: dict[str, Shape] = {}


def shape(query: Shape) -> Shape:
    """Registers a query, which returns a frame or collected results."""
    SHAPES[query.__name__] = query
    return query


# Columns, filters, limits.


@shape
def everything(frame: DataFrame) -> Any:
    return frame


@shape
def two_columns(frame: DataFrame) -> Any:
    return frame.select("offset", "value")


@shape
def filter_that_is_pushed(frame: DataFrame) -> Any:
    return frame.where("partition = 1 and offset >= 10 and offset < 40")


@shape
def filter_on_time(frame: DataFrame) -> Any:
    return frame.where(f.col("timestamp") >= f.lit(START + timedelta(seconds=5000)))


@shape
def filter_on_values(frame: DataFrame) -> Any:
    return frame.where("length(value) > 20 or key is null")


@shape
def count(frame: DataFrame) -> Any:
    return [(frame.count(), frame.where("partition = 2").count(), frame.where("value is null").count())]


@shape
def limit(frame: DataFrame) -> Any:
    """Spark may return any rows, so only their number is compared."""
    places = [(row.partition, row.offset) for row in frame.limit(7).collect()]
    return [(len(places), len(set(places)), max(partition for partition, _ in places) < PARTITIONS)]


@shape
def sort(frame: DataFrame) -> Any:
    return frame.orderBy(f.desc("timestamp"), "partition", "offset").collect()


@shape
def sort_with_limit(frame: DataFrame) -> Any:
    return frame.orderBy(f.asc_nulls_first("value"), "partition", "offset").limit(40).collect()


@shape
def distinct(frame: DataFrame) -> Any:
    return frame.select("key", "partition").distinct()


# Groups, joins, windows.


@shape
def group_by(frame: DataFrame) -> Any:
    sums = (f.max("offset"), f.sum(f.length("value")), f.count("key"), f.min("timestamp"))
    return frame.groupBy("partition", "key").agg(*sums)


@shape
def pivot(frame: DataFrame) -> Any:
    return frame.groupBy("key").pivot("partition", list(range(PARTITIONS))).agg(f.count("value"), f.max("offset"))


@shape
def self_join(frame: DataFrame) -> Any:
    left = frame.where("partition = 0").alias("l")
    right = frame.where("partition = 1").alias("r")
    return left.join(right, "offset").select("offset", "l.value", "r.value", "l.headers")


@shape
def broadcast_join(frame: DataFrame) -> Any:
    names = frame.select("key").distinct().withColumn("length", f.length("key"))
    return frame.join(f.broadcast(names), "key", "left").select("key", "length", "partition", "offset")


@shape
def window(frame: DataFrame) -> Any:
    by_key = Window.partitionBy("key").orderBy("timestamp", "partition", "offset")
    numbered = frame.withColumn("n", f.row_number().over(by_key)).withColumn("before", f.lag("value").over(by_key))
    return numbered.select("key", "partition", "offset", "n", "before")


@shape
def subquery(frame: DataFrame) -> Any:
    frame.createOrReplaceTempView("shape")
    return frame.sparkSession.sql("select * from shape where offset = (select max(offset) from shape)")


@shape
def union_and_repartition(frame: DataFrame) -> Any:
    return frame.where("partition = 0").union(frame.where("partition = 2")).repartition(3, "key")


@shape
def cache(frame: DataFrame) -> Any:
    kept = frame.where("partition < 2").cache()
    try:
        return [kept.count(), *rows_of(kept), kept.where("offset < 5").count()]
    finally:
        kept.unpersist(blocking=True)


# Headers.


@shape
def explode_headers(frame: DataFrame) -> Any:
    return frame.select("partition", "offset", f.explode_outer("headers").alias("h")).select("*", "h.key", "h.value")


@shape
def parts_of_headers(frame: DataFrame) -> Any:
    """Spark reads only one field of the headers."""
    return frame.select("partition", "offset", "headers.value", f.size("headers"))


# Out of Spark.


@shape
def to_pandas(frame: DataFrame) -> Any:
    result = frame.orderBy("partition", "offset").toPandas()
    return [tuple(result.columns), *result.drop(columns="headers").itertuples(index=False, name=None)]


@shape
def to_arrow(frame: DataFrame) -> Any:
    return frame.orderBy("partition", "offset").toArrow().to_pylist()


@shape
def parquet(frame: DataFrame) -> Any:
    folder = str(SCRATCH / f"parquet-{uuid.uuid4()}")
    frame.write.parquet(folder)
    return frame.sparkSession.read.parquet(folder)


# Into Python and back.


@f.udf(IntegerType())
def plain_length(value: bytes | None) -> int | None:
    return None if value is None else len(value)


@f.udf(IntegerType(), useArrow=False)
def pickled_length(value: bytes | None) -> int | None:
    return None if value is None else len(value)


@f.pandas_udf(LongType())
def pandas_length(values: pd.Series) -> pd.Series:
    return values.map(lambda value: -1 if value is None else len(value))


@f.pandas_udf(LongType())
def doubled(values: Iterator[pd.Series]) -> Iterator[pd.Series]:
    for series in values:
        yield series * 2


@f.pandas_udf(StructType().add("first", BinaryType()).add("length", LongType()))
def parts(values: pd.Series) -> pd.DataFrame:
    lengths = values.map(lambda value: -1 if value is None else len(value))
    return pd.DataFrame({"first": values.map(lambda value: value and value[:1]), "length": lengths})


@shape
def python_udf(frame: DataFrame) -> Any:
    return frame.select("*", plain_length("value"))


@shape
def pickled_udf(frame: DataFrame) -> Any:
    return frame.select("*", pickled_length("value"))


@shape
def udf_in_where(frame: DataFrame) -> Any:
    return frame.where(plain_length("value") > 20)


@shape
def udf_with_limit(frame: DataFrame) -> Any:
    return [len(frame.select(pandas_length("value")).limit(9).collect())]


@shape
def pandas_udf(frame: DataFrame) -> Any:
    return frame.select("*", pandas_length("value"))


@shape
def pandas_udf_that_gives_structs(frame: DataFrame) -> Any:
    return frame.select("partition", "offset", parts("value"))


@shape
def chained_udfs(frame: DataFrame) -> Any:
    measured = frame.withColumn("n", pandas_length("value"))
    return measured.select("*", doubled("n"), doubled(pandas_length("key")))


def arrow_udf(frame: DataFrame) -> Any:
    @f.arrow_udf(IntegerType())
    def length(values: pa.Array) -> pa.Array:
        return pc.binary_length(values)

    return frame.select("*", length("value"), doubled(pandas_length("value")))


if hasattr(f, "arrow_udf"):  # Spark 4.1 and later
    shape(arrow_udf)


@shape
def map_in_arrow(frame: DataFrame) -> Any:
    def same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    return frame.mapInArrow(same, frame.schema)


@shape
def map_in_pandas(frame: DataFrame) -> Any:
    def lengths(frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for item in frames:
            yield item[["partition", "offset"]].assign(n=item["value"].map(lambda v: -1 if v is None else len(v)))

    return frame.mapInPandas(lengths, "partition int, offset long, n long")


@shape
def apply_in_pandas(frame: DataFrame) -> Any:
    def last(group: pd.DataFrame) -> pd.DataFrame:
        return group.sort_values("offset").tail(1)

    expected = frame.select("partition", "offset", "value", "timestamp")
    return expected.groupBy("partition").applyInPandas(last, expected.schema)


class Shapes:
    """A frame of the source and a frame of the same rows, and their comparisons."""

    def __init__(self, spark: SparkSession, servers: str) -> None:
        self.spark = spark
        self.options = {"kafka.bootstrap.servers": servers, "subscribe": TOPIC, "includeHeaders": "true"}
        self.truth = spark.createDataFrame(produced(servers), SCHEMA)
        self.found = spark.read.format("samsarrow-jvm").options(**self.options).load()

    def compare(self, query: Shape) -> None:
        expected = rows_of(query(self.truth))
        equal(bool(expected), True)
        equal(rows_of(query(self.found)), expected)

    def columnar(self) -> None:
        """Checks whether the plan converts columns to rows, which shows that Spark reads columns."""
        plan = self.found._jdf.queryExecution().executedPlan().toString()
        equal("ColumnarToRow" in plan, pyspark.__version__ != ROWS_INSTEAD)

    def typed(self) -> None:
        """Reads each value format: all fields, one field, and as a stream. The Python sink writes the topics."""
        expected = rows_of(orders(self.spark))
        with Registry() as registry:
            for kind in FORMATS:
                topic = f"typed-{kind}"
                options = {"kafka.bootstrap.servers": self.options["kafka.bootstrap.servers"]}
                options |= formatted(registry, kind)
                sink = orders(self.spark).write.format("samsarrow-python").options(**options, topic=topic)
                sink.mode("append").save()
                read = {**options, "subscribe": topic, "startingOffsets": "earliest"}
                frame = self.spark.read.format("samsarrow-jvm").options(**read).load()
                equal(rows_of(frame.select("key", "value")), expected)
                cities = orders(self.spark).select("value.city")
                equal(rows_of(frame.select("value.city")), rows_of(cities))
                stream = self.spark.readStream.format("samsarrow-jvm").options(**read).load()
                rows: list[str] = []
                ran_to_its_end(
                    stream.select("key", "value"),
                    topic,
                    lambda batch, number, to=rows: to.extend(rows_of(batch)),
                    availableNow=True,
                )
                equal(sorted(rows), expected)

    def stream(self) -> None:
        """Reads all rows once, in several micro-batches, with a UDF."""
        reader = self.spark.readStream.format("samsarrow-jvm").options(**self.options, maxOffsetsPerTrigger="250")
        frame = reader.option("startingOffsets", "earliest").load().select("*", pandas_length("value"))
        sizes: list[int] = []
        rows: list[str] = []

        def add(batch: DataFrame, number: int) -> None:
            result = rows_of(batch)
            sizes.append(len(result))
            rows.extend(result)

        ran_to_its_end(frame, "shapes", add, availableNow=True)
        equal(max(sizes) <= 250, True)
        equal(sorted(rows), rows_of(self.truth.select("*", pandas_length("value"))))

    def stream_with_state(self) -> None:
        """Aggregates with state across micro-batches."""
        reader = self.spark.readStream.format("samsarrow-jvm").options(**self.options, maxOffsetsPerTrigger="250")
        frame = reader.option("startingOffsets", "earliest").load()
        name = "sums"
        query = frame.groupBy("partition").agg(f.count("*"), f.sum(f.length("value"))).writeStream.format("memory")
        started = query.queryName(name).outputMode("complete").trigger(availableNow=True)
        running = started.option("checkpointLocation", str(SCRATCH / name)).start()
        try:
            equal(running.awaitTermination(90), True)
        finally:
            running.stop()
        expected = self.truth.groupBy("partition").agg(f.count("*"), f.sum(f.length("value")))
        equal(rows_of(self.spark.table(name)), rows_of(expected))


def main(jar: str, *names: str) -> None:
    spark = session(**{"spark.jars": jar})
    try:
        with Broker(topics={TOPIC: PARTITIONS, **{f"typed-{kind}": 2 for kind in FORMATS}}) as broker:
            shapes = Shapes(spark, broker.bootstrap_servers)
            steps = (shapes.columnar, shapes.typed, shapes.stream, shapes.stream_with_state)
            tries = {name: lambda query=query: shapes.compare(query) for name, query in SHAPES.items()}
            tries |= {step.__name__: step for step in steps}
            for name in names or tries:
                report(name, tries[name])
    finally:
        spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
