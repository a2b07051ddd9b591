"""Options of the data source: the connector's names and rules, without Spark or a broker."""

from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.schema import COLUMNS, spark_schema
from samsarrow.spark.write_options import WriteOptions

BASE = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t"}


COLLATED = StringType("UTF8_LCASE")


def parse(**options: str) -> ReadOptions:
    return ReadOptions.parse({**BASE, **options})


def test_defaults_match_the_connector() -> None:
    o = parse()
    assert o.columns == ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
    assert (o.text, o.poll_timeout_s, o.fail_on_data_loss) == (frozenset(), 120.0, True)
    assert o.kafka == {"bootstrap.servers": "localhost:9092", "client.id": "samsarrow-spark"}
    stream = ReadOptions.parse(BASE, streaming=True)
    assert (stream.max_offsets, stream.min_offsets, stream.token_mechanism) == (None, None, None)


def test_names_are_case_insensitive() -> None:
    assert "headers" in parse(includeheaders="TRUE").columns
    with pytest.raises(ConfigurationError, match=r"option startingOffsets: -1 \(latest\) of t-1 cannot be used"):
        parse(STARTINGOFFSETS='{"t":{"0":-2,"1":-1}}')


def test_tasks_do_not_get_planning_options() -> None:
    o = parse(minPartitions="3", layout="string")
    assert o.planning == {"subscribe": "t", "minpartitions": "3", "layout": "string"}
    assert (o.for_tasks().planning, o.for_tasks().text) == ({}, {"key", "value"})


def test_batch_and_stream_options_are_checked() -> None:
    options = {**BASE, "startingOffsets": "latest", "endingOffsets": "latest", "commitOffsets": "true"}
    assert ReadOptions.parse(options, streaming=None).columns == parse().columns
    for streaming in (False, True):
        with pytest.raises(ConfigurationError):
            ReadOptions.parse(options, streaming=streaming)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers must be given"),
        ({"assign": '{"t":[0]}'}, "exactly one of the options"),
        ({"subscribe": " , "}, "names no topic"),
        ({"startingOffsets": "latest"}, "startingOffsets cannot be 'latest'"),
        ({"endingOffsets": "earliest"}, "endingOffsets cannot be 'earliest'"),
        ({"startingOffsets": "yesterday"}, "startingOffsets must be JSON"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, r"-1 \(latest\) of t-0"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, r"-2 \(earliest\) of t-0"),
        ({"endingOffsets": '{"t":[1]}'}, "must map to numbers per partition"),
        ({"endingOffsets": '{"t":{"x":1}}'}, "not a partition and an offset"),
        ({"includeHeaders": "yes"}, "true or false"),
        ({"minPartitions": "0"}, "greater than 0"),
        ({"kafka.auto.offset.reset": "none"}, "use the option startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "never commits"),
        ({"kafka.key.deserializer": "x"}, "layout=string"),
        ({"kafka.interceptor.classes": "x"}, "Java classes"),
        ({"subscribePattern": "t.*"}, "exactly one of the options"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"columns": "key,colour"}, "there is no column 'colour'"),
        ({"columns": "key,KEY"}, "names a column twice"),
        ({"layout": "text"}, "layout must be binary, string"),
        ({"layout": "offset:string"}, "layout must be binary, string"),
        ({"maxRecordsPerPartition": "-1"}, "greater than 0"),
        ({"startingTimestamp": "yesterday"}, "startingTimestamp must be a whole number"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-5}}'}, r"a time in milliseconds \(-2 for earliest\)"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error or latest"),
        ({"endingOffsets": "group"}, "only startingOffsets can"),
        ({"startingOffsets": "group"}, "needs the option kafka.group.id"),
        ({"commitOffsets": "true", "kafka.group.id": "g"}, "for streaming queries"),
        ({"maxTriggerDelay": "soon"}, "a time such as 15m"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "cannot be larger"),
        ({"startingOffset": "earliest"}, "did you mean startingOffsets"),
    ],
)
def test_invalid_options(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        parse(**options)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_stream_rejects_ending_offsets(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} cannot be used in a streaming query"):
        ReadOptions.parse({**BASE, name: "latest"}, streaming=True)


def test_columns_and_layout() -> None:
    o = parse(columns="offset, VALUE", layout="value:string", includeHeaders="true")
    assert (o.columns, o.text) == (("offset", "value"), {"value"})
    assert parse(layout="string").text == {"key", "value"}


def test_isolation_level_is_passed_to_the_consumer() -> None:
    assert parse(**{"isolation.level": "read_committed"}).kafka["isolation.level"] == "read_committed"


def test_column_types_match_the_connector() -> None:
    text = "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
    text += "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    assert spark_schema(COLUMNS).simpleString() == text


def header(key: Any) -> ArrayType:
    return ArrayType(StructType().add("key", key).add("value", BinaryType()))


def written(schema: StructType, **options: str) -> WriteOptions:
    return WriteOptions.parse({"kafka.bootstrap.servers": "localhost:9092", **options}, schema)


def test_write_options() -> None:
    o = written(StructType().add("value", BinaryType()), topic="t")
    assert o == WriteOptions(
        kafka={"bootstrap.servers": "localhost:9092", "client.id": "samsarrow-spark"},
        topic="t",
        exactly_once=False,
        prefix=None,
        accepted=None,
        columns=("value",),
    )
    config = {"TOPIC": " t ", "exactlyOnce": "TRUE", "transactionalIdPrefix": "p", "allowReplayMismatch": "0"}
    o = written(StructType().add("value", BinaryType()), **config)
    assert (o.topic, o.exactly_once, o.prefix, o.accepted) == ("t", True, "p", 0)


@pytest.mark.parametrize("key", [StringType(), COLLATED])
def test_written_columns(key: Any) -> None:
    schema = StructType().add("timestamp", TimestampType()).add("colour", StringType()).add("headers", header(key))
    schema = schema.add("partition", IntegerType()).add("value", COLLATED).add("key", BinaryType()).add("topic", key)
    assert set(written(schema).columns) == {"key", "value", "headers", "topic", "partition", "timestamp"}
    assert "topic" not in written(schema, topic="t").columns


@pytest.mark.parametrize(
    ("schema", "options", "text"),
    [
        (StructType(), {"topic": "t"}, "no column value to be written, only none"),
        (StructType().add("key", StringType()), {"topic": "t"}, "no column value to be written, only key: select"),
        (StructType().add("value", StringType()), {}, "no topic to write to"),
        (
            StructType().add("value", IntegerType()),
            {"topic": "t"},
            "value must be binary or string to be written, not int",
        ),
        (StructType().add("value", StringType()).add("partition", LongType()), {"topic": "t"}, "not bigint"),
        (
            StructType().add("value", StringType()).add("timestamp", TimestampNTZType()),
            {"topic": "t"},
            "timestamp_ntz, which names no moment without a time zone: cast it",
        ),
        (
            StructType().add("value", StringType()).add("headers", header(BinaryType())),
            {"topic": "t"},
            "headers must be",
        ),
        (
            StructType().add("value", StringType()).add("value", BinaryType()),
            {"topic": "t"},
            "value is there more than",
        ),
        (StructType().add("value", StringType()), {"topic": "t", "exactlyOnce": "yes"}, "true or false, not 'yes'"),
        (StructType().add("value", StringType()), {"topic": "t", "allowReplayMismatch": "x"}, "must be a whole number"),
        (StructType().add("value", StringType()), {"topics": "t"}, "did you mean topic"),
        (
            StructType().add("value", StringType()),
            {"topic": "t", "kafka.transactional_id": "x"},
            r"kafka.transactional_id is not supported: use exactlyOnce=true",
        ),
    ],
)
def test_invalid_writes(schema: StructType, options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        written(schema, **options)
