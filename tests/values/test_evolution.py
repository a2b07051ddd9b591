"""Each kind of schema change: with one writer, with two alternating writers, and with a bad row between good rows.
Expected rows are those of fastavro.
"""

from __future__ import annotations

import copy
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Avro, decode_values

fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed")
generate = pytest.importorskip("support.avro")
CHANGES = pytest.importorskip("support.changes").CHANGES


def expected(value: Any) -> Any:
    """Converts fastavro's value to pyarrow's form. Only the schema change `union_widened` has a union of several
    members.
    """
    if isinstance(value, dict):
        return {key: expected(of) for key, of in value.items()}
    return [expected(of) for of in value] if isinstance(value, list) else value


def rows(name: str, array: pa.Array) -> list[Any]:
    got = array.to_pylist()
    if name == "union_widened":
        return [row and {"u": next(filter(None, (row["u"] or {}).values()), None)} for row in got]
    if name == "add_map":
        return [row and {**row, "c": dict(row["c"])} for row in got]
    return got


@pytest.mark.parametrize("name", CHANGES)
def test_one_writer(name: str) -> None:
    writer, reader, values = CHANGES[name]
    parsed, into = (fastavro.parse_schema(copy.deepcopy(item)) for item in (writer, reader))
    encoded = [generate.encoded(parsed, value) for value in values]
    want = [expected(generate.by_fastavro(value, parsed, into)) for value in encoded]
    array = pa.array([b"\0\0\0\0\x01" + value for value in encoded])
    got = decode_values(array, Avro(reader, writers={1: writer}))
    got.validate(full=True)
    assert rows(name, got) == want


@pytest.mark.parametrize("name", CHANGES)
def test_alternating_writers_with_bad_row(name: str) -> None:
    writer, reader, values = CHANGES[name]
    parsed, into = (fastavro.parse_schema(copy.deepcopy(item)) for item in (writer, reader))
    old = [generate.encoded(parsed, value) for value in values]
    want = [expected(generate.by_fastavro(value, parsed, into)) for value in old]
    make = generate.Generator(7)
    fresh = make.value(reader if name not in ("named_again",) else writer)
    new = [generate.encoded(into, fresh)] * len(values)
    alone = rows(name, decode_values(pa.array(new), Avro(reader, framing="none")))
    framed, wanted = [], []
    for item, two, a, b in zip(old, new, want, alone, strict=True):
        framed += [
            b"\0\0\0\0\x01" + item,
            b"\0\0\0\0\x02" + two,
            b"\0\0\0\0\x01" + item + b"\0",
            b"\0\0\0\0\x02" + two[:-1],
        ]
        wanted += [a, b, None, None]
    got = decode_values(pa.array(framed), Avro(reader, writers={1: writer, 2: reader}), on_decode_error="null")
    got.validate(full=True)
    assert rows(name, got) == wanted
