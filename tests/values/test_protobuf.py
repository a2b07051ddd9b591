"""Random messages, compared with Google's protobuf. SAMSARROW_PROTOBUF_SCHEMAS=10000 runs the long form."""

from __future__ import annotations

import os
import pickle
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Protobuf, SchemaRegistry, decode_values, encode_values
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.testing import Registry

generate = pytest.importorskip("support.proto", reason="google's protobuf is not installed")

SCHEMAS = int(os.environ.get("SAMSARROW_PROTOBUF_SCHEMAS", "400"))
BLOCK = 50
ROWS = 12

ORDER = 'syntax = "proto3"; package p; message Order { int64 id = 1; Kind kind = 2; enum Kind { A = 0; B = 1; } }'


def column(values: list[bytes]) -> pa.Array:
    return pa.array(values, pa.binary())


def shown(got: pa.Array, make: Any) -> list[Any]:
    got.validate(full=True)
    return [generate.actual(row, make.descriptor) for row in got.to_pylist()]


@pytest.mark.parametrize("block", range(0, SCHEMAS, BLOCK))
def test_values_match_google_protobuf(block: int) -> None:
    good = 0
    for seed in range(block, block + BLOCK):
        make = generate.Generator(seed, delimited=seed % 4 == 3)
        values = [make.value() for _ in range(ROWS)] + [b""]
        want = [generate.read(make.type, value) for value in values]
        for schema in (make.text(), make.file_set()):
            form = Protobuf(schema, message="p.M0", framing="none")
            got = decode_values(column(values), form, on_decode_error="null")
            assert shown(got, make) == want, (seed, schema)
        good += sum(row is not None for row in want)
    assert good > BLOCK * ROWS / 2


@pytest.mark.parametrize("block", range(0, SCHEMAS, BLOCK))
def test_google_protobuf_reads_encoded_values(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = generate.Generator(seed, delimited=seed % 4 == 3)
        form = Protobuf(make.text(), message="p.M0", framing="none")
        first = decode_values(column([make.value() for _ in range(ROWS)]), form, on_decode_error="null").drop_null()
        written = encode_values(first, form)
        assert [generate.read(make.type, value.as_py()) for value in written] == shown(first, make), seed
        assert decode_values(written, form).equals(first), seed


@pytest.mark.parametrize("block", range(0, SCHEMAS, BLOCK))
def test_truncated_values_match_google_protobuf(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = generate.Generator(seed)
        whole = make.value()
        values = [whole[: make.random.randint(0, len(whole))] for _ in range(ROWS)]
        want = [generate.read(make.type, value) for value in values]
        got = decode_values(
            column(values), Protobuf(make.text(), message="p.M0", framing="none"), on_decode_error="null"
        )
        assert shown(got, make) == want, seed


def test_selected_fields_equal_full_decoding() -> None:
    for seed in range(100):
        make = generate.Generator(seed)
        values = column([make.value() for _ in range(ROWS)])
        name = make.random.choice(make.descriptor.fields).name
        everything = decode_values(
            values, Protobuf(make.text(), message="p.M0", framing="none"), on_decode_error="null"
        )
        some = Protobuf(make.text(), message="p.M0", framing="none", fields=[name])
        got = decode_values(values, some, on_decode_error="null")
        for one, whole in zip(got.to_pylist(), everything.to_pylist(), strict=True):
            # A row may also be bad because of a field that is not selected.
            assert whole is None or repr(one) == repr({name: whole[name]}), (seed, name)


def test_message_indexes_in_framing() -> None:
    schema = f"{ORDER} message Refund {{ int64 order = 1; message Part {{ string sku = 1; }} }}"
    values = column([b"\0\0\0\0\7\0\x08\x01", b"\0\0\0\0\7\2\2\x08\x02"])
    assert decode_values(values[:1], Protobuf(schema)).to_pylist() == [{"id": 1, "kind": "A"}]
    refunds = decode_values(values, Protobuf(schema, message="Refund"), on_decode_error="null").to_pylist()
    assert refunds == [None, {"order": 2}]
    with pytest.raises(BadValueError, match=r"row 1, schema id 7: it is a p\.Refund, and p\.Order is read") as bad:
        decode_values(values, Protobuf(schema))
    assert (bad.value.row, bad.value.schema_id) == (1, 7)
    headers = pa.array(
        [[("__value_schema_id", b"\1" + bytes(16) + b"\4\2\0")]],
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
    )
    parts = decode_values(column([b"\x0a\x01a"]), Protobuf(schema, message="Refund.Part"), headers=headers)
    assert parts.to_pylist() == [{"sku": "a"}]


def test_schema_from_registry() -> None:
    common = 'syntax = "proto3"; package c; message User { string city = 1; }'
    file = 'syntax = "proto3"; package p; import "common.proto";'
    first = file + "message Old {} message Order { int32 id = 1; c.User user = 2; }"
    second = file + "message Order { int64 id = 1; c.User user = 2; string note = 3; }"
    with Registry() as server, SchemaRegistry(server.url) as registry:
        server.register("common", common, schema_type="PROTOBUF")
        references = [("common.proto", "common", 1)]
        ids = [
            server.register("orders-value", text, schema_type="PROTOBUF", references=references)
            for text in (first, second)
        ]
        other = server.register("others-value", '"long"')
        frames = [b"\0" + number.to_bytes(4) for number in (*ids, other)]
        values = [frames[0] + b"\2\2\x08\x07\x12\x03\x0a\x01x", frames[1] + b"\0\x08\x08\x1a\x01n", frames[0] + b"\0"]
        values.append(frames[2] + b"\0")
        orders = Protobuf(registry)
        got = decode_values(column(values), orders, topic="orders", on_decode_error="null")
        assert got.to_pylist() == [
            {"id": 7, "user": {"city": "x"}, "note": ""},
            {"id": 8, "user": None, "note": "n"},
            None,
            None,
        ]
        with pytest.raises(BadValueError, match="a schema of type AVRO, not PROTOBUF"):
            decode_values(column(values[3:]), orders, topic="orders")
        # Only two of the three schemas are requested by id, because the response for the subject contained the third.
        assert server.requests("GET /schemas/ids") == 2
        with pytest.raises(ConfigurationError, match="is of type AVRO, not PROTOBUF"):
            decode_values(column(values), orders, topic="others")
        assert encode_values(got[1:2], orders, topic="orders").to_pylist() == [values[1]]


def test_written_schema_is_registered() -> None:
    schema = f"{ORDER} message Refund {{ int64 order = 1; }}"
    with Registry() as server, SchemaRegistry(server.url) as registry:
        refunds = Protobuf(schema, registry=registry, message="Refund")
        rows = pa.array([{"order": 5}, None, {"order": 0}])
        written = encode_values(rows, refunds, topic="refunds")
        result = registry.schema(subject="refunds-value")
        assert (result.schema, result.schema_type) == (schema, "PROTOBUF")
        frame = b"\0" + result.id.to_bytes(4) + b"\2\2" if result.id is not None else b""
        assert written.to_pylist() == [frame + b"\x08\x05", None, frame]
        assert decode_values(written, refunds).to_pylist() == rows.to_pylist()
        with pytest.raises(ConfigurationError, match=r"field orders: message p\.Refund has no such field"):
            encode_values(pa.array([{"orders": 5}]), refunds, topic="elsewhere")
        assert registry.subjects() == ["refunds-value"]
    with pytest.raises(ConfigurationError, match="pass a registry"):
        encode_values(rows, Protobuf(schema, message="Refund"))


def test_rejects_columns_without_a_field() -> None:
    schema = """syntax = "proto3"; message M { repeated int32 a = 1; oneof o { int32 b = 2; string c = 3; } E e = 4;
        map<string, int32> m = 5; google.protobuf.Struct s = 6; enum E { X = 0; } }"""
    form = Protobuf(schema, framing="none")

    def refused(row: dict[str, Any], kind: pa.DataType) -> str:
        with pytest.raises((BadValueError, ConfigurationError)) as error:
            encode_values(
                pa.array([row], pa.struct([(next(iter(row)), kind), ("b", pa.int32()), ("c", pa.string())])), form
            )
        return str(error.value)

    assert (
        refused({"a": [1, None]}, pa.list_(pa.int32())) == "row 0, field a[1]: Protobuf has no null in lists and maps"
    )
    assert refused({"e": "Y"}, pa.string()) == "row 0, field e: enum M.E has no Y"
    assert refused({"s": "[1]"}, pa.string()) == "row 0, field s: the JSON is no object"
    assert refused({"e": 1.5}, pa.float64()) == "field e: a column of Float64 cannot be written as an enum"
    assert "b and c are set" in refused({"e": "X", "b": 1, "c": "x"}, pa.string())
    assert refused({"a": 5}, pa.int32()) == "field a: a column of Int32 cannot be written as a repeated field"


def test_formats_are_cached_and_picklable() -> None:
    given = Protobuf(ORDER, fields=["id"], framing="none")
    assert repr(given) == f"Protobuf(schema={ORDER!r}, fields=['id'], framing='none')"
    again = pickle.loads(pickle.dumps(given))
    assert decode_values(column([b"\x08\x09"]), again).to_pylist() == [{"id": 9}]
    imported = 'syntax = "proto3"; import "order.proto"; message M { p.Order order = 1; }'
    form = Protobuf(imported, imports={"order.proto": ORDER}, framing="none")
    assert decode_values(column([b"\x0a\x02\x10\x01"]), form).to_pylist() == [{"order": {"id": 0, "kind": "B"}}]
    kind = pa.struct(
        [pa.field("id", pa.int64(), False), pa.field("kind", pa.dictionary(pa.int32(), pa.string()), False)]
    )
    assert decode_values(column([]), Protobuf(ORDER, enums="dictionary")).type == kind


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({}, "pass schema or registry"),
        ({"schema": "message M {"}, "line 1: a name is expected"),
        ({"schema": ORDER, "message": "Other"}, r"there is no message Other; the file has p\.Order"),
        ({"schema": ORDER, "fields": ["ident"]}, "field ident: there is no such field; there are id, kind"),
        (
            {"schema": ORDER, "framing": "single-object"},
            "framing must be auto, header, confluent, apicurio8, glue or none",
        ),
        ({"schema": ORDER, "enums": "int"}, "enums must be string or dictionary"),
        ({"schema": b"\xff"}, "no FileDescriptorSet"),
        ({"schema": "syntax = 'proto3'; message M { M m = 1; }"}, "field m: M contains itself"),
        (
            {"schema": "syntax = 'proto3'; import 'x.proto'; message M { X m = 1; }"},
            r"imports that are given, of x\.proto",
        ),
    ],
)
def test_rejects_invalid_options(arguments: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        Protobuf(**arguments)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(kind):
        return pa.array(values, kind)
    # The oldest pyarrow converts no values to a dictionary of `large_string`.
    indices = [None if value is None else index for index, value in enumerate(values)]
    return pa.DictionaryArray.from_arrays(pa.array(indices, kind.index_type), pa.array(values, kind.value_type))


def test_all_column_layouts_are_written() -> None:
    schema = """syntax = "proto3"; import "google/protobuf/wrappers.proto"; message M { string s = 1; bytes b = 2;
        repeated int64 l = 3; repeated string t = 4; E e = 5; optional int32 n = 6; google.protobuf.StringValue w = 7;
        repeated E es = 8; map<string, string> m = 9; U u = 10; message U { string s = 1; }
        enum E { A = 0; B = 1; } }"""
    form = Protobuf(schema, framing="none")
    rows = [
        {"s": "a", "b": b"\xff\x00", "l": [1, 2], "t": ["x", "longer than twelve bytes"], "e": "B", "n": 7, "w": "w",
         "es": ["B", "A"], "m": [("k", "v")], "u": {"s": "z"}},
        {"s": "", "b": b"zz", "l": [0, 0], "t": ["", "y"], "e": "A", "n": None, "w": None, "es": ["A", "A"], "m": [],
         "u": None},
    ]  # fmt: skip
    text, large = pa.string(), pa.large_string()
    plain = {"s": text, "b": pa.binary(), "l": pa.list_(pa.int64()), "t": pa.list_(text), "e": text, "n": pa.int32(),
             "w": text, "es": pa.list_(text), "m": pa.map_(text, text), "u": pa.struct([("s", text)])}  # fmt: skip
    number = pa.int8()
    others = [
        {"s": pa.string_view(), "b": pa.binary_view(), "l": pa.large_list(pa.int64()),
         "t": pa.list_(pa.string_view(), 2), "e": large, "w": pa.string_view(),
         "es": pa.large_list(pa.dictionary(number, text)),
         "m": pa.map_(pa.string_view(), large), "u": pa.struct([("s", pa.string_view())])},
        {"s": pa.dictionary(number, large), "b": pa.binary(2), "l": pa.list_(pa.int64(), 2),
         "t": pa.large_list(pa.dictionary(number, text)), "e": pa.dictionary(number, large),
         "n": pa.dictionary(number, pa.int32()), "w": pa.dictionary(number, text), "es": pa.list_(large, 2)},
        {"b": pa.dictionary(number, pa.binary()), "l": pa.large_list(pa.int32()), "w": large},
    ]  # fmt: skip
    want = encode_values(pa.array(rows, pa.struct(plain.items())), form).to_pylist()
    assert decode_values(column(want), form).to_pylist() == rows
    for other in others:
        columns = [_array([row[name] for row in rows], kind) for name, kind in {**plain, **other}.items()]
        array = pa.StructArray.from_arrays(columns, names=list(plain))
        assert encode_values(array, form).to_pylist() == want, other
        assert encode_values(array.slice(1), form).to_pylist() == want[1:], other
    nothing = pa.DictionaryArray.from_arrays(pa.array([None], number), pa.array([], text))
    array = pa.StructArray.from_arrays([nothing, nothing], names=["s", "e"])
    assert encode_values(array, form).to_pylist() == [b""]


def test_imports_of_registered_schemas() -> None:
    common = 'syntax = "proto3"; package c; message User { string city = 1; }'
    file = 'syntax = "proto3"; import "common.proto"; message Order { int64 id = 1; c.User user = 2; }'
    rows = pa.array([{"id": 7, "user": {"city": "x"}}])
    with Registry() as server, SchemaRegistry(server.url) as registry:
        server.register("orders-value", file, schema_type="PROTOBUF")
        form = Protobuf(registry, imports={"common.proto": common})
        written = encode_values(rows, form, topic="orders")
        assert decode_values(written, form, topic="orders").to_pylist() == rows.to_pylist()
        with pytest.raises(ConfigurationError, match="nor in the imports"):
            decode_values(written, Protobuf(registry), topic="orders")


def test_descriptor_proto_is_built_in() -> None:
    """Compares all fields with Google's own descriptors."""
    from google.protobuf import api_pb2, descriptor_pb2, type_pb2

    file = """syntax = "proto3"; import "google/protobuf/descriptor.proto"; import "google/protobuf/type.proto";
        import "google/protobuf/api.proto";
        message M { google.protobuf.FileDescriptorProto file = 1; google.protobuf.Type type = 2;
            google.protobuf.Api api = 3; }"""
    described = descriptor_pb2.FileDescriptorProto()
    descriptor_pb2.DESCRIPTOR.CopyToProto(described)
    type_ = type_pb2.Type(name="t", syntax=type_pb2.SYNTAX_EDITIONS, fields=[type_pb2.Field(number=7, packed=True)])
    api = api_pb2.Api(name="a", methods=[api_pb2.Method(name="m", response_streaming=True)])
    parts = [item.SerializeToString() for item in (described, type_, api)]
    value = b"".join(bytes([8 * at + 2]) + varint(len(part)) + part for at, part in enumerate(parts, 1))
    form = Protobuf(file, framing="none", recursion=3)
    rows = decode_values(column([value]), form)
    got = rows.to_pylist()[0]
    assert [item["name"] for item in got["file"]["message_type"]] == [item.name for item in described.message_type]
    assert (got["type"]["fields"][0]["number"], got["type"]["syntax"]) == (7, "SYNTAX_EDITIONS")
    assert got["api"]["methods"][0]["response_streaming"] is True
    for module in (descriptor_pb2, type_pb2, api_pb2):
        for name, message in module.DESCRIPTOR.message_types_by_name.items():
            # Messages for options also have extensions, which are not fields of the schema.
            item = Protobuf(file, message=f"google.protobuf.{name}", framing="none", recursion=1)
            fields = decode_values(column([]), item).type.fields
            assert [field.name for field in fields] == [field.name for field in message.fields], name


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number % 128 + 128]) + varint(number // 128)


def test_apicurio_framing_names_messages_of_the_file() -> None:
    schema = 'syntax = "proto3"; package p; message Order { int64 id = 1; message Part { int64 id = 1; } }'
    rows = pa.array([{"id": 7}])
    with Registry() as server, SchemaRegistry(server.url) as registry:
        form = Protobuf(schema, registry=registry, framing="apicurio8")
        written = encode_values(rows, form, topic="orders")
        assert written.to_pylist() == [b"\0" + (1).to_bytes(8) + b"\x07\x0a\x05Order\x08\x07"]
        assert decode_values(written, form, topic="orders").to_pylist() == rows.to_pylist()
        within = Protobuf(schema, registry=registry, message="Order.Part", framing="apicurio8")
        with pytest.raises(ConfigurationError, match="declared within another"):
            encode_values(rows, within, topic="orders")
    unknown = column([b"\0" + (1).to_bytes(8) + b"\x06\x0a\x04Part\x08\x07"])
    with pytest.raises(BadValueError, match="its schema has no message Part of the file itself"):
        decode_values(unknown, Protobuf(schema, framing="apicurio8"))
    with pytest.raises(BadValueError, match="the message's name"):
        decode_values(column([b"\0" + bytes(8) + b"\0"]), Protobuf(schema, framing="apicurio8"))
