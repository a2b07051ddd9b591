"""DataFrame columns as typed keys and values, written to Kafka with an in-memory registry."""

import json
import pickle
import re
import struct
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row
from pyspark.sql import functions as sql
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from samsarrow import Avro, Consumer, Json, Protobuf, SchemaRegistry
from samsarrow.exceptions import (
    BadValueError,
    ConfigurationError,
    RegistryError,
    SchemaIncompatibleError,
    SchemaNotFoundError,
)
from samsarrow.spark.datasource import KafkaDataSource
from samsarrow.spark.stream_writer_spark40 import to_batches
from samsarrow.spark.types import arrow_type
from samsarrow.spark.value_encoders import encoded
from samsarrow.spark.write_options import WriteOptions
from samsarrow.testing import Broker, Registry
from support.exactly_once import SINKS, Copy
from support.kafka import KafkaServer
from support.streams import produce

NewTopicName = Callable[..., str]
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": ["null", "string"], "default": None},
    ],
}
PROTO = 'syntax = "proto3"; package shop; message Order { int64 id = 1; optional string city = 2; }'
JSON_SCHEMA = json.dumps({"type": "object", "properties": {"id": {"type": "integer"}, "city": {"type": "string"}}})
ROWS = [{"id": 0, "city": None}, {"id": 1, "city": "city 1"}, {"id": 2, "city": "city 2"}, None]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as server:
        yield server


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(registry.url) as one:
        yield one


def options_of(registry: Registry, **more: str) -> dict[str, str]:
    return {"value.format": "avro", "schema.registry.url": registry.url, "schema.registry.max.retries": "0", **more}


def orders(spark: Any) -> Any:
    """A frame of `ROWS` in four tasks."""
    value = sql.expr("if(id = 3, null, named_struct('id', id, 'city', if(id = 0, null, concat('city ', id))))")
    return spark.range(4, numPartitions=4).select(value.alias("value"), sql.col("id").alias("key"))


@pytest.fixture(params=SINKS)
def sink(request: pytest.FixtureRequest, built: None) -> str:
    """Returns the name of the sink under test."""
    return str(request.param)


@pytest.fixture
def write(kafka: KafkaServer, sink: str) -> Callable[..., None]:
    """Returns a function that writes a frame: `write(frame, topic, **options)`."""

    def save(frame: Any, topic: str | None, **options: str) -> None:
        servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers}
        keys = {"key.format": "long"} if "key" in frame.columns else {}
        writer = frame.write.format(sink).options(**servers, **keys, **options).mode("append")
        (writer if topic is None else writer.option("topic", topic)).save()

    return save


def read(servers: str, topic: str, **formats: Any) -> list[dict[str, Any]]:
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **formats) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        return consumer.reader().read_all().select(["key", "value"]).to_pylist()


def values(servers: str, topic: str, value_format: Any) -> list[Any]:
    """Returns the topic's values sorted by id, tombstones last."""
    results = [row["value"] for row in read(servers, topic, value_format=value_format)]
    return sorted(results, key=lambda value: 99 if value is None else value["id"])


def test_avro_schema_is_derived_from_columns(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, registry: Registry, client: SchemaRegistry, write: Any
) -> None:
    topic = new_topic(1)
    write(orders(spark), topic, **options_of(registry, **{"value.name": "shop.Order"}))
    assert registry.requests() == 1, "one schema is registered, by the driver, whatever tasks there are"
    rows = read(kafka.bootstrap_servers, topic, key_format="long", value_format=Avro(client))
    assert sorted(rows, key=lambda row: int(row["key"])) == [{"key": i, "value": row} for i, row in enumerate(ROWS)]
    result = json.loads(client.schema(subject=f"{topic}-value").schema)
    assert (result["name"], [field["name"] for field in result["fields"]]) == ("shop.Order", ["id", "city"])
    [raw] = {row["value"][:5] for row in read(kafka.bootstrap_servers, topic) if row["value"] is not None}
    assert raw == struct.pack(">bI", 0, 1)
    # Spark can read the values that it wrote.
    frame = spark.read.format("samsarrow-python").options(**options_of(registry), subscribe=topic)
    back = frame.option("kafka.bootstrap.servers", kafka.bootstrap_servers).load().select("value.*").orderBy("id")
    assert [row.asDict() for row in back.collect()[1:]] == ROWS[:3]


def test_values_round_trip(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, registry: Registry, client: SchemaRegistry, write: Any
) -> None:
    moment = datetime(2026, 11, 23, 17, 0, 0, 5001)
    row = Row(
        id=1,
        flag=True,
        tiny=-1,
        small=300,
        ratio=0.5,
        exact=Decimal("-12.34"),
        bytes=bytearray(b"\x00\xff"),
        day=date(2026, 11, 23),
        made=moment,
        seen=moment,
        users=[Row(name="Ann", age=7), None, Row(name=None, age=8)],
        named={"x": [1, 2], "y": None},
    )
    kind = (
        "value struct<id: bigint, flag: boolean, tiny: tinyint, small: smallint, ratio: float, exact: decimal(9,2), "
        "bytes: binary, day: date, made: timestamp, seen: timestamp_ntz, users: array<struct<name: string, age: int>>, "
        "named: map<string, array<int>>>"
    )
    topic, zone = new_topic(1), spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        frame = spark.createDataFrame([Row(value=row), Row(value=None)], kind).coalesce(1)
        made = frame.selectExpr("unix_micros(value.made)").collect()[0][0]
        write(frame, topic, **options_of(registry))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert values(kafka.bootstrap_servers, topic, Avro(client)) == [
        {
            "id": 1,
            "flag": True,
            "tiny": -1,
            "small": 300,
            "ratio": 0.5,
            "exact": Decimal("-12.34"),
            "bytes": b"\x00\xff",
            "day": date(2026, 11, 23),
            "made": datetime.fromtimestamp(made // 10**6, UTC).replace(microsecond=made % 10**6),
            "seen": moment,
            "users": [{"name": "Ann", "age": 7}, None, {"name": None, "age": 8}],
            "named": [("x", [1, 2]), ("y", None)],
        },
        None,
    ]


@pytest.mark.parametrize(
    ("options", "made", "kind"),
    [
        ({"value.format": "avro", "value.schema": json.dumps(ORDER)}, Avro, "AVRO"),
        ({"value.format": "protobuf", "value.schema": PROTO}, Protobuf, "PROTOBUF"),
        ({"value.format": "json", "value.schema": JSON_SCHEMA}, Json, "JSON"),
    ],
)
def test_formats_with_a_schema(
    spark: Any,
    kafka: KafkaServer,
    new_topic: NewTopicName,
    registry: Registry,
    client: SchemaRegistry,
    write: Any,
    options: dict[str, str],
    made: Any,
    kind: str,
) -> None:
    topic = new_topic(1)
    write(orders(spark), topic, **{**options_of(registry), **options})
    assert registry.requests() == 1
    result = client.schema(subject=f"{topic}-value")
    assert (result.schema_type, "".join(result.schema.split())) == (kind, "".join(options["value.schema"].split()))
    assert values(kafka.bootstrap_servers, topic, made(client)) == ROWS
    # The subject's latest version serves as the schema, without registering one.
    again = {name: one for name, one in options.items() if name != "value.schema"}
    again |= {} if kind == "JSON" else {"value.use.latest": "true"}
    write(orders(spark), topic, **{**options_of(registry), **again})
    assert values(kafka.bootstrap_servers, topic, made(client)) == [row for row in ROWS for _ in range(2)]
    assert client.versions(f"{topic}-value") == [1]


def test_without_a_registry(spark: Any, kafka: KafkaServer, new_topic: NewTopicName, write: Any) -> None:
    frame = orders(spark)
    plain = new_topic(1)
    write(frame, plain, **{"value.format": "json"})
    texts = {row["key"]: row["value"] for row in read(kafka.bootstrap_servers, plain)}
    assert texts[struct.pack(">q", 1)] == b'{"id":1,"city":"city 1"}'
    assert texts[struct.pack(">q", 3)] is None
    for kind, schema, made in (("avro", json.dumps(ORDER), Avro), ("protobuf", PROTO, Protobuf)):
        topic = new_topic(1)
        write(frame, topic, **{"value.format": kind, "value.schema": schema, "value.framing": "none"})
        assert values(kafka.bootstrap_servers, topic, made(schema, framing="none")) == ROWS


def test_topic_column(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, registry: Registry, client: SchemaRegistry, write: Any
) -> None:
    topics = [new_topic(1), new_topic(1)]
    names = sql.element_at(sql.array(*map(sql.lit, topics)), (sql.col("key") % 2 + 1).cast("int"))
    frame = orders(spark).withColumn("topic", names)
    with pytest.raises(Exception, match=r"ConfigurationError.*topic or value\.subject, or value\.subject\.strategy"):
        write(frame, None, **options_of(registry))
    write(frame, None, **options_of(registry, **{"value.subject": "orders", "value.name": "Order"}))
    record = {"value.subject.strategy": "record", "value.schema": json.dumps(ORDER)}
    write(frame, None, **options_of(registry, **record))
    assert client.subjects() == ["orders", "shop.Order"]
    both = [values(kafka.bootstrap_servers, topic, Avro(client, subject="orders")) for topic in topics]
    assert both == [[ROWS[0]] * 2 + [ROWS[2]] * 2, [ROWS[1]] * 2 + [None] * 2]
    write(frame, topics[0], **options_of(registry, **{**record, "value.subject.strategy": "topic-record"}))
    assert f"{topics[0]}-shop.Order" in client.subjects()


def test_rejected_schema_sends_nothing(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, registry: Registry, client: SchemaRegistry, write: Any
) -> None:
    topic = new_topic(1)
    subject = f"{topic}-value"
    text = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
    registry.register(subject, text)
    with pytest.raises(Exception, match=rf"SchemaIncompatibleError: .*{subject}.*\n.*id"):
        write(orders(spark), topic, **options_of(registry, **{"value.name": "Order"}))
    with pytest.raises(Exception, match="SchemaNotFoundError"):
        write(orders(spark), topic, **options_of(registry, **{"value.auto.register": "false"}))
    with pytest.raises(Exception, match=r"ConfigurationError.*\n*.*value\.format=avro"):
        write(orders(spark), topic, **options_of(registry, **{"value.use.latest": "true"}))
    registry.down()
    with pytest.raises(Exception, match=r"RegistryError.*check that the registry runs"):
        write(orders(spark), topic, **options_of(registry))
    registry.up()
    assert client.versions(subject) == [1]
    assert read(kafka.bootstrap_servers, topic) == []


def test_rows_that_do_not_match_the_schema(
    spark: Any, kafka: KafkaServer, new_topic: NewTopicName, registry: Registry, write: Any
) -> None:
    topic = new_topic(1)
    strict = {**ORDER, "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}]}
    frame = spark.range(10).selectExpr("named_struct('id', id, 'city', if(id = 7, null, 'x')) value").coalesce(1)
    with pytest.raises(Exception, match=rf"BadValueError: {topic}, row 7, field city: (?s:.)*column value.*of task 0"):
        write(frame, topic, **options_of(registry, **{"value.schema": json.dumps(strict)}))
    assert read(kafka.bootstrap_servers, topic) == []
    # A column that does not fit fails before tasks start, and registers nothing.
    requests = registry.requests("POST")
    frame = spark.range(1).selectExpr("named_struct('id', id, 'city', 'x', 'colour', 1) value")
    with pytest.raises(Exception, match=r"ConfigurationError: .*colour"):
        write(frame, topic, **options_of(registry, **{"value.schema": json.dumps(strict)}))
    assert registry.requests("POST") == requests


class Stream:
    """A query that reads files and writes them as typed values, with one micro-batch per file."""

    def __init__(self, spark: Any, servers: str, folder: Path, sink: str) -> None:
        self._spark, self._servers, self._folder, self._sink = spark, servers, folder, sink
        (folder / "in").mkdir()

    def add(self, *ids: int) -> None:
        (self._folder / "in" / f"{ids[0]}.json").write_text("".join(f'{{"id":{item}}}\n' for item in ids))

    def run(self, topic: str, **options: str) -> None:
        source = self._spark.readStream.schema("id bigint").option("maxFilesPerTrigger", "1")
        frame = source.json(str(self._folder / "in")).selectExpr("named_struct('id', id, 'city', 'x') value")
        writer = frame.writeStream.format(self._sink).option("checkpointLocation", str(self._folder / "state"))
        writer = writer.options(topic=topic, **{"kafka.bootstrap.servers": self._servers}, **options)
        assert writer.trigger(availableNow=True).start().awaitTermination(120)


def test_stream_registers_once(
    spark: Any,
    kafka: KafkaServer,
    new_topic: NewTopicName,
    registry: Registry,
    client: SchemaRegistry,
    tmp_path: Path,
    sink: str,
) -> None:
    topic, stream = new_topic(1), Stream(spark, kafka.bootstrap_servers, tmp_path, sink)
    for number in range(3):
        stream.add(2 * number, 2 * number + 1)
    stream.run(topic, **options_of(registry))
    assert [row["id"] for row in values(kafka.bootstrap_servers, topic, Avro(client))] == list(range(6))
    # Each planning process registers the schema once, and two processes may run.
    assert registry.requests("POST") <= 2
    assert registry.requests() == registry.requests("POST") + 1, "what the reader asked for"
    registry.judge(f"{topic}-value", ["no more"])
    stream.add(6)
    with pytest.raises(StreamingQueryException, match=r"SchemaIncompatibleError(?s:.)*no more"):
        stream.run(topic, **options_of(registry, **{"value.name": "Other"}))
    registry.judge(f"{topic}-value", None)
    stream.run(topic, **options_of(registry))
    assert [row["id"] for row in values(kafka.bootstrap_servers, topic, Avro(client))] == list(range(7))


def test_exactly_once_typed_values(
    spark: Any,
    kafka: KafkaServer,
    new_topic: NewTopicName,
    registry: Registry,
    client: SchemaRegistry,
    tmp_path: Path,
    sink: str,
) -> None:
    copy = Copy(spark, kafka, new_topic, tmp_path / "checkpoint", sink)
    copy.sink_options = options_of(registry, **{"key.format": "string", "value.framing": "header"})
    made = ("cast(key as string) key", "named_struct('id', offset, 'text', cast(value as string)) value")
    produce(kafka, copy.come, {0: ["a", "b"], 1: ["c"]})
    copy.run(*made)
    copy.forget(copy.first)
    # The markers have a digest of the headers, which is the same in both sinks.
    [other] = {*SINKS} - {sink}
    copy.run(*made, sink=other)
    produce(kafka, copy.come, {0: ["d", "bad"]})
    fails = made[1].replace("cast(value as string)", "if(value = 'bad', raise_error('on purpose'), string(value))")
    with pytest.raises(StreamingQueryException, match="on purpose"):
        copy.run(made[0], fails)
    copy.run(*made)
    copy.forget(copy.first + 1)
    with pytest.raises(StreamingQueryException, match="ReplayMismatchError"):
        copy.run(made[0], made[1].replace("offset", "offset + 1"))
    committed = {"isolation.level": "read_committed", "value_format": Avro(client)}
    results = [row["value"]["text"] for row in read(kafka.bootstrap_servers, copy.gone, **committed)]
    assert sorted(results) == ["a", "b", "bad", "c", "d"]


def test_stream_writes_headers(
    spark: Any, broker: Broker, registry: Registry, client: SchemaRegistry, tmp_path: Path, sink: str
) -> None:
    broker.create_topic(f"headers-{sink}", 1)
    stream = Stream(spark, broker.bootstrap_servers, tmp_path, sink)
    stream.add(0, 1)
    stream.run(f"headers-{sink}", **options_of(registry, **{"value.framing": "header"}))
    rows = values(broker.bootstrap_servers, f"headers-{sink}", Avro(client, framing="header"))
    assert rows == [{"id": 0, "city": "x"}, {"id": 1, "city": "x"}]


def test_example_in_docs(spark: Any, broker: Broker, registry: Registry, client: SchemaRegistry) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text()
    [example] = [item for item in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if ".write" in item]
    broker.create_topic("orders")
    code = example.replace("localhost:9092", broker.bootstrap_servers).replace("http://localhost:8081", registry.url)
    exec(compile(code, "spark.md", "exec"), {"spark": spark})
    assert values(broker.bootstrap_servers, "orders", Avro(client)) == [
        {"id": 7, "city": "Rome"},
        {"id": 8, "city": None},
    ]


VALUE = StructType().add("id", LongType()).add("city", StringType())
BASE = {"kafka.bootstrap.servers": "localhost:9092", "topic": "t"}
AVRO = {"value.format": "avro", "schema.registry.url": "http://r"}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"value.format": "xml"}, "value.format must be one of avro, .*long, .* not 'xml'"),
        ({"value.formats": "avro"}, "did you mean value.format"),
        ({**AVRO, "value.use_latest": "true"}, "value.use_latest is unknown; did you mean value.use.latest"),
        ({**AVRO, "schema.registery.url": "x"}, "did you mean schema.registry.url"),
        ({**AVRO, "value.fields": "id"}, "value.fields is for reads"),
        ({**AVRO, "value.onError": "null"}, "value.onError is for reads"),
        ({"value.format": "avro"}, r"needs value\.schema or schema\.registry\.url"),
        ({"value.format": "avro", "value.schema": json.dumps(ORDER)}, "or value.framing=none"),
        ({"value.format": "protobuf", "value.schema": PROTO}, "or value.framing=none"),
        ({"value.format": "json", "value.framing": "confluent"}, "is unknown: give the option schema.registry.url"),
        ({"value.format": "json", "value.subject": "s"}, r"value\.subject has no effect without schema\.registry\.url"),
        ({"value.schema": "{}"}, "value.schema has no effect without value.format"),
        ({"value.format": "int", "value.schema": "{}"}, "value.schema has no effect with value.format=int"),
        ({"value.format": "json", "value.name": "x"}, "value.name has no effect with value.format=json"),
        ({"value.format": "string", "schema.registry.url": "http://r"}, "has no effect without value.format=avro"),
        ({"schema.registry.max.retries": "1"}, "schema.registry.url must be given"),
        ({**AVRO, "value.version": "2"}, r"value\.version has no effect where .*\(value\.use\.latest\)"),
        ({**AVRO, "value.use.latest": "true", "value.auto.register": "false"}, "auto.register has no effect where"),
        ({**AVRO, "value.use.latest": "yes"}, "value.use.latest must be true or false"),
        ({**AVRO, "value.subject.strategy": "topics"}, "must be one of topic, record, topic-record, not 'topics'"),
        ({**AVRO, "topic": ""}, "give the option topic or value.subject, or"),
        ({**AVRO, "key.format": "long"}, "there is no column key to be written as long, only value, topic$"),
    ],
)
def test_invalid_options(options: dict[str, str], text: str) -> None:
    schema = StructType().add("value", VALUE).add("topic", StringType())
    with pytest.raises(ConfigurationError, match=text):
        KafkaDataSource({**BASE, **options}).writer(schema, overwrite=False)


def test_unsupported_columns() -> None:
    config = {**BASE, "value.format": "json"}
    with pytest.raises(ConfigurationError, match=r"only id; select\(struct\('\*'\)\.alias\('value'\)\) makes one of"):
        WriteOptions.parse(config, StructType().add("id", LongType()))
    interval = StructType().add("took", DayTimeIntervalType())
    with pytest.raises(ConfigurationError, match=r"column value\.took is interval day to second, which no format"):
        WriteOptions.parse(config, StructType().add("value", interval))
    with pytest.raises(
        ConfigurationError, match=r"which JSON does not support.*column value, with value\.format=json\."
    ):
        WriteOptions.parse(config, StructType().add("value", StructType().add("b", BinaryType()))).resolved()
    with pytest.raises(ConfigurationError, match="column value is there more than once"):
        WriteOptions.parse(config, StructType().add("value", VALUE).add("value", VALUE))


def test_tasks_do_not_use_the_registry() -> None:
    login = {"schema.registry.username": "me", "schema.registry.password": "hunter2"}
    batch = pa.record_batch({"value": pa.array([{"id": 7, "city": None}], arrow_type(VALUE))})
    with Registry(auth=("me", "hunter2")) as registry:
        for subject, more in (
            ("a", {}),
            ("b", {"value.schema": json.dumps(ORDER)}),
            ("b", {"value.use.latest": "true"}),
        ):
            config = {**BASE, **options_of(registry, **login, **more, **{"value.subject": subject})}
            options = WriteOptions.parse(config, StructType().add("value", VALUE))
            assert "hunter2" not in repr(options)
            registry.up()
            sent = pickle.dumps(options.resolved().encoded)
            registry.down()
            assert b"hunter2" not in sent
            [row] = encoded(pickle.loads(sent), iter([batch]))
            assert row.column("value").to_pylist()[0][5:].startswith(b"\x0e" if more else b"\x02")
        with pytest.raises(RegistryError):
            options.resolved()


def test_tasks_do_not_fetch_the_header() -> None:
    """The driver fetches the GUID of the header once for all micro-batches, with its login."""
    login = {"schema.registry.username": "me", "schema.registry.password": "hunter2", "value.framing": "header"}
    rows = [{"id": 7, "city": None}, None]
    batch = pa.record_batch({"value": pa.array(rows, arrow_type(VALUE))})
    with Registry(auth=("me", "hunter2")) as registry:
        options = WriteOptions.parse({**BASE, **options_of(registry, **login)}, StructType().add("value", VALUE))
        assert options.columns == ("value", "headers")
        sent = pickle.dumps(options.resolved().encoded)
        requests = registry.requests()
        assert options.resolved().encoded == pickle.loads(sent)
        assert registry.requests() == requests
        guid = UUID(registry.guid(1)).bytes
        registry.down()
        [row] = encoded(pickle.loads(sent), iter([batch]))
    assert row.column("value").to_pylist() == [b"\x02\x0e\x00", None]
    assert row.column("headers").to_pylist() == [[{"key": "__value_schema_id", "value": b"\1" + guid}], []]


def test_registered_ids_are_cached_latest_is_not(registry: Registry) -> None:
    schema = StructType().add("value", VALUE)
    config = {**BASE, **options_of(registry, **{"value.schema": json.dumps(ORDER), "value.subject": "remembered"})}
    options = WriteOptions.parse(config, schema)
    assert options.resolved() == options.resolved()
    assert registry.requests() == 1
    latest = {name: one for name, one in config.items() if name != "value.schema"} | {"value.use.latest": "true"}
    before = WriteOptions.parse(latest, schema).resolved()
    registry.register("remembered", {**ORDER, "doc": "newer"})
    assert WriteOptions.parse(latest, schema).resolved() != before


def test_driver_errors_precede_tasks(registry: Registry) -> None:
    schema = StructType().add("value", VALUE)
    registry.register("t-value", {"type": "record", "name": "t_value", "fields": [{"name": "id", "type": "string"}]})
    with pytest.raises(SchemaIncompatibleError) as refused:
        WriteOptions.parse({**BASE, **options_of(registry)}, schema).resolved()
    assert refused.value.reasons
    config = options_of(registry, **{"value.use.latest": "true", "value.subject": "none"})
    with pytest.raises(SchemaNotFoundError):
        WriteOptions.parse({**BASE, **config}, schema).resolved()


def test_invalid_write_registers_nothing(registry: Registry) -> None:
    source = KafkaDataSource({**BASE, **options_of(registry)})
    with pytest.raises(ConfigurationError, match="cannot be overwritten"):
        source.writer(StructType().add("value", VALUE), overwrite=True)
    assert registry.requests() == 0


def test_unpickled_source_does_not_use_the_registry(registry: Registry) -> None:
    """Spark unpickles the source to create the writer for the commit."""
    source = pickle.loads(pickle.dumps(KafkaDataSource({**BASE, **options_of(registry)})))
    source.streamWriter(StructType().add("value", VALUE), overwrite=False)
    assert registry.requests() == 0


def test_error_row_is_relative_to_the_task(registry: Registry) -> None:
    strict = {**ORDER, "fields": [{"name": "id", "type": "long"}]}
    config = {**BASE, **options_of(registry, **{"value.schema": json.dumps(strict)})}
    options = WriteOptions.parse(config, StructType().add("value", StructType().add("id", LongType()))).resolved()
    good, bad = (pa.record_batch({"value": [{"id": item}, {"id": 2}]}) for item in (1, None))
    batches = encoded(options.encoded, iter([good, good, bad]))
    assert [next(batches).num_rows for _ in range(2)] == [2, 2]
    with pytest.raises(BadValueError, match="t, row 4, field id") as refused:
        next(batches)
    assert refused.value.row == 4


def test_nullability_follows_the_dataframe(registry: Registry, client: SchemaRegistry) -> None:
    kind = StructType().add("id", LongType(), nullable=False).add("tags", ArrayType(StringType(), containsNull=False))
    config = {**BASE, **options_of(registry)}
    WriteOptions.parse(config, StructType().add("value", kind, nullable=False)).resolved()
    fields = json.loads(client.schema(subject="t-value").schema)["fields"]
    assert fields[0] == {"name": "id", "type": "long"}
    assert fields[1]["type"] == ["null", {"type": "array", "items": "string"}]


def test_spark40_rows_become_arrow() -> None:
    when = datetime(2024, 5, 6, 7, 8, 9)
    user = StructType().add("at", TimestampType()).add("age", IntegerType())
    kind = StructType().add("users", MapType(StringType(), user)).add("list", ArrayType(ArrayType(IntegerType())))
    schema = StructType().add("key", LongType()).add("value", kind)
    types = {"key": pa.int64(), "value": arrow_type(kind)}
    rows = [
        Row(key=1, value=Row(users={"a": Row(at=when, age=None), "b": None}, list=[[1], None])),
        Row(key=None, value=None),
    ]
    [batch] = to_batches(iter(rows), schema, types)
    assert batch.to_pylist() == [
        {
            "key": 1,
            "value": {
                "users": [("a", {"at": when.astimezone(UTC), "age": None}), ("b", None)],
                "list": [[1], None],
            },
        },
        {"key": None, "value": None},
    ]
