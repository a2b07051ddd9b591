"""Records with undecodable keys or values, sent to a dead letter topic by Spark's tasks."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

from samsarrow import Consumer, Producer
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.spark.datasource import KafkaDataSource
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.values import decoded
from support.avro import encoded
from support.kafka import KafkaServer

NewTopicName = Callable[..., str]
ORDER: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
AVRO = {"value.format": "avro", "value.schema": json.dumps(ORDER), "value.framing": "none"}


def good(number: int) -> bytes:
    return bytes(encoded(ORDER, {"id": number}))


@pytest.fixture(params=["samsarrow-python", "samsarrow-jvm"])
def source(request: pytest.FixtureRequest, built: None) -> str:
    """Names of the sources, one after the other."""
    return str(request.param)


@pytest.fixture
def read(spark: Any, kafka: KafkaServer, source: str) -> Callable[..., Any]:
    """Returns a function for batch reads that send bad values to a topic: `read(topic, letters)`."""

    def load(topic: str, letters: str, **options: str) -> Any:
        config = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, **AVRO}
        config |= {"value.onError": "deadletter", "value.deadletter.topic": letters, **options}
        if "subscribePattern" in config:
            del config["subscribe"]
        return spark.read.format(source).options(**config).load()

    return load


def send(kafka: KafkaServer, topic: str, *values: bytes | None, key: bytes | None = None) -> None:
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            producer.send(topic, value, key, timestamp=1_700_000_000_000 + number, headers=[("trace", b"7")])


def letters_in(kafka: KafkaServer, topic: str) -> list[dict[str, Any]]:
    """Returns the dead letters, with headers as dicts."""
    config = {"auto.offset.reset": "earliest", "include.headers": True}
    with Consumer(config, bootstrap_servers=kafka.bootstrap_servers) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        rows = consumer.reader().read_all().to_pylist()
    return [{**row, "headers": {header["key"]: header["value"] for header in row["headers"]}} for row in rows]


def test_bad_records_go_to_dead_letter_topic(
    read: Callable[..., Any], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic, letters = new_topic(1), new_topic(1)
    send(kafka, topic, good(1), b"\xff", None, good(2), b"", key=b"k")
    frame = read(topic, letters)
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    results = [(row.offset, row.value and row.value.id) for row in frame.collect()]
    assert results == [(0, 1), (2, None), (3, 2)]
    first, second = letters_in(kafka, letters)
    assert (first["key"], first["value"], second["value"]) == (b"k", b"\xff", b"")
    assert first["timestamp"].timestamp() == 1_700_000_000.001
    message = first["headers"].pop("__connect.errors.exception.message")
    assert message.startswith(b"value: ")
    assert first["headers"] == {
        "trace": b"7",
        "__connect.errors.topic": topic.encode(),
        "__connect.errors.partition": b"0",
        "__connect.errors.offset": b"1",
        "__connect.errors.stage": b"VALUE_CONVERTER",
        "__connect.errors.exception.class.name": b"samsarrow.exceptions.BadValueError",
    }
    # Every read sends the dead letters, regardless of the selected columns.
    assert read(topic, letters, columns="offset").count() == 3
    assert len(letters_in(kafka, letters)) == 4
    # A limit counts the rows that are left.
    assert [row.offset for row in read(topic, letters).limit(3).collect()] == [0, 2, 3]
    assert len(letters_in(kafka, letters)) == 6


def test_same_records_are_bad_whatever_a_query_uses(
    spark: Any, kafka: KafkaServer, source: str, new_topic: NewTopicName
) -> None:
    topic, letters = new_topic(1), new_topic(1)
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "city": {"type": "string"}}}
    send(kafka, topic, b'{"id": 1, "city": "Rome"}', b'{"id": 2, "city": 3}', b'{"id": "x", "city": "Oslo"}')
    config = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "value.format": "json"}
    config |= {"value.schema": json.dumps(schema), "value.framing": "none", "value.onError": "deadletter"}
    reader = spark.read.format(source).options(**config, **{"value.deadletter.topic": letters})
    for number, column in enumerate(("value.id", "value.city", "offset"), 1):
        assert reader.load().select(column).count() == 1, column
        assert len(reader.load().select(column).collect()) == 1, column
        assert len(letters_in(kafka, letters)) == 4 * number, column
    # Fields that the schema of the frame leaves out are not read, regardless of the columns in a query.
    frame = reader.schema("value struct<id: bigint>, offset bigint").load()
    for column, count in (("value.id", 13), ("offset", 14)):
        assert len(frame.select(column).collect()) == 2, column
        assert len(letters_in(kafka, letters)) == count, column


def test_separate_topics_for_keys_and_values(
    read: Callable[..., Any], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic, keys, values = new_topic(1), new_topic(1), new_topic(1)
    send(kafka, topic, good(1), b"\xff", key=struct.pack(">i", 42))
    send(kafka, topic, good(2), b"\xff", key=b"key")
    more = {"key.format": "int", "key.onError": "deadletter", "key.deadletter.topic": keys}
    assert [(row.key, row.value.id) for row in read(topic, values, **more).collect()] == [(42, 1)]
    assert [(item["key"], item["value"]) for item in letters_in(kafka, values)] == [(struct.pack(">i", 42), b"\xff")]
    assert [(item["key"], item["value"]) for item in letters_in(kafka, keys)] == [(b"key", good(2)), (b"key", b"\xff")]
    assert {item["headers"]["__connect.errors.stage"] for item in letters_in(kafka, keys)} == {b"KEY_CONVERTER"}


def test_streams_send_before_commit(
    spark: Any, kafka: KafkaServer, source: str, new_topic: NewTopicName, tmp_path: Path
) -> None:
    topic, letters = new_topic(2), new_topic(1)
    seen: list[int] = []
    config = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "startingOffsets": "earliest"}
    config |= {**AVRO, "value.onError": "deadletter", "value.deadletter.topic": letters}

    def drain(fails: bool) -> None:
        def keep(batch: Any, _number: int) -> None:
            rows = batch.collect()
            if fails and rows:
                raise RuntimeError("on purpose")
            seen.extend(row.value.id for row in rows)

        frame = spark.readStream.format(source).options(**config).load()
        writer = frame.writeStream.foreachBatch(keep).option("checkpointLocation", str(tmp_path))
        assert writer.trigger(availableNow=True).start().awaitTermination(120)

    send(kafka, topic, good(1), b"\xff", good(2), b"\xfe")
    with pytest.raises(StreamingQueryException, match="on purpose"):
        drain(fails=True)
    assert sorted(item["value"] for item in letters_in(kafka, letters)) == [b"\xfe", b"\xff"]
    drain(fails=False)
    # Spark repeats the micro-batch, so its dead letters are sent again.
    assert sorted(item["value"] for item in letters_in(kafka, letters)) == [b"\xfe", b"\xfe", b"\xff", b"\xff"]
    assert sorted(seen) == [1, 2]
    drain(fails=False)
    assert (sorted(seen), len(letters_in(kafka, letters))) == ([1, 2], 4)


def test_missing_dead_letter_topic_fails_the_task(
    read: Callable[..., Any], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    send(kafka, topic, good(1))
    assert read(topic, "no-such-topic").count() == 1, "it is looked for at the first bad record"
    send(kafka, topic, b"\xff")
    with pytest.raises(Exception, match=r"UnknownTopicOrPartitionError.*no-such-topic does not exist"):
        read(topic, "no-such-topic").collect()


def test_source_topic_is_rejected_as_dead_letter_topic(
    read: Callable[..., Any], kafka: KafkaServer, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    send(kafka, topic, good(1))
    frame = read(topic, topic, subscribePattern=f"^{topic}$")
    with pytest.raises(
        Exception, match=rf"ConfigurationError.*topic {topic} is read, and value\.deadletter\.topic, too"
    ):
        frame.collect()


@pytest.mark.parametrize("limit", [1, 1 << 20])
def test_dead_letters_are_sent_before_error_is_raised(monkeypatch: pytest.MonkeyPatch, limit: int) -> None:
    """The key of offset 3 raises an error; the values of offsets 1 and 4 are dead letters. Only rows before the error
    are returned, and only their dead letters are sent.
    """
    # The small limit causes each row to be decoded separately.
    monkeypatch.setattr("samsarrow.values.typed_columns.LIMIT", limit)
    config = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", **AVRO, "key.format": "int"}
    config |= {"value.onError": "deadletter", "value.deadletter.topic": "u"}
    typed = [item.resolved() for item in ReadOptions.parse(config).typed]
    keys = [None if number is None else struct.pack(">i", number) for number in (1, 2, None, None, 4)]
    raw = pa.record_batch(
        {
            "topic": ["t"] * 5,
            "partition": pa.array([0] * 5, pa.int32()),
            "offset": [0, 1, 2, 3, 4],
            "key": [*keys[:3], b"", keys[4]],
            "value": [good(1), b"\xff", good(3), good(4), b"\xff"],
        }
    )
    sent: list[tuple[str, list[Any]]] = []
    rows = decoded(
        typed, iter([raw]), lambda topic, raw, dead: sent.append((topic, [raw.column("key")[row] for row in dead]))
    )
    results: list[dict[str, Any]] = []

    def read() -> None:
        for batch in rows:
            assert batch.num_rows <= limit
            results.extend(batch.select(["key", "value"]).to_pylist())

    with pytest.raises(BadValueError, match="t-0, offset 3, key"):
        read()
    assert results == [{"key": 1, "value": {"id": 1}}, {"key": None, "value": {"id": 3}}]
    assert [(topic, [key.as_py() for key in dead]) for topic, dead in sent] == [("u", [keys[1]])]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"value.onError": "deadletter"}, "value.onError=deadletter needs the option value.deadletter.topic"),
        ({"value.deadletter.topic": "u"}, "value.deadletter.topic has no effect without value.onError=deadletter"),
        ({"value.onError": "deadletter", "value.deadletter.topic": "t"}, "topic t is read, and would grow"),
        ({"value.onError": "deadletter", "value.deadletter.topics": "u"}, "did you mean value.deadletter.topic"),
        ({"key.onError": "deadletter", "key.deadletter.topic": "u"}, "key.onError has no effect without key.format"),
    ],
)
def test_invalid_options(spark: Any, built: None, options: dict[str, str], text: str) -> None:
    config = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "s,t", **AVRO, **options}
    with pytest.raises(ConfigurationError, match=text):
        KafkaDataSource(config).schema()
    with pytest.raises(Exception, match=f"ConfigurationError.*{text}"):
        spark.read.format("samsarrow-jvm").options(**config).load()
