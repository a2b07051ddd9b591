"""`decode_values`: input layouts, results, and errors of bad values."""

from __future__ import annotations

import pickle
import struct
import threading
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from samsarrow import Avro, decode_values
from samsarrow.exceptions import BadValueError, ConfigurationError

EVENT = {
    "type": "record",
    "name": "Event",
    "fields": [{"name": "id", "type": "long"}, {"name": "user", "type": "string"}],
}


def event(number: int, user: bytes) -> bytes:
    return bytes([number * 2, len(user) * 2]) + user


VALUES = [event(1, b"ann"), None, event(2, b"")]
ROWS = [{"id": 1, "user": "ann"}, None, {"id": 2, "user": ""}]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_all_binary_layouts(kind: pa.DataType) -> None:
    got = decode_values(pa.array(VALUES, kind), Avro(EVENT, framing="none"))
    assert isinstance(got, pa.StructArray)
    assert got.to_pylist() == ROWS
    assert got.type == pa.struct(
        [pa.field("id", pa.int64(), nullable=False), pa.field("user", pa.string(), nullable=False)]
    )
    assert decode_values(pa.array(VALUES, kind)[1:], Avro(EVENT, framing="none")).to_pylist() == ROWS[1:]


def test_chunked_array_returns_chunks() -> None:
    avro = Avro(EVENT, framing="none")
    got = decode_values(pa.chunked_array([VALUES[:1], VALUES[1:]]), avro)
    assert [chunk.to_pylist() for chunk in got.chunks] == [ROWS[:1], ROWS[1:]]
    for empty in (pa.chunked_array([], pa.binary()), pa.array([], pa.binary())):
        assert (len(decode_values(empty, avro)), decode_values(empty, avro).type) == (0, got.type)
    assert decode_values(pa.nulls(2), avro).null_count == 2


def test_bad_value_error_has_row_and_reason() -> None:
    bad = event(3, b"\xff")
    avro = Avro(EVENT, writers={7: EVENT})
    good = [b"\0\0\0\0\x07" + value for value in (VALUES[0], VALUES[2])]
    values = pa.chunked_array([good, [good[0], b"\0\0\0\0\x07" + bad]], pa.binary())
    with pytest.raises(
        BadValueError, match=r"^orders, row 3, schema id 7, field user: the text is not UTF-8$"
    ) as raised:
        decode_values(values, avro, topic="orders")
    error = raised.value
    assert (error.row, error.schema_id, error.field, error.reason) == (3, 7, "user", "the text is not UTF-8")
    assert pickle.loads(pickle.dumps(error)).field == "user"
    assert decode_values(values, avro, on_decode_error="null").to_pylist() == [ROWS[0], ROWS[2], ROWS[0], None]
    # A failed call does not affect the next one.
    assert decode_values(values[:1], avro).to_pylist() == ROWS[:1]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (b"", "no schema id"),
        (b"\x01\0\0\0\x07", "no schema id"),
        (b"\0\0\0\0\x09\x02\x00", "no writer's schema is known for schema id 9"),
        (b"\0\0\0\0\x07\x02\x00\x00", "1 bytes follow the value"),
        (b"\0\0\0\0\x07\x02", "the value ends too early"),
    ],
)
def test_bad_framing(value: bytes, why: str) -> None:
    with pytest.raises(BadValueError, match=why):
        decode_values(pa.array([value]), Avro(EVENT, writers={7: EVENT}))


def test_schema_ids_in_headers_of_value_and_key() -> None:
    guid = UUID("0188d1a6-b1c5-7c3e-9f45-6f0e8b1f2a3d")
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    named = [
        [("other", b"x"), ("__value_schema_id", b"\0\0\0\0\x07")],
        [("__value_schema_id", b"\x01" + guid.bytes), ("__key_schema_id", b"\0\0\0\0\x09")],
        None,
    ]
    rows = [row and [{"key": key, "value": value} for key, value in row] for row in named]
    headers = pa.array(rows, kind)
    avro = Avro(EVENT, writers={7: EVENT, guid: EVENT})
    values = pa.array([VALUES[0], VALUES[2], b"\0\0\0\0\x07" + event(4, b"p")])
    assert decode_values(values, avro, headers=headers).to_pylist() == [ROWS[0], ROWS[2], {"id": 4, "user": "p"}]
    with pytest.raises(BadValueError, match="row 0"):
        decode_values(values, avro, headers=headers, key=True)
    with pytest.raises(BadValueError) as raised:
        decode_values(values, Avro(EVENT, writers={7: EVENT}), headers=headers)
    assert raised.value.schema_id == str(guid)
    with pytest.raises(ValueError, match="3 values have 2 rows of headers"):
        decode_values(values, avro, headers=headers[:2])
    with pytest.raises(TypeError, match="headers must be list"):
        decode_values(values, avro, headers=pa.array([1, 2, 3]))


def test_fingerprint_and_eight_byte_ids() -> None:
    fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed")
    canonical = fastavro.schema.to_parsing_canonical_form(EVENT)
    print_ = bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    for avro in (Avro(EVENT, framing="single-object"), Avro(writers=[EVENT], framing="single-object")):
        assert decode_values(pa.array([b"\xc3\x01" + print_ + VALUES[0]]), avro).to_pylist() == ROWS[:1]
    apicurio = Avro(EVENT, writers={1 << 40: EVENT}, framing="apicurio8")
    assert decode_values(pa.array([b"\0" + struct.pack(">q", 1 << 40) + VALUES[0]]), apicurio).to_pylist() == ROWS[:1]


def test_selected_fields() -> None:
    got = decode_values(pa.array(VALUES), Avro(EVENT, fields=["user"], framing="none"))
    assert got.to_pylist() == [{"user": "ann"}, None, {"user": ""}]


def test_enums_as_dictionary() -> None:
    colour = {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}
    got = decode_values(pa.array([b"\x02", b"\x00"]), Avro(colour, framing="none", enums="dictionary"))
    assert got.type == pa.dictionary(pa.int32(), pa.string())
    assert got.to_pylist() == ["BLUE", "RED"]


@pytest.mark.parametrize(
    ("name", "value", "want", "kind"),
    [
        ("string", "Grüße".encode(), "Grüße", pa.string()),
        ("short", b"\xff\xfe", -2, pa.int16()),
        ("int", b"\0\0\1\2", 258, pa.int32()),
        ("long", struct.pack(">q", -5), -5, pa.int64()),
        ("float", struct.pack(">f", 1.5), 1.5, pa.float32()),
        ("double", struct.pack(">d", -2.5), -2.5, pa.float64()),
        ("boolean", b"\1", True, pa.bool_()),
        ("uuid", b"0188d1a6-b1c5-7c3e-9f45-6f0e8b1f2a3d", "0188d1a6-b1c5-7c3e-9f45-6f0e8b1f2a3d", pa.string()),
    ],
)
def test_kafka_primitive_types(name: Any, value: bytes, want: object, kind: pa.DataType) -> None:
    got = decode_values(pa.array([value, None]), name)
    assert (got.to_pylist(), got.type) == ([want, None], kind)
    if name != "string":
        with pytest.raises(BadValueError):
            decode_values(pa.array([b""]), name)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Avro(), "Avro has no schema: pass schema, or the registry"),
        (lambda: Avro(writers={1: "int", 2: "long"}), "Avro with 2 writers has no schema for the rows: pass schema"),
        (lambda: Avro("{"), "the schema is no JSON"),
        (lambda: Avro(EVENT, fields=["usr"]), "field usr: there is no such field; there are id, user"),
        (lambda: Avro(EVENT, framing="x"), "framing must be"),
        (lambda: Avro(EVENT, enums="x"), "enums must be"),
        (lambda: decode_values(pa.array([b""]), "integer"), "format must be"),
        (
            lambda: decode_values(pa.array([b""]), "int", on_decode_error="skip"),
            "on_decode_error must be raise or null",
        ),
    ],
)
def test_invalid_options_raise_before_decoding(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()


def test_rejects_arrays_of_other_types() -> None:
    for array in (pa.array([1]), pa.array(["text"])):
        with pytest.raises(TypeError, match="expected an array of binary"):
            decode_values(array, "int")
    with pytest.raises(TypeError, match="expected an Arrow array of binary, got list"):
        decode_values([b""], "int")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="fields must be a list"):
        Avro(EVENT, fields="id")


def test_formats_are_picklable_and_thread_safe() -> None:
    avro = pickle.loads(pickle.dumps(Avro(EVENT, writers={7: EVENT}, fields=["id"])))
    values = pa.array([b"\0\0\0\0\x07" + event(at % 60, b"x" * 20) for at in range(20_000)])
    want = decode_values(values, avro)
    results: list[pa.Array] = []
    threads = [threading.Thread(target=lambda: results.append(decode_values(values, avro))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [got.equals(want) for got in results] == [True] * 4
