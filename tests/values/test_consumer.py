"""Consumers that decode keys and values, on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from samsarrow import (
    AsyncConsumer,
    AsyncProducer,
    Avro,
    Consumer,
    ConsumerRecord,
    DeadLetter,
    Producer,
    SchemaRegistry,
    TopicPartition,
    decode_values,
)
from samsarrow.exceptions import (
    BadValueError,
    ConfigurationError,
    IllegalStateError,
    RegistryError,
    UnknownTopicOrPartitionError,
)
from samsarrow.testing import Broker, Registry
from support.kafka import KafkaServer
from support.waiting import until

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "int"}, {"name": "city", "type": "string"}],
}
EARLIER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
READER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string", "default": "?"}],
}
NUMBER = {"name": "n", "type": "long", "default": 7}
BAD = b"\0\0\0\0\7\2\x7f"
QUICK: dict[str, Any] = {"retries_wait_ms": 5, "retries_max_wait_ms": 20, "missing_id_retries_wait_ms": 5}


def varint(number: int) -> bytes:
    out, number = b"", number << 1
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def order(number: int, city: str = "Rome", schema_id: int = 7) -> bytes:
    text = city.encode()
    return b"\0" + struct.pack(">I", schema_id) + varint(number) + varint(len(text)) + text


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def send(broker: Broker) -> Callable[..., None]:
    def send(*values: bytes | None, topic: str = "orders", partition: int = 0, **more: Any) -> None:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for value in values:
                producer.send(topic, value, partition=partition, **more)

    broker.create_topic("orders", partitions=2)
    return send


def consumer(broker: Broker, *partitions: TopicPartition, **options: Any) -> Consumer:
    defaults: dict[str, Any] = {
        "auto_offset_reset": "earliest",
        "value_format": Avro(ORDER, writers={7: ORDER}),
    }
    made = Consumer(bootstrap_servers=broker.bootstrap_servers, **defaults | options)
    made.assign(partitions or [TopicPartition("orders", 0)])
    return made


def taken(consumer: Consumer, rows: int) -> pa.Table:
    """Polls until the consumer has returned this number of rows."""
    batches: list[pa.RecordBatch] = []
    while sum(batch.num_rows for batch in batches) < rows:
        batch = consumer.poll(5.0)
        assert batch.num_rows, f"{rows} rows were to come: {batches}"
        assert batch.schema == consumer.schema
        batches.append(batch)
    return pa.Table.from_batches(batches)


def test_values_are_structs_and_tombstones_are_null(broker: Broker, send: Callable[..., None]) -> None:
    send(order(1), None, order(2, "Ulm"), key=b"\0\0\0\5")
    with consumer(broker, key_format="int") as reader:
        empty = reader.poll(0)
        rows = taken(reader, 3)
    assert empty.schema == rows.schema
    assert rows.schema.field("value").type == pa.struct(
        [pa.field("id", pa.int32(), nullable=False), pa.field("city", pa.string(), nullable=False)]
    )
    assert rows["value"].to_pylist() == [{"id": 1, "city": "Rome"}, None, {"id": 2, "city": "Ulm"}]
    assert rows["key"].to_pylist() == [5, 5, 5]
    assert rows["offset"].to_pylist() == [0, 1, 2]
    assert rows.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestamp_type"]


def test_other_columns_match_an_untyped_consumer(broker: Broker, send: Callable[..., None]) -> None:
    send(order(1), headers=[("a", b"b")])
    with consumer(broker, value_format=None, include_headers=True) as plain:
        expected = plain.poll(5.0)
    with consumer(broker, include_headers=True, raw_values=True) as reader:
        rows = reader.poll(5.0)
    assert rows.drop_columns(["value", "raw_value"]).equals(expected.drop_columns(["value"]))
    assert rows.schema.remove(8).remove(1) == expected.schema.remove(1)
    assert rows["raw_value"].equals(expected["value"])
    assert rows.schema.names == [*expected.schema.names, "raw_value"]


def test_bad_value_is_raised_after_the_rows_before_it(broker: Broker, send: Callable[..., None]) -> None:
    send(order(1), order(2), BAD, order(4))
    send(order(11), partition=1)
    both = TopicPartition("orders", 0), TopicPartition("orders", 1)
    with consumer(broker, *both) as reader:
        results: dict[tuple[int, int], Any] = {}
        errors: list[BadValueError] = []
        while len(errors) < 2:
            try:
                batch = reader.poll(5.0)
            except BadValueError as error:
                errors.append(error)
                continue
            results |= {
                (item["partition"], item["offset"]): item["value"]["id"]
                for item in batch.select(["partition", "offset", "value"]).to_pylist()
            }
        for error in errors:
            assert (error.partition, error.offset, error.schema_id, error.field) == (both[0], 2, 7, "city")
            assert str(error).startswith("orders-0, offset 2, schema id 7, field city: ")
        assert reader.position(both[0]) == 2
        assert {(0, 0): 1, (0, 1): 2}.items() <= results.items()
        reader.seek(both[0], 3)
        while len(results) < 4:
            rows = reader.poll(5.0).to_pylist()
            assert rows
            results |= {(item["partition"], item["offset"]): item["value"]["id"] for item in rows}
    assert results == {(0, 0): 1, (0, 1): 2, (0, 3): 4, (1, 0): 11}


def test_commits_do_not_pass_a_bad_value(broker: Broker, send: Callable[..., None]) -> None:
    send(order(1), BAD, order(3))
    with consumer(broker, group_id="g") as reader:
        assert taken(reader, 1)["offset"].to_pylist() == [0]
        for _ in range(3):
            with pytest.raises(BadValueError):
                reader.poll(5.0)
    # Closing has committed the returned rows.
    with consumer(broker, group_id="g") as reader:
        assert reader.committed([TopicPartition("orders", 0)])[TopicPartition("orders", 0)].offset == 1  # type: ignore[union-attr]
        with pytest.raises(BadValueError):
            reader.poll(5.0)


def test_on_decode_error_null_keeps_bytes_and_error(broker: Broker, send: Callable[..., None]) -> None:
    send(order(1), BAD, None, order(9, schema_id=8), b"")
    with consumer(broker, on_decode_error="null") as reader:
        rows = taken(reader, 5)
    assert [item and item["id"] for item in rows["value"].to_pylist()] == [1, None, None, None, None]
    assert rows["raw_value"].to_pylist() == [order(1), BAD, None, order(9, schema_id=8), b""]
    first, bad, tombstone, unknown, empty = rows["value_error"].to_pylist()
    assert (first, tombstone) == (None, None)
    assert bad.startswith("schema id 7, field city: ")
    assert "schema id 8" in unknown
    assert empty
    assert rows.schema.field("value_error").type == pa.string()


def test_dead_letters_have_source_position(broker: Broker, send: Callable[..., None]) -> None:
    send(order(1), key=b"\0\0\0\1")
    send(BAD, key=b"\0\0\0\2", headers=[("trace", b"x")], timestamp=1_700_000_000_000)
    send(order(3), key=b"short")
    send(order(4), key=b"\0\0\0\4")
    send(BAD)
    broker.create_topic("dead", partitions=1)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        letters = DeadLetter("dead", producer)
        with consumer(broker, group_id="g", key_format="int", on_decode_error=letters) as reader:
            rows = taken(reader, 2)
            assert reader.poll(0.2).num_rows == 0
            assert "headers" not in rows.schema.names
            assert reader.position(TopicPartition("orders", 0)) == 5
    assert rows["offset"].to_pylist() == [0, 3]
    dead = [TopicPartition("dead", 0)]
    with consumer(broker, *dead, value_format=None, include_headers=True) as reader:
        result = list(reader.records(5.0))
    assert [(item.key, item.value) for item in result] == [(b"\0\0\0\2", BAD), (b"short", order(3)), (None, BAD)]
    assert result[0].timestamp == 1_700_000_000_000
    headers = dict(result[0].headers)
    assert headers["trace"] == b"x"
    assert headers["__connect.errors.topic"] == b"orders"
    assert headers["__connect.errors.partition"] == b"0"
    assert [dict(item.headers)["__connect.errors.offset"] for item in result] == [b"1", b"2", b"4"]
    stages = [dict(item.headers)["__connect.errors.stage"] for item in result]
    assert stages == [b"VALUE_CONVERTER", b"KEY_CONVERTER", b"VALUE_CONVERTER"]
    assert headers["__connect.errors.exception.message"].startswith(b"value: schema id 7, field city: ")


@pytest.mark.parametrize("auto_create", [False, True])
def test_a_missing_dead_letter_topic_fails_soon(auto_create: bool) -> None:
    with Broker(topics={"orders": 1}, auto_create_topics=auto_create) as broker:
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for value in (order(1), BAD, order(3)):
                producer.send("orders", value, partition=0)
            producer.flush()
            letters = DeadLetter("dead", producer)
            with consumer(broker, group_id="g", on_decode_error=letters) as reader:
                if not auto_create:
                    for _ in range(2):
                        started = time.monotonic()
                        with pytest.raises(
                            UnknownTopicOrPartitionError, match="no topic dead for dead letters: create"
                        ):
                            reader.poll(5.0)
                        assert time.monotonic() - started < 10
                    broker.create_topic("dead", partitions=1)
                rows = taken(reader, 2)
        assert rows["offset"].to_pylist() == [0, 2]
        with consumer(broker, TopicPartition("dead", 0), value_format=None) as reader:
            assert [record.value for record in reader.records(5.0)] == [BAD]


def test_rows_are_returned_again_if_dead_letters_fail(broker: Broker, send: Callable[..., None]) -> None:
    send(order(1), BAD)
    with (
        Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
        consumer(broker, group_id="g", on_decode_error=DeadLetter("dead", producer)) as reader,
    ):
        producer.close()
        for _ in range(2):
            with pytest.raises(Exception, match="closed"):
                reader.poll(5.0)
            assert reader.position(TopicPartition("orders", 0)) == 0


def test_reader_and_writer_schemas_from_registry(broker: Broker, send: Callable[..., None]) -> None:
    with Registry() as server, SchemaRegistry(server.url, **QUICK) as registry:
        first = registry.register("orders-value", EARLIER)
        second = registry.register("orders-value", READER)
        send(b"\0" + struct.pack(">I", first) + varint(1), order(2, "Ulm", second))
        with consumer(broker, value_format=Avro(registry)) as reader:
            assert reader.schema.field("value").type[0].type == pa.int64()
            rows = taken(reader, 2)
        assert rows["value"].to_pylist() == [{"id": 1, "city": "?"}, {"id": 2, "city": "Ulm"}]


def test_positions_stay_during_registry_outage(broker: Broker, send: Callable[..., None]) -> None:
    with Registry() as server, SchemaRegistry(server.url, max_retries=0, **QUICK) as registry:
        number = registry.register("orders-value", ORDER)
        send(order(1, schema_id=number))
        with (
            SchemaRegistry(server.url, max_retries=0, **QUICK) as asked,
            consumer(broker, value_format=Avro(asked, schema=ORDER)) as reader,
        ):
            server.fail(503, times=1)
            with pytest.raises(RegistryError):
                reader.poll(5.0)
            assert reader.position(TopicPartition("orders", 0)) == 0
            assert taken(reader, 1)["value"].to_pylist() == [{"id": 1, "city": "Rome"}]


def test_expanded_values_are_returned_in_parts(
    broker: Broker, send: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("samsarrow.values.typed_columns.LIMIT", 1 << 20)
    writer = {"type": "array", "items": {"type": "record", "name": "R", "fields": []}}
    reader = {"type": "array", "items": {"type": "record", "name": "R", "fields": [NUMBER]}}
    # Each item of the array takes no bytes in the value, but gets the default value of the reader's field.
    large, bad = b"\0\0\0\0\7" + varint(30_000) + b"\0", b"\0\0\0\0\7" + varint(3)
    send(*[large] * 8, bad, *[large] * 2)
    formats: dict[str, Any] = {"value_format": Avro(reader, writers={7: writer})}
    with consumer(broker, **formats, on_decode_error="null") as found:
        batches = []
        while sum(batch.num_rows for batch in batches) < 11:
            batches.append(found.poll(timeout=10))
        assert 0 < max(batch.num_rows for batch in batches) <= 5
        offsets = [offset for batch in batches for offset in batch.column("offset").to_pylist()]
        assert offsets == list(range(11))
        errors = [error for batch in batches for error in batch.column("value_error").to_pylist()]
        assert [row for row, error in enumerate(errors) if error is not None] == [8]
        assert len(batches[0].column("value")[0]) == 30_000
    with consumer(broker, **formats) as found:
        rows = 0
        while rows < 8:
            batch = found.poll(timeout=10)
            assert 0 < batch.num_rows <= 4
            rows += batch.num_rows
        with pytest.raises(BadValueError, match="orders-0, offset 8"):
            found.poll(timeout=10)
        assert found.position(TopicPartition("orders", 0)) == 8
    broker.create_topic("dead", partitions=1)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        with consumer(broker, **formats, on_decode_error=DeadLetter("dead", producer)) as found:
            assert taken(found, 10)["offset"].to_pylist() == [0, 1, 2, 3, 4, 5, 6, 7, 9, 10]
        with consumer(broker, TopicPartition("dead", 0), value_format=None) as found:
            assert [record.value for record in found.records(5.0)] == [bad]
    # `decode_values` does not limit the size of a decoded batch.
    assert len(decode_values(pa.array([large] * 9), formats["value_format"])) == 9


@pytest.mark.parametrize(("given", "there"), [("true", True), ("False", False), (True, True), (None, False)])
def test_include_headers(broker: Broker, send: Callable[..., None], given: object, there: bool) -> None:
    send(order(1), headers=[("a", b"b")])
    options: dict[str, Any] = {} if given is None else {"include.headers": given}
    with Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "auto.offset.reset": "earliest", **options},
        value_format=Avro(writers={7: ORDER}),
    ) as reader:
        reader.assign([TopicPartition("orders", 0)])
        rows = taken(reader, 1)
    assert ("headers" in rows.schema.names) == there


def test_parquet_with_tombstones(broker: Broker, send: Callable[..., None], tmp_path: Path) -> None:
    send(order(1), None)
    with consumer(broker) as reader:
        rows = taken(reader, 2)
    pq.write_table(rows, tmp_path / "orders.parquet")
    assert pq.read_table(tmp_path / "orders.parquet")["value"].to_pylist() == rows["value"].to_pylist()


def test_records_have_decoded_values(broker: Broker, send: Callable[..., None]) -> None:
    send(order(1), None, key=b"\0\0\0\5", timestamp=17, headers=[("a", None)])
    with consumer(broker, key_format="int", include_headers=True) as reader:
        result = list(reader.records(5.0))
    value = {"id": 1, "city": "Rome"}
    assert result == [
        ConsumerRecord("orders", 0, 0, 17, 0, 5, value, [("a", None)]),
        ConsumerRecord("orders", 0, 1, 17, 0, 5, None, [("a", None)]),
    ]


def test_readers_and_views(broker: Broker, send: Callable[..., None]) -> None:
    send(order(1), BAD, order(3), BAD)
    broker.create_topic("dead", partitions=1)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        letters = DeadLetter("dead", producer)
        with consumer(broker, layout="view", on_decode_error=letters, raw_values=True) as reader:
            table = reader.reader().read_all()
    assert [item["id"] for item in table["value"].to_pylist()] == [1, 3]
    assert table["raw_value"].to_pylist() == [order(1), order(3)]


def test_async_consumer_returns_equal_rows(broker: Broker, send: Callable[..., None]) -> None:
    send(order(1), BAD, order(3))
    broker.create_topic("dead", partitions=1)

    async def read(registry: SchemaRegistry) -> list[Any]:
        async with AsyncProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
            letters = DeadLetter("dead", producer)
            formats: dict[str, Any] = {"value_format": Avro(registry, writers={7: ORDER}), "on_decode_error": letters}
            async with AsyncConsumer(**formats, **options) as reader:
                reader.assign([TopicPartition("orders", 0)])
                with pytest.raises(IllegalStateError, match=r"call poll\(\) first"):
                    _ = reader.schema
                rows = await reader.poll(5.0)
                assert rows.schema == reader.schema
                return rows["value"].to_pylist()

    with Registry() as server, SchemaRegistry(server.url, **QUICK) as registry:
        registry.register("orders-value", ORDER)
        assert [item["id"] for item in asyncio.run(read(registry))] == [1, 3]
    with consumer(broker, TopicPartition("dead", 0), value_format=None) as reader:
        assert reader.poll(5.0)["value"].to_pylist() == [BAD]


def test_rejects_invalid_options(broker: Broker) -> None:
    made: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers}
    with pytest.raises(ConfigurationError, match="on_decode_error must be raise, null or a DeadLetter, not 'drop'"):
        Consumer(value_format="long", on_decode_error="drop", **made)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="pass value_format"):
        Consumer(on_decode_error="null", **made)
    with Producer(**made) as producer, pytest.raises(TypeError, match="AsyncConsumer needs an AsyncProducer"):
        AsyncConsumer(value_format="long", on_decode_error=DeadLetter("dead", producer), **made)
    with (
        Registry() as server,
        SchemaRegistry(server.url, **QUICK) as registry,
        Consumer(value_format=Avro(registry), **made) as reader,
    ):
        reader.assign([TopicPartition("a", 0), TopicPartition("b", 0)])
        with pytest.raises(ConfigurationError, match="pass schema, subject or topic"):
            reader.poll(0)


def test_on_apache_kafka(kafka: KafkaServer, new_topic: Callable[..., str]) -> None:
    topic, dead = new_topic(partitions=3), new_topic()
    values = [BAD if number % 10 == 3 else order(number, "R" * (number % 50)) for number in range(5000)]
    with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type="lz4") as producer:
        for value in values:
            producer.send(topic, value)
        producer.flush()
        letters = DeadLetter(dead, producer)
        with Consumer(
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="typed",
            auto_offset_reset="earliest",
            max_poll_records=700,
            value_format=Avro(ORDER, writers={7: ORDER}),
            on_decode_error=letters,
        ) as reader:
            reader.subscribe([topic])
            results: list[dict[str, Any]] = []
            while len(results) < 4500:
                batch = reader.poll(20.0)
                assert batch.num_rows
                results += batch["value"].to_pylist()
                reader.commit(batch)
    numbers = [number for number in range(5000) if number % 10 != 3]
    assert sorted(item["id"] for item in results) == numbers
    assert {item["id"]: len(item["city"]) for item in results} == {number: number % 50 for number in numbers}
    with Consumer(bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest") as reader:
        reader.assign([TopicPartition(dead, 0)])
        assert sum(batch.num_rows for batch in reader.reader()) == 500


def test_short_polls_raise_bad_values(broker: Broker, send: Callable[..., None]) -> None:
    send(*(order(n) for n in range(5)), BAD, *(order(n) for n in range(6, 10)))
    with consumer(broker, TopicPartition("orders", 0)) as reader:
        rows = 0
        # Repeats the poll, because the first fetch may take longer than a poll.
        while not rows:
            rows = reader.poll(0.3).num_rows
        while rows < 5:
            rows += reader.poll(0.3).num_rows
        for _ in range(5):
            with pytest.raises(BadValueError):
                reader.poll(0)
        reader.seek(TopicPartition("orders", 0), 6)
        assert taken(reader, 4)["offset"].to_pylist() == [6, 7, 8, 9]
        reader.seek(TopicPartition("orders", 0), 5)
        for _ in range(2):
            with pytest.raises(BadValueError):
                reader.poll(5.0)
        reader.pause()
        assert reader.poll(0.1).num_rows == 0


def test_poll_of_dead_letters_ends_at_its_deadline(broker: Broker, send: Callable[..., None]) -> None:
    send(*[BAD] * 50)
    broker.create_topic("dead", partitions=1)
    tp = TopicPartition("orders", 0)
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        options: dict[str, Any] = {"max_poll_records": 1, "auto_commit_interval_ms": 1}
        letters = DeadLetter("dead", producer)
        with consumer(broker, tp, group_id="g", on_decode_error=letters, **options) as reader:
            while not reader.position(tp):
                assert reader.poll(0).num_rows == 0
            assert reader.position(tp) < 10
            # Rows sent as dead letters are processed, so the poll commits them although it returns no rows.
            assert reader.poll(2.0).num_rows == 0
            until(lambda: reader.committed([tp])[tp])
            while reader.position(tp) < 50:
                assert reader.poll(1.0).num_rows == 0
