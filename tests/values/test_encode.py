"""`encode_values`: values, registered schemas, and errors of rows that do not fit."""

from __future__ import annotations

import copy
import io
import json
import os
import pickle
import struct
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Avro, SchemaRegistry, decode_values, encode_values
from samsarrow.exceptions import (
    BadValueError,
    ConfigurationError,
    RegistryError,
    SchemaIncompatibleError,
    SchemaNotFoundError,
)
from samsarrow.testing import Registry

fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed")
generate = pytest.importorskip("support.avro")

PAIRS = int(os.environ.get("SAMSARROW_AVRO_PAIRS", "400"))
BLOCK = 50
ROWS = 6
QUICK: dict[str, Any] = {"retries_wait_ms": 5, "retries_max_wait_ms": 20, "missing_id_retries_wait_ms": 10}
ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"], "default": None}],
}
TABLE = pa.table({"id": pa.array([1, 2, 3]), "city": ["Rome", None, "Ulm"]})
WANT = [b"\x02\x02\x08Rome", b"\x04\x00", b"\x06\x02\x06Ulm"]


@pytest.fixture
def server() -> Iterator[Registry]:
    with Registry() as server:
        yield server


@pytest.fixture
def registry(server: Registry) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(server.url, **QUICK) as registry:
        yield registry


def framed(schema_id: int, *values: bytes) -> list[bytes]:
    return [b"\0" + struct.pack(">I", schema_id) + value for value in values]


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_fastavro_reads_encoded_values(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = generate.Generator(seed + 5_000_000, namesakes=True)
        schema = make.record(3)
        parsed = fastavro.parse_schema(copy.deepcopy(schema))
        theirs = [generate.encoded(parsed, make.value(schema)) for _ in range(ROWS)]
        want = [generate.expected(generate.by_fastavro(value, parsed), schema) for value in theirs]
        avro = Avro(schema, framing="none")
        # Encodes columns that pyarrow builds from Python values.
        column = pa.array(want, decode_values(pa.array([], pa.binary()), avro).type)
        ours = encode_values(column, avro)
        got = [generate.expected(generate.by_fastavro(value.as_py(), parsed), schema) for value in ours]
        assert got == want, (seed, schema)
        assert decode_values(ours, avro).equals(column), (seed, schema)
        # Does not compare the bytes of decimals, because fastavro writes some negative ones with an unnecessary byte.
        if '"decimal"' not in json.dumps(schema):
            assert ours.to_pylist() == theirs, (seed, schema)


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_fastavro_reads_derived_schemas(block: int) -> None:
    with Registry() as server, SchemaRegistry(server.url, **QUICK) as registry:
        for seed in range(block, block + BLOCK, 5):
            make = generate.Generator(seed + 6_000_000)
            schema = make.record(3)
            parsed = fastavro.parse_schema(copy.deepcopy(schema))
            values = [generate.encoded(parsed, make.value(schema)) for _ in range(ROWS)]
            column = decode_values(pa.array(values), Avro(schema, framing="none"))
            avro = Avro(registry, name=f"a.Row{seed}", subject=f"s{seed}")
            written = encode_values(column, avro)
            result = registry.schema(subject=f"s{seed}")
            derived = fastavro.parse_schema(json.loads(result.schema))
            stream = [io.BytesIO(value.as_py()[5:]) for value in written]
            assert len([fastavro.schemaless_reader(item, derived) for item in stream]) == ROWS
            assert all(item.read() == b"" for item in stream)
            assert decode_values(written, avro).to_pylist() == column.to_pylist(), (seed, schema)


def test_all_arrow_containers() -> None:
    avro = Avro(ORDER, framing="none")
    batch = TABLE.to_batches()[0]
    rows = batch.to_struct_array()
    for array in (batch, rows):
        got = encode_values(array, avro)
        assert (type(got), got.type, got.to_pylist()) == (pa.BinaryArray, pa.binary(), WANT)
        assert encode_values(array[1:], avro).to_pylist() == WANT[1:]
    for chunks in (TABLE, pa.chunked_array([rows[:1], rows[1:]]), pa.concat_tables([TABLE[:2], TABLE[2:]])):
        encoded = encode_values(chunks, avro)
        assert (encoded.type, encoded.to_pylist()) == (pa.binary(), WANT)
        assert encode_values(chunks[:0], avro).to_pylist() == []
    assert encode_values(rows[:0], avro).type == pa.binary()
    for nothing in ([1], "text", None):
        with pytest.raises(TypeError, match="expected an Arrow array, record batch or table, got"):
            encode_values(nothing, avro)  # type: ignore[call-overload]


def test_null_is_a_tombstone() -> None:
    rows = pa.array([{"id": 1, "city": "Rome"}, None], pa.struct(TABLE.schema))
    assert encode_values(rows, Avro(ORDER, framing="none")).to_pylist() == [WANT[0], None]
    assert encode_values(pa.nulls(2), Avro('["null", "long"]', framing="none")).to_pylist() == [None, None]
    assert encode_values(pa.array([None, 1]), "long").to_pylist() == [None, struct.pack(">q", 1)]


def test_framing_has_given_id() -> None:
    for framing in ("auto", "confluent"):
        assert encode_values(TABLE, Avro(writers={258: ORDER}, framing=framing)).to_pylist() == framed(258, *WANT)
    long_ids = Avro(writers={1 << 40: ORDER}, framing="apicurio8")
    assert encode_values(TABLE, long_ids)[1].as_py() == b"\0" + struct.pack(">q", 1 << 40) + WANT[1]
    fingerprint = Avro(ORDER, framing="single-object")
    written = encode_values(TABLE, fingerprint)
    assert written[1].as_py()[:2] == b"\xc3\x01"
    for avro in (long_ids, fingerprint):
        assert decode_values(encode_values(TABLE, avro), avro).to_pylist() == TABLE.to_pylist()
    for avro in (Avro(ORDER), Avro(ORDER, writers={1: ORDER, 2: ORDER}), Avro(writers=[ORDER])):
        with pytest.raises(
            ConfigurationError, match="needs the id of the written schema, which is unknown: pass a registry"
        ):
            encode_values(TABLE, avro)
    with pytest.raises(ConfigurationError, match="4 bytes for the schema's id"):
        encode_values(TABLE, Avro(writers={1 << 32: ORDER}))


def test_error_names_value_that_does_not_fit() -> None:
    avro = Avro(ORDER, framing="none")
    for table, why in [
        (TABLE.drop(["id"]), "field id: there is no such column, and the schema has no default"),
        (
            TABLE.append_column("b", [TABLE["id"]]),
            "field b: the schema has no field for this column; there are id, city",
        ),
        (TABLE.set_column(0, "id", [["1", "2", "3"]]), "field id: a column of Utf8 cannot be written as long: cast it"),
    ]:
        with pytest.raises(ConfigurationError, match=why):
            encode_values(table, avro)
    assert encode_values(TABLE.drop(["city"]), avro).to_pylist() == [b"\x02\x00", b"\x04\x00", b"\x06\x00"]
    halves = pa.concat_tables([TABLE, TABLE.set_column(0, "id", [[4, None, 5]])])
    with pytest.raises(
        BadValueError, match=r"^orders, row 4, field id: it is null, and the schema has no null"
    ) as raised:
        encode_values(halves, avro, topic="orders")
    error = raised.value
    assert (error.row, error.field, error.schema_id) == (4, "id", None)
    assert error.reason == "it is null, and the schema has no null here"


@pytest.mark.parametrize(
    ("name", "array", "want"),
    [
        ("string", pa.array(["Grüße", ""]), ["Grüße".encode(), b""]),
        ("string", pa.array(["a", "b"]).dictionary_encode(), [b"a", b"b"]),
        ("short", pa.array([-2], pa.int16()), [b"\xff\xfe"]),
        ("int", pa.array([258], pa.int32()), [b"\0\0\1\2"]),
        ("long", pa.array([-5], pa.int64()), [struct.pack(">q", -5)]),
        ("float", pa.array([1.5], pa.float32()), [struct.pack(">f", 1.5)]),
        ("double", pa.array([-2.5]), [struct.pack(">d", -2.5)]),
        ("boolean", pa.array([True, False]), [b"\1", b"\0"]),
        ("uuid", pa.array(["0188d1a6-b1c5-7c3e-9f45-6f0e8b1f2a3d"]), [b"0188d1a6-b1c5-7c3e-9f45-6f0e8b1f2a3d"]),
    ],
)
def test_kafka_primitive_types(name: Any, array: pa.Array, want: list[bytes]) -> None:
    assert encode_values(array, name).to_pylist() == want
    assert decode_values(encode_values(array, name), name).to_pylist() == array.to_pylist()


def test_kafka_primitive_types_that_do_not_fit() -> None:
    with pytest.raises(ConfigurationError, match="a column of Int64 cannot be written as int: cast it"):
        encode_values(pa.array([1]), "int")
    with pytest.raises(ConfigurationError, match=r"format must be Avro.*did you mean int"):
        encode_values(pa.array([1]), "integer")  # type: ignore[call-overload]
    with pytest.raises(BadValueError, match="row 1: the text is no UUID"):
        encode_values(pa.array([None, "x"]), "uuid")


def test_schema_is_registered_once(server: Registry, registry: SchemaRegistry) -> None:
    avro = Avro(registry, schema=ORDER)
    for _ in range(3):
        written = encode_values(TABLE, avro, topic="orders")
    result = registry.schema(subject="orders-value")
    assert written.to_pylist() == framed(result.id or 0, *WANT)
    assert server.requests("POST /subjects/orders-value/versions") == 1
    keys = encode_values(TABLE["id"].combine_chunks(), Avro(registry), topic="orders", key=True)
    assert registry.schema(subject="orders-key").schema == '"long"'
    assert decode_values(keys, Avro(registry), topic="orders", key=True).to_pylist() == [1, 2, 3]
    assert decode_values(written, pickle.loads(pickle.dumps(avro)), topic="orders").to_pylist() == TABLE.to_pylist()


def test_schema_is_derived_from_columns(registry: SchemaRegistry) -> None:
    written = encode_values(TABLE, Avro(registry), topic="my.orders-2")
    assert json.loads(registry.schema(subject="my.orders-2-value").schema) == {
        "type": "record",
        "name": "my_orders_2_value",
        "fields": [
            {"name": "id", "type": ["null", "long"], "default": None},
            {"name": "city", "type": ["null", "string"], "default": None},
        ],
    }
    assert decode_values(written, Avro(registry), topic="my.orders-2").to_pylist() == TABLE.to_pylist()
    for table, why in [
        (pa.table({"n": pa.array([1], pa.uint64())}), "field n: Avro has no type for a column of UInt64"),
        (pa.table({"a b": [1]}), 'field a b: "a b" is no name of a field'),
    ]:
        with pytest.raises(ConfigurationError, match=why):
            encode_values(table, Avro(registry), topic="others")
    # A column that does not fit raises before anything is registered.
    with pytest.raises(ConfigurationError, match="field id"):
        encode_values(TABLE.drop(["id"]), Avro(registry, schema=ORDER), topic="others")
    assert registry.subjects() == ["my.orders-2-value"]


def test_rejected_schema(registry: SchemaRegistry) -> None:
    def rows(kind: pa.DataType) -> pa.Table:
        return pa.table({"id": pa.array([1]).cast(kind)}, pa.schema([pa.field("id", kind, nullable=False)]))

    encode_values(rows(pa.int64()), Avro(registry), topic="orders")
    with pytest.raises(SchemaIncompatibleError, match="orders-value") as raised:
        encode_values(rows(pa.string()), Avro(registry), topic="orders")
    assert len(raised.value.reasons) == 1
    assert "id" in raised.value.reasons[0]
    registry_only = Avro(registry, name="shop.Order", subject_strategy="record")
    assert encode_values(rows(pa.string()), registry_only, topic="orders")[0].as_py()[5:] == b"\x021"


def test_auto_register_false_requires_registered_schema(server: Registry, registry: SchemaRegistry) -> None:
    avro = Avro(registry, schema=ORDER, auto_register=False)
    with pytest.raises(SchemaNotFoundError, match="subject orders-value"):
        encode_values(TABLE, avro, topic="orders")
    number = registry.register("orders-value", ORDER)
    for _ in range(2):
        assert encode_values(TABLE, avro, topic="orders").to_pylist() == framed(number, *WANT)
    assert server.requests("POST /subjects/orders-value") == 3
    assert registry.lookup("orders-value", ORDER) == number
    server.fail(500, None)
    with pytest.raises(RegistryError):
        encode_values(TABLE, avro, topic="others")


def test_use_latest_writes_latest_version(server: Registry, registry: SchemaRegistry) -> None:
    latest = copy.deepcopy(ORDER)
    latest["fields"].insert(0, {"name": "zip", "type": "int", "default": 7})  # type: ignore[attr-defined]
    first, second = (registry.register("orders-value", schema) for schema in (ORDER, latest))
    written = encode_values(TABLE, Avro(registry, use_latest=True), topic="orders").to_pylist()
    assert written == framed(second, *(b"\x0e" + value for value in WANT))
    older = Avro(registry, use_latest=True, version=1)
    assert encode_values(TABLE, older, topic="orders").to_pylist() == framed(first, *WANT)
    with pytest.raises(ConfigurationError, match="field name: the schema has no field for this column"):
        encode_values(TABLE.rename_columns(["id", "name"]), Avro(registry, use_latest=True), topic="orders")
    with pytest.raises(SchemaNotFoundError):
        encode_values(TABLE, Avro(registry, use_latest=True), topic="others")
    assert server.requests("POST /subjects/orders-value/versions") == 2


def test_use_latest_resolves_references(registry: SchemaRegistry) -> None:
    from samsarrow import SchemaReference

    user = {"type": "record", "name": "app.User", "fields": [{"name": "name", "type": "string"}]}
    login = {"type": "record", "name": "app.Login", "fields": [{"name": "user", "type": "app.User"}]}
    registry.register("user", user)
    number = registry.register("logins-value", login, references=[SchemaReference("app.User", "user", 1)])
    rows = pa.array([{"user": {"name": "ann"}}])
    written = encode_values(rows, Avro(registry, use_latest=True), topic="logins")
    assert written.to_pylist() == framed(number, b"\x06ann")


@pytest.mark.parametrize(
    ("more", "subject"),
    [
        ({}, "orders-value"),
        ({"subject": "mine"}, "mine"),
        ({"subject": "mine", "subject_strategy": "record"}, "mine"),
        ({"subject_strategy": "record"}, "shop.Order"),
        ({"subject_strategy": "topic-record"}, "orders-shop.Order"),
        ({"subject_strategy": lambda topic, key, record: f"{record}/{key}/{topic}"}, "shop.Order/False/orders"),
    ],
)
def test_subject_name_strategies(registry: SchemaRegistry, more: dict[str, Any], subject: str) -> None:
    encode_values(TABLE, Avro(registry, schema=ORDER, **more), topic="orders")
    assert registry.subjects() == [subject]
    # The schema's name is sufficient to find its subject.
    latest = Avro(registry, name="shop.Order", use_latest=True, **more)
    assert encode_values(TABLE, latest, topic="orders")[0].as_py()[5:] == WANT[0]


def test_missing_subject_name(registry: SchemaRegistry) -> None:
    with pytest.raises(ConfigurationError, match="pass schema, subject or topic"):
        encode_values(TABLE, Avro(registry))
    with pytest.raises(ConfigurationError, match="needs the name of a record"):
        encode_values(pa.array([1]), Avro(registry, subject_strategy="record"), topic="orders")
    with pytest.raises(ConfigurationError, match="subject_strategy must be"):
        Avro(registry, subject_strategy="other")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="is no name of a record"):
        encode_values(TABLE, Avro(registry, name="1"), topic="orders")


def test_interoperates_with_confluent_serializer(server: Registry, registry: SchemaRegistry) -> None:
    confluent = pytest.importorskip(
        "confluent_kafka.schema_registry.avro", reason="confluent-kafka[avro] is not installed", exc_type=ImportError
    )
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.serialization import MessageField, SerializationContext

    client = SchemaRegistryClient({"url": server.url})
    context = SerializationContext("orders", MessageField.VALUE)
    write = confluent.AvroSerializer(client, json.dumps(ORDER))
    read = confluent.AvroDeserializer(client)
    theirs = [write(row, context) for row in TABLE.to_pylist()]
    ours = encode_values(TABLE, Avro(registry, schema=ORDER), topic="orders").to_pylist()
    assert ours == theirs
    assert [read(value, context) for value in ours] == TABLE.to_pylist()
    assert decode_values(pa.array(theirs), Avro(registry), topic="orders").to_pylist() == TABLE.to_pylist()
