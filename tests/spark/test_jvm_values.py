"""Values of the JVM reader compared with pyarrow, in many shapes of plans."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

from samsarrow import Consumer, Producer, TopicPartition
from samsarrow.testing import Broker

Jvm = Callable[..., Any]
T0 = 1_700_000_000_000
PARTITIONS = 3
COUNT = 3_000


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    """A topic with nulls, empty and large values, all kinds of headers, every codec, and unordered timestamps."""
    broker.create_topic("values", PARTITIONS)
    chance = random.Random(7)

    def some(largest: int) -> bytes | None:
        return chance.choice([None, b"", chance.randbytes(chance.randrange(1, largest))])

    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        with Producer(bootstrap_servers=broker.bootstrap_servers, compression_type=codec) as producer:
            for i in range(COUNT // 5):
                headers = [(chance.choice(["", "ä", "name"]), some(9)) for _ in range(chance.choice([0, 0, 1, 3]))]
                value = some(200_000) if i % 100 == 0 else some(60)
                when = T0 + chance.randrange(10_000_000)
                place = chance.randrange(PARTITIONS)
                producer.send("values", value, some(20), headers=headers, partition=place, timestamp=when)
    return "values"


@pytest.fixture(scope="module")
def by_pyarrow(broker: Broker, topic: str) -> list[tuple[Any, ...]]:
    """Returns the rows of our consumer's batches."""
    parts = [TopicPartition(topic, p) for p in range(PARTITIONS)]
    batches: list[pa.RecordBatch] = []
    config = {"auto.offset.reset": "earliest", "include.headers": True}
    with Consumer(config, bootstrap_servers=broker.bootstrap_servers) as consumer:
        consumer.assign(parts)
        while sum(batch.num_rows for batch in batches) < COUNT:
            batches.append(consumer.poll(5))
    rows = []
    for row in pa.Table.from_batches(batches).to_pylist():
        headers = [(h["key"], h["value"]) for h in row["headers"]] or None
        ms = int(row["timestamp"].timestamp() * 1000 + 0.5)
        rows.append((row["key"], row["value"], topic, row["partition"], row["offset"], ms, 0, headers))
    return sorted(rows, key=lambda row: row[3:5])


def plain(frame: Any) -> list[tuple[Any, ...]]:
    """Returns Spark's rows in order, as tuples of Python values, with times in milliseconds."""
    result = frame.withColumn("timestamp", f.unix_millis("timestamp")).collect()
    rows = []
    for row in result:
        headers = row.headers and [(h.key, None if h.value is None else bytes(h.value)) for h in row.headers]
        binary = [None if v is None else bytes(v) for v in (row.key, row.value)]
        rows.append((*binary, *row[2:7], headers))
    return sorted(rows, key=lambda row: row[3:5])


@pytest.fixture(params=["columns", "rows"])
def either(request: pytest.FixtureRequest, built: None, spark: Any) -> Iterator[str]:
    """Lets Spark read columns, or read rows from the same vectors, as it does in version 4.2.0."""
    system = spark._jvm.java.lang.System
    system.setProperty("samsarrow.columnar", str(request.param == "columns").lower())
    yield request.param
    system.clearProperty("samsarrow.columnar")


def test_values_equal_those_of_pyarrow(jvm: Jvm, topic: str, by_pyarrow: list[tuple[Any, ...]], either: str) -> None:
    frame = jvm(subscribe=topic, includeHeaders="true")
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert ("ColumnarToRow" in plan) == (either == "columns")
    assert plain(frame) == by_pyarrow


def test_plan_shapes(jvm: Jvm, topic: str, by_pyarrow: list[tuple[Any, ...]]) -> None:
    """Plans that retain rows, sort them, self-join them, or send them to Python and back."""

    def names(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_arrays([batch.column("offset")], names=["offset"])

    @f.pandas_udf("bigint")  # type: ignore[call-overload,untyped-decorator]
    def sizes(values):  # type: ignore[no-untyped-def]
        return values.map(lambda v: -1 if v is None else len(v))

    frame = jvm(subscribe=topic, includeHeaders="true")
    offsets = sum(row[4] for row in by_pyarrow)
    lengths = [-1 if row[1] is None else len(row[1]) for row in by_pyarrow]
    ours = [row[7] for row in by_pyarrow]
    total = frame.selectExpr("sum(offset)", "count(key)", "max(length(value))").first()
    assert tuple(total) == (offsets, sum(row[0] is not None for row in by_pyarrow), max(lengths))
    assert frame.mapInArrow(names, "offset bigint").agg(f.sum("offset")).first()[0] == offsets
    measured = frame.select("partition", "offset", "value", sizes("value").alias("n")).orderBy("partition", "offset")
    assert [(row.n, row.n < 0) for row in measured.collect()] == [(n, n < 0) for n in lengths]
    assert frame.where(sizes("value") > 1000).count() == sum(n > 1000 for n in lengths)
    repeated = frame.repartition(3).sortWithinPartitions("offset").cache()
    assert plain(repeated) == by_pyarrow
    repeated.unpersist()
    joined = frame.alias("a").join(frame.alias("b"), ["topic", "partition", "offset"])
    assert joined.where("a.value <=> b.value").count() == COUNT
    # Spark reads only one field of the struct.
    inner = frame.selectExpr("partition", "offset", "headers.value v").orderBy("partition", "offset").collect()
    bare = [None if row.v is None else [None if v is None else bytes(v) for v in row.v] for row in inner]
    assert bare == [None if headers is None else [v for _, v in headers] for headers in ours]


def test_columns_in_any_order_and_as_text(jvm: Jvm, spark: Any, broker: Broker, topic: str) -> None:
    frame = jvm(subscribe=topic, columns="offset,value", layout="string")
    assert frame.schema.simpleString() == "struct<offset:bigint,value:string>"
    reader = spark.read.format("samsarrow-jvm").option("kafka.bootstrap.servers", broker.bootstrap_servers)
    chosen = reader.option("subscribe", topic).schema("timestampType int, key string, partition int").load()
    assert chosen.schema.simpleString() == "struct<timestampType:int,key:string,partition:int>"
    counted = {row.partition: row["count"] for row in chosen.groupBy("partition").count().collect()}
    assert sum(counted.values()) == chosen.count() == COUNT
    for wrong in ("value int", "colour string", "offset int"):
        with pytest.raises(Exception, match="cannot be read: this source has"):
            reader.option("subscribe", topic).schema(wrong).load().collect()


def test_count_skips_markers_and_aborted_records(jvm: Jvm, broker: Broker) -> None:
    """If no columns are read, records are counted by the headers of their batches, without markers, aborted records,
    and records outside of the range.
    """
    broker.create_topic("counted")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "counted"}
    with Producer(settings) as producer:
        producer.init_transactions()
        for number in range(4):
            producer.begin_transaction()
            for i in range(50):
                producer.send("counted", b"%d" % i, partition=0)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    # The log has four transactions, each with 50 records and a marker.
    assert jvm(subscribe="counted").count() == 200
    assert jvm(subscribe="counted", **{"isolation.level": "read_committed"}).count() == 100
    cut = jvm(subscribe="counted", startingOffsets='{"counted":{"0":10}}', endingOffsets='{"counted":{"0":110}}')
    assert cut.count() == len(cut.collect()) == 98


def test_options_are_case_insensitive(jvm: Jvm, topic: str) -> None:
    assert jvm(subscribe=f" {topic} ,", **{"kafka.client.rack": 'ä"\\\n\u0001😀'}).count() == COUNT


def test_empty_topic(jvm: Jvm, broker: Broker) -> None:
    broker.create_topic("empty", 2)
    frame = jvm(subscribe="empty")
    assert (frame.collect(), frame.count(), frame.rdd.getNumPartitions()) == ([], 0, 0)


def test_out_of_bounds_access_fails_an_assertion(built: None, spark: Any) -> None:
    """Tests run with Java's assertions, without which the access would read arbitrary memory."""
    jvm = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    kind = loader.loadClass("io.github.samsarrow.spark.NumberVector")
    assert kind.desiredAssertionStatus()
    types = spark.sparkContext._gateway.new_array(jvm.java.lang.Class, 1)
    types[0] = loader.loadClass("org.apache.spark.sql.types.DataType")
    make = kind.getDeclaredConstructor(types)
    make.setAccessible(True)
    given = spark.sparkContext._gateway.new_array(jvm.java.lang.Object, 1)
    given[0] = jvm.org.apache.spark.sql.types.DataType.fromDDL("int")
    with pytest.raises(Exception, match="AssertionError: row 0 of 0 in a column of int"):
        make.newInstance(given).getInt(0)
