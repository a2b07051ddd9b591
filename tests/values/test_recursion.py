"""Recursive types, with values written by fastavro."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Avro, Protobuf, decode_values, encode_values
from samsarrow.exceptions import BadValueError, ConfigurationError

fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed")

TREE = {
    "type": "record",
    "name": "Tree",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "next", "type": ["null", "Tree"]},
        {"name": "below", "type": {"type": "array", "items": "Tree"}},
        {"name": "note", "type": "string"},
    ],
}


def tree(depth: int) -> dict[str, Any]:
    below = [tree(depth - 1) for _ in range(min(depth, 2))]
    return {"id": depth, "next": tree(depth - 1) if depth else None, "below": below, "note": f"of {depth}"}


def written(value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(TREE), value)
    return out.getvalue()


VALUES = pa.array([written(tree(depth)) for depth in range(5)])


def test_unselected_recursive_field_is_skipped() -> None:
    got = decode_values(VALUES, Avro(TREE, framing="none", fields=["note", "id"])).to_pylist()
    assert got == [{"id": depth, "note": f"of {depth}"} for depth in range(5)]
    with pytest.raises(ConfigurationError, match=r"field next: Tree contains itself.*or give `recursion`"):
        Avro(TREE, framing="none")


def test_recursion_depth() -> None:
    form = Avro(TREE, framing="none", recursion=3)
    assert "recursion=3" in repr(form)
    assert decode_values(VALUES[:4], form).to_pylist() == [tree(depth) for depth in range(4)]
    got = decode_values(VALUES, form, on_decode_error="null")
    assert got.to_pylist()[4] is None
    with pytest.raises(BadValueError, match=r"row 4, .*field next\.next\.next\.next: it is nested more than 3"):
        decode_values(VALUES, form)


def test_values_of_limited_depth_round_trip() -> None:
    avro = Avro(TREE, framing="none", recursion=3)
    rows = decode_values(VALUES[:4], avro)
    assert encode_values(rows, avro).to_pylist() == VALUES[:4].to_pylist()
    file = 'syntax = "proto3"; message M { int32 v = 1; M m = 2; repeated M l = 3; map<string, M> k = 4; }'
    messages = Protobuf(file, framing="none", recursion=1)
    values = pa.array([b"\x08\x01", b"\x12\x02\x08\x02", b"\x1a\x00", b"\x22\x05\x0a\x01k\x12\x00"])
    assert encode_values(decode_values(values, messages), messages).to_pylist() == values.to_pylist()


def test_protobuf_messages() -> None:
    file = 'syntax = "proto3"; message M { int32 v = 1; M m = 2; }'
    values = pa.array([b"\x08\x01", b"\x12\x02\x08\x02", b"\x12\x04\x12\x02\x08\x03"])
    got = decode_values(values, Protobuf(file, framing="none", recursion=1), on_decode_error="null").to_pylist()
    assert got == [{"v": 1, "m": None}, {"v": 0, "m": {"v": 2, "m": None}}, None]
    with pytest.raises(ConfigurationError, match="field m: M contains itself"):
        Protobuf(file)
