"""Columns written as JSON, with and without a schema and a registry."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import (
    Consumer,
    Json,
    Producer,
    SchemaRegistry,
    TopicPartition,
    decode_values,
    encode_values,
    infer_schema,
)
from samsarrow.exceptions import BadValueError, ConfigurationError, SchemaNotFoundError
from samsarrow.testing import Broker, Registry
from support import jsons

PAIRS = int(os.environ.get("SAMSARROW_JSON_PAIRS", "200"))
BLOCK = 50
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
    assert [item and json.loads(item) for item in values.to_pylist()] == ROWS.to_pylist()
    assert decode_values(values, Json(ORDER)).to_pylist() == ROWS.to_pylist()
    assert encode_values(ROWS.slice(0, 0), Json(ORDER)).to_pylist() == []


def without_nulls(value: Any) -> Any:
    """Removes null members, which are written only if the schema requires them."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_json_schema_round_trip(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = jsons.Generator(seed + 7_000_000)
        schema = make.json_schema(3, whole=True)
        texts = [json.dumps(make.json_value(schema, schema)) for _ in range(5)]
        form = Json(schema)
        column = decode_values(pa.array([text.encode() for text in texts]), form)
        written = encode_values(column, form)
        assert decode_values(written, form).equals(column), (seed, schema, texts)
        for text, again in zip(texts, written.to_pylist(), strict=True):
            assert without_nulls(json.loads(again)) == without_nulls(json.loads(text)), (seed, schema)


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_inferred_schema_round_trip(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = jsons.Generator(seed + 8_000_000)
        schema = make.json_schema(2, whole=True)
        values = [make.json_value(schema, schema) for _ in range(4)] + [{"one": 1, "k": {"a": 1}}, {"k": "x"}]
        texts = pa.array([json.dumps(value).encode() for value in values])
        form = Json(infer_schema(texts))
        column = decode_values(texts, form)
        written = encode_values(column, form)
        assert decode_values(written, form).equals(column), (seed, texts)
        again = [json.loads(text) for text in written.to_pylist()]
        assert [without_nulls(item) for item in again] == [without_nulls(item) for item in values], seed


def test_json_texts_are_written_verbatim() -> None:
    values = pa.array([b'{"id":5,"x":{"k":[1]}}', b'{"id":"a","x":7}'])
    form = Json(infer_schema(values))
    rows = decode_values(values, form)
    assert encode_values(rows, form).to_pylist() == values.to_pylist()
    with pytest.raises(BadValueError, match="row 1, field x: the text is not JSON") as caught:
        encode_values(pa.array([{"id": "1", "x": "2"}, {"id": "1", "x": "no"}], rows.type), form)
    assert (caught.value.row, caught.value.field) == (1, "x")
    # A column of Arrow's JSON type needs no schema.
    field = pa.field("x", pa.string(), metadata={"ARROW:extension:name": "arrow.json"})
    table = pa.table([pa.array(["[1]", None])], schema=pa.schema([field]))
    with Broker() as broker:
        broker.create_topic("t")
        with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send_batch("t", table, value=["x"], value_format="json")
        with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", 0)])
            got = consumer.poll(10)["value"].to_pylist()
    assert got == [b'{"x":[1]}', b'{"x":null}']


def test_schema_is_registered_once_and_framed(registry: SchemaRegistry, server: Registry) -> None:
    form = Json(registry, schema=ORDER)
    values = [encode_values(ROWS, form, topic="orders") for _ in range(2)]
    number = registry.schema(subject="orders-value").id
    assert number is not None
    prefix = b"\0" + number.to_bytes(4)
    assert [item and item[:5] for item in values[0].to_pylist()] == [prefix, None, prefix]
    assert values[0].equals(values[1])
    assert registry.versions("orders-value") == [1]
    assert decode_values(values[0], Json(registry), topic="orders").to_pylist() == ROWS.to_pylist()
    # Uses the subject's latest version, and then looks the schema up instead of registering it.
    for other in (Json(registry), Json(registry, schema=ORDER, auto_register=False)):
        assert encode_values(ROWS, other, topic="orders").equals(values[0])
    with pytest.raises(SchemaNotFoundError):
        encode_values(ROWS, Json(registry, schema=ORDER, auto_register=False), topic="others")


def test_null_of_optional_member_is_omitted() -> None:
    text = {"type": "string"}
    inner = {"type": "object", "properties": {"missing": text, "null": {"type": ["string", "null"]}}}
    schema = {
        "type": "object",
        "properties": {
            "missing": text,
            "null": {"type": ["null", "string"]},
            "of": inner,
            "list": {"type": "array", "items": inner},
            "map": {"type": "object", "additionalProperties": {"type": "array", "items": inner}},
            'a "name"': inner,
        },
        "required": ["null", "list"],
    }
    member = pa.struct([("missing", pa.string()), ("null", pa.large_string())])
    for many in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda of: pa.list_(of, 2)):
        kind = pa.struct(
            {
                "list": many(member),
                "map": pa.map_(pa.string(), many(member)),
                "missing": pa.string(),
                "null": pa.string(),
                "of": member,
                'a "name"': member,
            }
        )
        none, one = {"missing": None, "null": None}, {"missing": "here", "null": None}
        least = {"list": [none, one], "map": None, "missing": None, "null": None, "of": None, 'a "name"': None}
        most = {"missing": "", "null": "", "of": none, "map": [("k", [one, none])], 'a "name"': one}
        rows = pa.array([least, None, least | most], kind)
        for some in (rows, rows.slice(1)):
            values = encode_values(some, Json(schema))
            assert decode_values(values, Json(schema)).to_pylist() == [
                row and {name: row[name] for name in schema["properties"]} for row in some.to_pylist()
            ]
            assert values.to_pylist()[-1] == (
                b'{"list":[{"null":null},{"missing":"here","null":null}],'
                b'"map":{"k":[{"missing":"here","null":null},{"null":null}]},"missing":"","null":"",'
                b'"of":{"null":null},"a \\"name\\"":{"missing":"here","null":null}}'
            )
        assert values.to_pylist()[0] is None
        assert encode_values(rows, Json(schema))[0].as_py() == (
            b'{"list":[{"null":null},{"missing":"here","null":null}],"null":null}'
        )


def test_null_in_run_end_and_dictionary_arrays_is_omitted() -> None:
    member = {"missing": {"type": "string"}, "null": {"type": ["null", "string"]}}
    texts = pa.DictionaryArray.from_arrays([0, 1, None], ["here", None])
    rows = pa.StructArray.from_arrays([texts, texts], ["missing", "null"], mask=pa.array([False, False, True]))
    expected = [b'{"missing":"here","null":"here"}', b'{"null":null}', None]
    for array in (rows, pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3], pa.int32()), rows)):
        for start in range(3):
            values = encode_values(array.slice(start), Json({"type": "object", "properties": member}))
            assert values.to_pylist() == expected[start:]


def test_values_that_do_not_fit_are_rejected(registry: SchemaRegistry) -> None:
    with pytest.raises(BadValueError, match=r"^orders, row 2, field id: ") as raised:
        encode_values(pa.array([{"id": 1}, {"id": 2}, {"id": None}]), Json(ORDER), topic="orders")
    assert (raised.value.row, raised.value.field) == (2, "id")
    with pytest.raises(ConfigurationError, match="the schema has no field for column 'town': drop the column"):
        encode_values(pa.array([{"id": 1, "town": "Ulm"}]), Json(registry, schema=ORDER), topic="orders")
    assert registry.subjects() == []
    kinds = pa.schema([("id", pa.int64()), ("parts", pa.list_(pa.struct([("sum", pa.binary())])))])
    with pytest.raises(ConfigurationError, match=r"column parts\[\]\.sum has bytes, which JSON does not support"):
        encode_values(pa.Table.from_pylist([], kinds), Json(kinds))
    for kind in (pa.list_view(pa.binary()), pa.run_end_encoded(pa.int32(), pa.binary())):
        sums = pa.array([None], kind)
        with pytest.raises(ConfigurationError, match=r"column sum(\[\])? has bytes, which JSON does not support"):
            encode_values(pa.table({"sum": sums}), Json({"type": "object", "properties": {"sum": {}}}))
    with pytest.raises(ConfigurationError, match="needs the id of the written schema, which is unknown"):
        encode_values(ROWS, Json(ORDER, framing="confluent"))
    with pytest.raises(ConfigurationError, match="a registry takes a JSON Schema"):
        encode_values(ROWS, Json(registry, schema=pa.schema([("id", pa.int64())])), topic="orders")


def test_producer_and_consumer_round_trip(registry: SchemaRegistry) -> None:
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


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_nan_and_infinity_are_errors(number: float) -> None:
    name = {float("inf"): "infinity", -float("inf"): "-infinity"}.get(number, "NaN")
    kind = pa.struct([("y", pa.list_(pa.float32()))])
    for column, path in (
        (pa.array([1.5, None, number, number]), "x"),
        (pa.array([{"y": None}, None, {"y": [1.0, number]}], kind), r"x\.y\[1\]"),
        (pa.array([[], None, [("k", number)]], pa.map_(pa.string(), pa.float64())), r"x\[0\]"),
        (pa.array([1.0, None, number]).dictionary_encode(), "x"),
        (pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 4], pa.int16()), pa.array([1.0, None, number])), "x"),
    ):
        # The schema permits any type, so that it does not cause errors itself.
        form = Json({"type": "object", "properties": {"x": {}}})
        with pytest.raises(BadValueError, match=rf"^orders, row 2, field {path}: JSON has no {name}"):
            encode_values(pa.table({"x": column}), form, topic="orders")
    # Values within a null struct are ignored.
    children = [pa.array([1.0, number])]
    struct = pa.StructArray.from_arrays(children, ["y"], mask=pa.array([False, True]))
    got = encode_values(pa.table({"x": struct}), Json(pa.schema([("x", struct.type)])))
    assert [json.loads(item) for item in got.to_pylist()] == [{"x": {"y": 1.0}}, {"x": None}]


def test_only_types_that_may_not_fit_are_verified() -> None:
    narrow = pa.schema([pa.field("id", pa.int32(), nullable=False), ("tags", pa.list_(pa.string()))])
    rows = pa.table({"id": [1, 2**31], "tags": [["a", None], None]})
    assert encode_values(rows.slice(0, 1), Json(narrow)).to_pylist() == [b'{"id":1,"tags":["a",null]}']
    with pytest.raises(BadValueError, match="row 1, field id: the number is out of the range of int32"):
        encode_values(rows, Json(narrow))
    with pytest.raises(BadValueError, match="row 1, field id: null, and the column is not nullable"):
        encode_values(pa.table({"id": pa.array([1, None], pa.int16())}), Json(narrow))
    strict = pa.schema([("tags", pa.list_(pa.field("item", pa.string(), nullable=False)))])
    with pytest.raises(BadValueError, match=r"row 0, field tags\[1\]: null"):
        encode_values(rows.select(["tags"]), Json(strict))
    with pytest.raises(BadValueError, match="row 0, field id: it is missing"):
        encode_values(rows.select(["tags"]), Json(narrow))


def test_naive_timestamps_are_not_date_times() -> None:
    schema = Json({"type": "object", "properties": {"at": {"type": "string", "format": "date-time"}}})
    column = pa.array([{"at": 0}], pa.struct([("at", pa.timestamp("us"))]))
    with pytest.raises(ConfigurationError, match=r"field at: a timestamp without a time zone.*cast it"):
        encode_values(column, schema)
    zoned = column.cast(pa.struct([("at", pa.timestamp("us", "UTC"))]))
    assert encode_values(zoned, schema).to_pylist() == [b'{"at":"1970-01-01T00:00:00Z"}']
