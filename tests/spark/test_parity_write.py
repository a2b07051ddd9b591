"""Writes through Spark's own connector and our two sinks produce equal records and equal kinds of errors."""

import datetime
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Consumer, Producer
from support.kafka import KafkaServer
from support.parity import JVM, outcome
from support.spark import built_jar

NewTopicName = Callable[..., str]

# If the jar is required but missing, the fixture `built` fails.
OURS = ("samsarrow-python", JVM) if built_jar() else ("samsarrow-python",)
SOURCES = ("kafka", *OURS)
HEADER = "array<struct<key:string,value:binary>>"
WHEN = datetime.datetime(2024, 5, 6, 7, 8, 9, 123000, tzinfo=datetime.UTC)

TO = {"topic": "{topic}"}

# Cases: schema, rows and options; `{topic}` is a topic of two partitions.
CASES: dict[str, tuple[str, list[tuple[Any, ...]], dict[str, str]]] = {
    "value as text": ("value string", [("a",), ("",), (None,), ("ü",)], TO),
    "value as binary": ("value binary", [(b"a",), (b"",), (b"\xff",)], TO),
    "keys choose partitions": (
        "key string, value string",
        [(f"k{i}", f"v{i}") for i in range(40)],
        TO,
    ),
    "binary keys": ("key binary, value string", [(b"k%d" % i, f"v{i}") for i in range(9)], TO),
    "null keys": ("key string, value string, partition int", [(None, "a", 1), ("", "b", 1)], TO),
    "partitions": ("value string, partition int", [("a", 0), ("b", 1), ("c", 1)], TO),
    "null partition": (
        "key string, value string, partition int",
        [("k", "a", None), ("k", "b", 0)],
        TO,
    ),
    "headers": (
        f"value string, headers {HEADER}, partition int",
        [("a", [("h", b"1"), ("h", None), ("i", b"")], 0), ("b", [], 0), ("c", None, 0)],
        TO,
    ),
    "column topic": ("topic string, value string", [("{topic}", "a"), ("{topic}", "b")], {}),
    "option beats column": ("topic string, value string", [("no-such-topic", "a")], TO),
    "null topics do not matter with the option": ("topic string, value string", [(None, "a")], TO),
    "other columns": ("value string, colour string, size int", [("a", "red", 1)], TO),
    "columns in another order": ("partition int, value string, key string", [(1, "a", "k")], TO),
    "nothing": ("value string", [], TO),
    "compressed": ("value string", [("a" * 1000,)] * 9, {"topic": "{topic}", "kafka.compression.type": "zstd"}),
    "options of the producer": (
        "key string, value string",
        [("k", "a")],
        {"topic": "{topic}", "kafka.linger.ms": "5", "kafka.acks": "1", "kafka.enable.idempotence": "false"},
    ),
    "names in other cases": ("key string, value string", [("k", "a")], {"TOPIC": "{topic}", "KAFKA.linger.ms": "1"}),
    # Invalid writes.
    "no topic": ("value string", [("a",)], {}),
    "null topic": ("topic string, value string", [("{topic}", "a"), (None, "b")], {}),
    "no value": ("key string", [("a",)], TO),
    "value of a wrong type": ("value int", [(1,)], TO),
    "key of a wrong type": ("key int, value string", [(1, "a")], TO),
    "topic of a wrong type": ("topic int, value string", [(1, "a")], {}),
    "partition of a wrong type": ("partition bigint, value string", [(1, "a")], TO),
    "headers of a wrong type": ("headers array<string>, value string", [(["a"], "a")], TO),
    "key.serializer": ("value string", [("a",)], {"topic": "{topic}", "kafka.key.serializer": "x"}),
    "value.serializer": ("value string", [("a",)], {"topic": "{topic}", "kafka.value.serializer": "x"}),
    "no brokers": ("value string", [("a",)], {"topic": "{topic}", "kafka.bootstrap.servers": ""}),
}


def content(kafka: KafkaServer, topic: str) -> list[Any]:
    """Returns the records of a topic, sorted by partition and value."""
    config = {"include.headers": True, "auto.offset.reset": "earliest"}
    with Consumer(config, bootstrap_servers=kafka.bootstrap_servers) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        result = consumer.reader().read_all().to_pylist()
    rows = [(r["partition"], r["key"], r["value"], [tuple(h.values()) for h in r["headers"]]) for r in result]
    return sorted(rows, key=repr)


def filled(text: Any, topic: str) -> Any:
    return text.replace("{topic}", topic) if isinstance(text, str) else text


@pytest.mark.parametrize("name", CASES)
def test_write_matches_connector(spark: Any, kafka: KafkaServer, new_topic: NewTopicName, name: str) -> None:
    schema, rows, options = CASES[name]
    outcomes = []
    for source in SOURCES:
        topic = new_topic(2)
        config = {"kafka.bootstrap.servers": kafka.bootstrap_servers} | {
            k: filled(v, topic) for k, v in options.items()
        }
        if name == "no brokers":
            del config["kafka.bootstrap.servers"]
        frame = spark.createDataFrame([tuple(filled(v, topic) for v in row) for row in rows], schema).coalesce(1)
        error = outcome(lambda: frame.write.format(source).options(**config).mode("append").save())  # noqa: B023
        landed = content(kafka, topic)
        if name in ("value as text", "value as binary", "other columns", "option beats column", "compressed") or (
            "topic" in name
        ):
            # Without keys, the producer chooses the partition, and our producer chooses differently from Java's.
            landed = sorted((row[1:] for row in landed), key=repr)
        if name == "null topic":
            # The connector sends the rows before the invalid one. Our sinks send no row of a batch that contains such a
            # row.
            assert source == "kafka" or not landed
            landed = []
        outcomes.append((error, landed))
    assert outcomes[1:] == [outcomes[0]] * len(OURS)


@pytest.fixture(params=OURS)
def write(request: pytest.FixtureRequest, spark: Any, kafka: KafkaServer) -> Callable[..., None]:
    def to(schema: str, rows: list[Any], mode: str = "append", **options: str) -> None:
        config = {"kafka.bootstrap.servers": kafka.bootstrap_servers, **options}
        spark.createDataFrame(rows, schema).coalesce(1).write.format(request.param).options(**config).mode(mode).save()

    return to


def test_timestamp_column(write: Callable[..., None], kafka: KafkaServer, new_topic: NewTopicName) -> None:
    """This column is an extension, which the connector does not support."""
    topic = new_topic(1)
    write("value string, timestamp timestamp", [("a", WHEN), ("b", None)], topic=topic)
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign(consumer.partitions_for(topic))
        result = consumer.reader().read_all().column("timestamp").to_pylist()
    assert result[0] == WHEN
    assert result[1] > datetime.datetime.now(datetime.UTC) - datetime.timedelta(minutes=5)


def test_topic_column(write: Callable[..., None], kafka: KafkaServer, new_topic: NewTopicName) -> None:
    topics = [new_topic(1) for _ in range(3)]
    rows = [(topics[i % 3], str(i), [("n", b"%d" % i)]) for i in range(30)]
    write(f"topic string, value string, headers {HEADER}", rows)
    for n, topic in enumerate(topics):
        mine = [b"%d" % i for i in range(n, 30, 3)]
        assert sorted(content(kafka, topic)) == sorted((0, None, v, [("n", v)]) for v in mine)


@pytest.mark.parametrize(
    ("schema", "rows", "options", "text"),
    [
        ("value string", [("a",)], {"topic": "no-such-topic"}, "topic no-such-topic does not exist"),
        (
            "topic string, value string",
            [("no-such-topic", "a")],
            {"kafka.max.block.ms": "3000"},
            "topic no-such-topic does not exist",
        ),
        ("topic string, value string", [(None, "a")], {}, "1 of 1 rows have a null topic"),
        ("value int", [(1,)], {"topic": "t"}, "column value must be binary or string to be written, not int"),
        (
            "value string",
            [("a",)],
            {"topic": "t", "exactlyOnce": "true"},
            "is for foreachBatch, and needs the option transactionalIdPrefix there",
        ),
        (
            "value string",
            [("a",)],
            {"topic": "t", "exactlyOnce": "true", "transactionalIdPrefix": "p"},
            "exactlyOnce needs a streaming query, or foreachBatch in one.* Nothing was written",
        ),
        ("value string", [("a",)], {"topic": "t", "kafka.partitioner.class": "x"}, "partitioners are Java classes"),
        ("value string", [("a",)], {"topics": "t"}, "did you mean topic"),
        ("value string", [("a",)], {"topic": "t", "kafka.linger": "5"}, r"linger\.ms"),
    ],
)
def test_write_errors(
    write: Callable[..., None], schema: str, rows: list[Any], options: dict[str, str], text: str
) -> None:
    with pytest.raises(Exception, match=text):
        write(schema, rows, **options)


def test_unknown_partition(write: Callable[..., None], new_topic: NewTopicName) -> None:
    topic = new_topic(2)
    with pytest.raises(Exception, match=rf"{topic}.*7|7.*{topic}"):
        write("value string, partition int", [("a", 7)], topic=topic)


def test_overwrite_mode_is_rejected(write: Callable[..., None], new_topic: NewTopicName) -> None:
    with pytest.raises(Exception, match="cannot be overwritten"):
        write("value string", [("a",)], mode="overwrite", topic=new_topic(1))


@pytest.mark.parametrize("source", SOURCES)
def test_append_and_complete_modes(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, tmp_path: Path, source: str
) -> None:
    """In the output modes append and complete, each micro-batch adds its rows to the topic, also after a restart."""
    come, gone, counts = new_topic(2), new_topic(1), new_topic(1)
    numbers = itertools.count()

    def run() -> None:
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for _ in range(10):
                n = next(numbers)
                producer.send(come, f"v{n}", f"k{n % 2}", partition=n % 2)
        servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        frame = spark.readStream.format(source).options(**servers, subscribe=come, startingOffsets="earliest").load()
        sums = frame.groupBy("key").count().selectExpr("key", "cast(count as string) value")
        for out, topic, mode in ((frame, gone, "append"), (sums, counts, "complete")):
            writer = out.select("key", "value").writeStream.format(source).options(**servers, topic=topic)
            writer = writer.option("checkpointLocation", str(tmp_path / topic)).outputMode(mode)
            assert writer.trigger(availableNow=True).start().awaitTermination(120)

    run()
    run()
    assert sorted(row[2] for row in content(kafka, gone)) == sorted(b"v%d" % n for n in range(20))
    assert sorted(row[1:3] for row in content(kafka, counts)) == [
        (b"k0", b"10"), (b"k0", b"5"), (b"k1", b"10"), (b"k1", b"5")
    ]  # fmt: skip


@pytest.mark.parametrize("source", [source for source in SOURCES if source != "samsarrow-python"])
def test_update_mode(spark: Any, kafka: KafkaServer, new_topic: NewTopicName, tmp_path: Path, source: str) -> None:
    """The output mode update, which Spark rejects for Python sinks."""
    come, gone = new_topic(1), new_topic(1)
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    for keys in ("aab", "b"):
        with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            for key in keys:
                producer.send(come, "v", key)
        frame = spark.readStream.format(source).options(**servers, subscribe=come, startingOffsets="earliest").load()
        sums = frame.groupBy("key").count().selectExpr("key", "cast(count as string) value")
        writer = sums.writeStream.format(source).options(**servers, topic=gone).outputMode("update")
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)
    assert sorted(row[1:3] for row in content(kafka, gone)) == [(b"a", b"2"), (b"b", b"1"), (b"b", b"2")]


@pytest.mark.parametrize("source", OURS)
def test_stream_without_topic_fails(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, tmp_path: Path, source: str
) -> None:
    come = new_topic(1)
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        producer.send(come, "v")
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
    frame = spark.readStream.format(source).options(**servers, subscribe=come, startingOffsets="earliest").load()
    soon = {**servers, "kafka.max.block.ms": "3000"}
    writer = frame.select("value").writeStream.format(source).options(**soon, topic="no-such-topic")
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    with pytest.raises(StreamingQueryException, match="no-such-topic does not exist"):
        query.awaitTermination(120)
