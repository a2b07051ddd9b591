"""JSON values of random types and texts, compared with Python's `json`. SAMSARROW_JSON_PAIRS=20000 runs the long
form.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import struct
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Avro, DeadLetter, Json, Protobuf, SchemaRegistry, decode_values, infer_schema
from samsarrow.exceptions import BadValueError, ConfigurationError, SchemaNotFoundError
from samsarrow.testing import Registry

jsons = pytest.importorskip("support.jsons")

PAIRS = int(os.environ.get("SAMSARROW_JSON_PAIRS", "800"))
BLOCK = 200
ROWS = 6
EVENT = pa.schema([pa.field("id", pa.int64(), nullable=False), ("user", pa.struct([("city", pa.string())]))])
DOTTED = pa.schema([pa.field("host.name", pa.string())])
VALUES = [b'{"id": 1, "user": {"city": "Rome"}}', None, b'{"user": null, "id": 2, "more": []}']
WANT = [{"id": 1, "user": {"city": "Rome"}}, None, {"id": 2, "user": None}]


def want(text: str, kind: pa.DataType) -> tuple[Any, bool]:
    """Returns the value expected by the oracle, and true if the oracle is certain."""
    try:
        return jsons.expected(jsons.loaded(text), kind), True
    except jsons.BadError:
        return None, True
    except jsons.UnsureError:
        return None, False


def check(texts: list[str], kind: pa.DataType, seed: int) -> None:
    got = decode_values(pa.array([text.encode() for text in texts]), Json(kind), on_decode_error="null")
    got.validate(full=True)
    assert got.type == kind, (got.type, kind)
    for row, text in enumerate(texts):
        row_wanted, sure = want(text, kind)
        if sure:
            one = pa.array([row_wanted], kind)
            assert got[row : row + 1].equals(one), (seed, kind, text, got[row : row + 1], one)


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_values_match_python_json(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = jsons.Generator(seed)
        kind = make.struct(3)
        check([make.text(kind) for _ in range(ROWS)], kind, seed)


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_damaged_values_match_python_json(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = jsons.Generator(seed + 1_000_000)
        kind = make.struct(2)
        good = make.text(kind, nullable=False, odd=0)
        check([good, make.damaged(good), good, make.damaged(good), good], kind, seed)


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_selected_fields_equal_full_decoding(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = jsons.Generator(seed + 2_000_000)
        kind = make.struct(3)
        values = pa.array([make.text(kind, odd=0).encode() for _ in range(ROWS)])
        names = [field.name for field in kind if field.name and "." not in field.name]
        if not names:
            continue
        name = make.random.choice(names)
        whole = decode_values(values, Json(kind))
        some = decode_values(values, Json(kind, fields=[name]))
        assert some.type == pa.struct([kind.field(name)])
        assert some.field(0).equals(whole.field(name)), (seed, kind)


def merged(kinds: list[Any]) -> pa.DataType | None:
    """Returns the common Arrow type of Python values; None if they have no common type."""
    kinds = [kind for kind in kinds if kind is not None]
    if not kinds or len({type(kind) for kind in kinds} - {int, Decimal}) + (isinstance_any(kinds, (int, Decimal))) > 1:
        return None
    match kinds[0]:
        case bool():
            return pa.bool_()
        case int() | Decimal():
            whole = [kind for kind in kinds if isinstance(kind, int)]
            if len(whole) < len(kinds) or max(whole) >= 2**64 or min(whole) < -(2**63):
                return pa.float64()
            if max(whole) >= 2**63:
                return pa.uint64() if min(whole) >= 0 else pa.float64()
            return pa.int64()
        case str():
            return pa.string()
        case jsons.Pairs():
            names = list(dict.fromkeys(name for kind in kinds for name, _ in kind))
            below = {name: [value for kind in kinds for key, value in kind if key == name] for name in names}
            return pa.struct([field(name, merged(values)) for name, values in below.items()]) if names else None
    return pa.list_(field("item", merged([item for kind in kinds for item in kind])))


def isinstance_any(kinds: list[Any], of: tuple[type, ...]) -> bool:
    return any(isinstance(kind, of) and not isinstance(kind, bool) for kind in kinds)


def field(name: str, kind: pa.DataType | None) -> pa.Field:
    if kind is not None:
        return pa.field(name, kind)
    if hasattr(pa, "json_"):
        return pa.field(name, pa.json_(pa.string()))
    return pa.field(name, pa.string(), metadata={"ARROW:extension:name": "arrow.json"})


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_inferred_schema_accepts_all_values(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = jsons.Generator(seed + 3_000_000)
        kinds = [make.struct(3) for _ in range(2)]
        texts = [make.text(random.Random(seed).choice(kinds), nullable=False, odd=0) for _ in range(ROWS)]
        texts += [make.text(kinds[0], nullable=False, odd=0)]
        expected = merged([jsons.loaded(text) for text in texts])
        values = pa.array([text.encode() for text in texts])
        if expected is None:
            with pytest.raises(ConfigurationError):
                infer_schema(values)
            continue
        actual = infer_schema(values)
        assert pa.struct(list(actual)) == expected, (seed, texts)
        got = decode_values(values, Json(actual))
        assert got.null_count == 0
        got.validate(full=True)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_all_binary_layouts(kind: pa.DataType) -> None:
    got = decode_values(pa.array(VALUES, kind), Json(EVENT))
    assert (got.to_pylist(), got.type) == (WANT, pa.struct(list(EVENT)))
    chunks = decode_values(pa.chunked_array([VALUES[:1], VALUES[1:]], kind), Json(EVENT))
    assert [chunk.to_pylist() for chunk in chunks.chunks] == [WANT[:1], WANT[1:]]


def test_bad_value_error_has_row_and_reason() -> None:
    values = pa.array([VALUES[0], b'{"id": 1, "user": {"city": 7}}', VALUES[2]])
    with pytest.raises(BadValueError) as raised:
        decode_values(values, Json(EVENT), topic="orders")
    error = raised.value
    reason = "expected a string, found a number at byte 27"
    assert str(error) == f"orders, row 1, field user.city: {reason}"
    assert (error.row, error.schema_id, error.field, error.reason) == (1, None, "user.city", reason)
    framed = pa.array([b"\0\0\0\0\x07{"])
    with pytest.raises(BadValueError, match="row 0, schema id 7: the value ends too early"):
        decode_values(framed, Json(EVENT))
    assert decode_values(values, Json(EVENT), on_decode_error="null").to_pylist() == [WANT[0], None, WANT[2]]


def test_framing_is_skipped() -> None:
    values = pa.array(
        [b"\0" + struct.pack(">I", 7) + value if value and at else value for at, value in enumerate(VALUES)]
    )
    assert decode_values(values, Json(EVENT)).to_pylist() == WANT
    with pytest.raises(BadValueError, match="the value does not begin with byte 0"):
        decode_values(values, Json(EVENT, framing="confluent"))
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[("__value_schema_id", b"\0\0\0\0\x07")], None, []], kind)
    assert decode_values(pa.array(VALUES), Json(EVENT), headers=headers).to_pylist() == WANT


SCHEMA = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"$ref": "#/definitions/tag"}},
        "extra": {"type": "object"},
    },
    "required": ["id"],
    "definitions": {"tag": {"type": "string"}},
}
TEXT = b'{"id": 7, "at": "2026-11-23T17:03:59Z", "tags": ["a"], "extra": {"x": 1}}'


def test_json_schema_defines_the_type() -> None:
    want = pa.struct(
        [
            pa.field("id", pa.int64(), nullable=False),
            ("at", pa.timestamp("us", "UTC")),
            ("tags", pa.list_(pa.field("item", pa.string(), nullable=False))),
            ("extra", pa.string()),
        ]
    )
    for schema in (SCHEMA, json.dumps(SCHEMA)):
        got = decode_values(pa.array([TEXT]), Json(schema))
        assert got.type == want
        row = got.to_pylist()[0]
        assert (row["id"], row["at"].isoformat(), row["tags"], row["extra"]) == (
            7,
            "2026-11-23T17:03:59+00:00",
            ["a"],
            '{"x": 1}',
        )


@pytest.fixture
def server() -> Iterator[Registry]:
    with Registry() as server:
        yield server


def test_registered_schema_defines_the_type(server: Registry) -> None:
    number = server.register("orders-value", json.dumps(SCHEMA), schema_type="JSON")
    server.register("keys", '"long"')
    rules = {"domainRules": [{"name": "secret", "type": "ENCRYPT"}]}
    server.register("ruled", json.dumps(SCHEMA), schema_type="JSON", rules=rules)
    values = pa.array([b"\0" + struct.pack(">I", number) + TEXT, TEXT])
    with SchemaRegistry(server.url, missing_id_retries_wait_ms=5) as registry:
        form = Json(registry, fields=["tags"])
        before = server.requests()
        for _ in range(3):
            assert decode_values(values, form, topic="orders").to_pylist() == [{"tags": ["a"]}] * 2
        assert server.requests() - before == 1
        assert decode_values(values, Json(registry=registry, subject="orders-value", version=1))[0].as_py()["id"] == 7
        for make, error, why in [
            (lambda: decode_values(values, Json(registry)), ConfigurationError, "pass schema, subject or topic"),
            (lambda: decode_values(values, Json(registry), topic="o"), SchemaNotFoundError, "o-value"),
            (lambda: decode_values(values, Json(registry, subject="keys")), ConfigurationError, "type AVRO, not JSON"),
            (lambda: decode_values(values, Json(registry, subject="ruled")), ConfigurationError, "has rules"),
        ]:
            with pytest.raises(error, match=why):
                make()
        assert len(decode_values(values, Json(registry, subject="ruled", ignore_rules=True))) == 2


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Json(), "pass schema or registry"),
        (lambda: Json("{"), "the schema is no JSON"),
        (lambda: Json({"id": "integer"}), r"no keyword of JSON Schema, .* pass pyarrow.schema\({"),
        (lambda: Json({"id": pa.int64()}), "no keyword of JSON Schema"),
        (lambda: DeadLetter("", None), "topic is the name of one topic, not an empty text"),
        (lambda: Json(EVENT, fields=["usr"]), "field usr: there is no such field; there are id, user"),
        (lambda: Json(EVENT, fields=["`id"]), "fields has `id, in which a back-quote is not closed"),
        (lambda: Json(DOTTED, fields=["service.name"]), "field service: there is no such field; there are `host.name`"),
        (lambda: Json(EVENT, framing="x"), "framing must be"),
        (lambda: Json(EVENT, framing="single-object"), "framing single-object is Avro's"),
        (lambda: Json(pa.struct([("a", pa.duration("s"))])), "field a: .* cannot be read from JSON"),
        (lambda: infer_schema(pa.array([b"[1]"])), "not all values are objects"),
        (lambda: infer_schema(pa.array([b"{}", None])), "no value has a field"),
    ],
)
def test_invalid_options_raise_before_decoding(make: Any, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        make()


def test_rejects_arguments_of_other_types() -> None:
    for make in (
        lambda: Json(7),
        lambda: Json(EVENT, schema=EVENT),
        lambda: Protobuf(7),
        lambda: DeadLetter("dead", {"bootstrap.servers": "localhost:9092"}),
        lambda: Json(EVENT, fields="id"),
        lambda: infer_schema([b"{}"]),
        lambda: infer_schema(pa.array([1])),
    ):
        with pytest.raises(TypeError):
            make()


def test_inference_error_names_invalid_json() -> None:
    with pytest.raises(BadValueError, match="row 2: expected a colon, found a number at byte 5") as raised:
        infer_schema(pa.chunked_array([['{"a": 1}', None], ['{"a" 1}']]))
    assert raised.value.row == 2


def test_formats_are_picklable_and_have_repr() -> None:
    form = pickle.loads(pickle.dumps(Json(EVENT, fields=["id"])))
    assert decode_values(pa.array(VALUES), form).to_pylist() == [{"id": 1}, None, {"id": 2}]
    assert repr(Json(schema='{"type": "object"}', framing="none")) == (
        """Json(schema='{"type": "object"}', framing='none')"""
    )
    assert not isinstance(form, Avro)
