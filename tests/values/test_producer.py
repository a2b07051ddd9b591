"""Producers that encode typed columns, on the embedded broker and on Apache Kafka."""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import AsyncProducer, Avro, Consumer, Producer, SchemaRegistry, TopicPartition, decode_values
from samsarrow.exceptions import (
    BadValueError,
    ConfigurationError,
    RegistryError,
    SchemaIncompatibleError,
    SchemaNotFoundError,
)
from samsarrow.testing import Broker, Registry
from support.kafka import KafkaServer

ORDERS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "city": ["Rome", None, "Ulm"],
        "at": pa.array([dt.datetime(2026, 1, day, tzinfo=dt.UTC) for day in (1, 2, 3)], pa.timestamp("ms", "UTC")),
    }
)
QUICK: dict[str, Any] = {"retries_wait_ms": 5, "retries_max_wait_ms": 20, "max_retries": 0}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("orders")
        yield broker


@pytest.fixture
def producer(broker: Broker) -> Iterator[Producer]:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        yield producer


@pytest.fixture
def server() -> Iterator[Registry]:
    with Registry() as server:
        yield server


@pytest.fixture
def registry(server: Registry) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(server.url, **QUICK) as registry:
        yield registry


def read(broker: Broker, **formats: Any) -> pa.Table:
    with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", **formats) as consumer:
        consumer.assign([TopicPartition("orders", 0)])
        return consumer.reader().read_all()


def test_columns_round_trip(broker: Broker, producer: Producer, registry: SchemaRegistry) -> None:
    rows = ORDERS.append_column("number", pa.array([7, None, 9], pa.int64()))
    form = Avro(registry)
    producer.send_batch("orders", rows, key="number", key_format="long", value=ORDERS.column_names, value_format=form)
    producer.flush()
    assert registry.subjects() == ["orders-value"]
    result = read(broker, key_format="long", value_format=Avro(registry))
    assert result["value"].to_pylist() == ORDERS.to_pylist()
    assert result["key"].to_pylist() == [7, None, 9]


def test_struct_column_with_keys_and_null_row(broker: Broker, producer: Producer, registry: SchemaRegistry) -> None:
    kind = pa.struct([("id", pa.int32())])
    rows = pa.table({"key": pa.array([{"id": 1}, {"id": 2}], kind), "value": pa.array([{"id": 3}, None], kind)})
    form = Avro(registry, name="shop.Id")
    assert producer.send_batch("orders", rows, key_format=form, value_format=form).result(30)[0].count == 2
    assert registry.subjects() == ["orders-key", "orders-value"]
    result = read(broker, key_format=Avro(registry), value_format=Avro(registry))
    assert result.select(["key", "value"]).to_pylist() == rows.to_pylist()


@pytest.mark.parametrize("partitioner", [False, True])
def test_bad_row_is_named_and_batch_is_not_sent(broker: Broker, producer: Producer, partitioner: bool) -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "city", "type": {"type": "enum", "name": "City", "symbols": ["Rome", "Ulm"]}}],
    }
    first, second = (pa.record_batch({"city": cities}) for cities in (["Rome"], ["Ulm", "Bonn"]))
    options: dict[str, Any] = {"partitioner": lambda topic, key, value, count: 0} if partitioner else {}
    with Producer(bootstrap_servers=broker.bootstrap_servers, **options) as sender:
        with pytest.raises(BadValueError, match=r"^orders, row 2, field city: .*Bonn") as raised:
            sender.send_batch(
                "orders", pa.Table.from_batches([first, second]), value=["city"], value_format=Avro(writers={1: schema})
            )
        assert (raised.value.row, raised.value.field) == (2, "city")
    assert read(broker, value_format=Avro(writers={1: schema}))["value"].to_pylist() in ([], [{"city": "Rome"}])


def test_mismatched_columns_are_rejected_before_sending(
    broker: Broker, producer: Producer, registry: SchemaRegistry, server: Registry
) -> None:
    with pytest.raises(ConfigurationError, match="there is no column 'value' to write as values: there are 'id'"):
        producer.send_batch("orders", ORDERS, value_format=Avro(registry))
    form = Avro(registry, auto_register=False)
    with pytest.raises(SchemaNotFoundError):
        producer.send_batch("orders", ORDERS, value=["id"], value_format=form)
    registry.register("orders-value", {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "double"}]})
    with pytest.raises(SchemaIncompatibleError) as raised:
        producer.send_batch("orders", ORDERS, value=["id"], value_format=Avro(registry, name="Order"))
    assert raised.value.reasons
    server.fail(503)
    with pytest.raises(RegistryError):
        producer.send_batch("orders", ORDERS, value=["id"], value_format=Avro(registry, name="Order"))
    assert read(broker).num_rows == 0


def test_async_producer_writes_equal_records(broker: Broker, registry: SchemaRegistry) -> None:
    async def send() -> None:
        async with AsyncProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            form = Avro(registry)
            await (await producer.send_batch("orders", ORDERS, value=ORDERS.column_names, value_format=form))

    asyncio.run(send())
    assert read(broker, value_format=Avro(registry))["value"].to_pylist() == ORDERS.to_pylist()


def test_on_apache_kafka(kafka: KafkaServer, new_topic: Callable[..., str], registry: SchemaRegistry) -> None:
    topic, count = new_topic(partitions=2), 20_000
    rows = pa.table({"id": pa.array(range(count), pa.int64()), "name": [f"n{number % 97}" for number in range(count)]})
    with Producer(bootstrap_servers=kafka.bootstrap_servers, compression_type="zstd") as producer:
        sent = producer.send_batch(
            topic, rows, key="id", key_format="long", value=["id", "name"], value_format=Avro(registry)
        )
        assert sum(receipt.count for receipt in sent.result(60)) == count
    with Consumer(
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        key_format="long",
        value_format=Avro(registry, fields=["name"]),
    ) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        result = consumer.reader().read_all()
    by_key = dict(zip(result["key"].to_pylist(), result["value"].to_pylist(), strict=True))
    assert by_key == {number: {"name": f"n{number % 97}"} for number in range(count)}


def test_send_of_single_records(broker: Broker, producer: Producer, registry: SchemaRegistry) -> None:
    """Encodes the value of a single record as a column of one row, as the documentation recommends."""
    from samsarrow import encode_values

    [value] = encode_values(pa.array([{"id": 5}]), Avro(registry), topic="orders")
    producer.send("orders", value.as_py()).result(30)
    [found] = read(broker)["value"].to_pylist()
    assert decode_values(pa.array([found]), Avro(registry), topic="orders").to_pylist() == [{"id": 5}]
