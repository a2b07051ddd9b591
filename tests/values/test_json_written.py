"""Columns written as JSON, with a schema and a registry."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Consumer, Json, Producer, SchemaRegistry, TopicPartition, decode_values, encode_values
from samsarrow.exceptions import BadValueError, ConfigurationError, SchemaNotFoundError
from samsarrow.testing import Broker, Registry

ORDER: dict[str, Any] = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "city": {"type": ["null", "string"]}},
    "required": ["id"],
}
ROWS = pa.array([{"id": 7, "city": "Ulm"}, None, {"id": 8, "city": None}])


@pytest.fixture
def server() -> Iterator[Registry]:
    with Registry() as server:
        yield server


@pytest.fixture
def registry(server: Registry) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(server.url, retries_wait_ms=5, missing_id_retries_wait_ms=5) as registry:
        yield registry


def test_texts_with_a_schema_and_without_a_registry() -> None:
    values = encode_values(ROWS, Json(ORDER))
    assert values.type == pa.binary()
    assert [one and json.loads(one) for one in values.to_pylist()] == ROWS.to_pylist()
    assert decode_values(values, Json(ORDER)).to_pylist() == ROWS.to_pylist()
    assert encode_values(ROWS.slice(0, 0), Json(ORDER)).to_pylist() == []


def test_a_schema_is_registered_once_and_its_id_written(registry: SchemaRegistry, server: Registry) -> None:
    form = Json(registry, schema=ORDER)
    values = [encode_values(ROWS, form, topic="orders") for _ in range(2)]
    number = registry.schema(subject="orders-value").id
    assert number is not None
    prefix = b"\0" + number.to_bytes(4)
    assert [one and one[:5] for one in values[0].to_pylist()] == [prefix, None, prefix]
    assert values[0].equals(values[1])
    assert registry.versions("orders-value") == [1]
    assert decode_values(values[0], Json(registry), topic="orders").to_pylist() == ROWS.to_pylist()
    # The subject's latest, and a look-up instead of a registration.
    for other in (Json(registry), Json(registry, schema=ORDER, auto_register=False)):
        assert encode_values(ROWS, other, topic="orders").equals(values[0])
    with pytest.raises(SchemaNotFoundError):
        encode_values(ROWS, Json(registry, schema=ORDER, auto_register=False), topic="others")


def test_what_does_not_fit_is_not_written(registry: SchemaRegistry) -> None:
    with pytest.raises(BadValueError, match=r"^orders, row 2, field id: ") as raised:
        encode_values(pa.array([{"id": 1}, {"id": 2}, {"id": None}]), Json(ORDER), topic="orders")
    assert (raised.value.row, raised.value.field) == (2, "id")
    with pytest.raises(ConfigurationError, match="the schema has no field for column 'town': drop the column"):
        encode_values(pa.array([{"id": 1, "town": "Ulm"}]), Json(registry, schema=ORDER), topic="orders")
    assert registry.subjects() == []
    kinds = pa.schema([("id", pa.int64()), ("parts", pa.list_(pa.struct([("sum", pa.binary())])))])
    with pytest.raises(ConfigurationError, match=r"column parts\[\]\.sum has bytes, which JSON does not support"):
        encode_values(pa.Table.from_pylist([], kinds), Json(kinds))
    with pytest.raises(ConfigurationError, match="needs the id of the written schema, which is unknown"):
        encode_values(ROWS, Json(ORDER, framing="confluent"))
    with pytest.raises(ConfigurationError, match="a registry takes a JSON Schema"):
        encode_values(ROWS, Json(registry, schema=pa.schema([("id", pa.int64())])), topic="orders")


def test_through_a_producer_and_a_consumer(registry: SchemaRegistry) -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            rows = pa.table({"value": ROWS})
            producer.send_batch("orders", rows, value_format=Json(registry, schema=ORDER)).result(30)
        with Consumer(
            bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", value_format=Json(registry)
        ) as consumer:
            consumer.assign([TopicPartition("orders", 0)])
            assert consumer.poll(5.0)["value"].to_pylist() == ROWS.to_pylist()
