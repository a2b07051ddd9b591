"""`--where`: the selected rows, rejected expressions, and a check that no expression is executed as Python code."""

import json

import pyarrow as pa
import pytest

from samsarrow.cli.consume.where import Where, WhereError

ROWS = [
    (
        "orders",
        0,
        b"k0",
        {"amount": 5, "name": "Ann", "ok": True, "tags": ["a", "b"], "at": "2026-11-01T09:00:00+00:00"},
    ),
    ("orders", 1, b"k1", {"amount": 15.5, "name": "bob", "ok": False, "deep": {"er": {"x y": 1}}}),
    ("orders", 2, None, {"amount": "12", "name": None}),
    ("old", 3, b"\xff", b"no json"),
    ("old", 4, b"k4", None),
    ("old", 5, b"k5", [1, 2]),
    ("old", 6, b"k6", {"amount": 2**53 + 1, "other": 2**53}),
]


@pytest.fixture(scope="module")
def batch():
    values = [v if v is None or isinstance(v, bytes) else json.dumps(v).encode() for *_, v in ROWS]
    headers = [[("h", b"1"), ("h", b"2")], [("h", None)], [], [("x y", b"\xff")], None, [], []]
    return pa.record_batch({
        "key": pa.array([k for _, _, k, _ in ROWS], pa.binary()),
        "value": pa.array(values, pa.binary()),
        "topic": pa.array([t for t, *_ in ROWS]).dictionary_encode(),
        "partition": pa.array([0] * len(ROWS), pa.int32()),
        "offset": pa.array([o for _, o, *_ in ROWS], pa.int64()),
        "timestamp": pa.array([1793520000000 + i * 3600000 for i in range(len(ROWS))], pa.timestamp("ms", "UTC")),
        "headers": pa.array(
            [None if h is None else [{"key": k, "value": v} for k, v in h] for h in headers],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    })  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("value.amount > 10", [1, 6]),
        ("value.amount <= 5", [0]),
        ("10 < value.amount < 16", [1]),
        ("value.amount == 9007199254740993", [6]),
        ("value.amount > value.other", []),
        ("value.other < value.amount - 0.5 or value.amount == 5", [0]),
        ("value.amount != 9007199254740992", [0, 1, 6]),
        ("9007199254740992 < value.amount", [6]),
        ("offset == 2 or offset > 4.5", [2, 5, 6]),
        ("value.amount * 2 + 1 == 11", [0]),
        ("value.amount / 0 > 1", [0, 1, 6]),
        ("-value.amount < -10", [1, 6]),
        ("value.amount == '12'", [2]),
        ("value.name == 'bob' or value.name == 'Ann'", [0, 1]),
        ("value.name in ['bob', 'Ann']", [0, 1]),
        ("value.name not in ['bob']", [0]),
        ("lower(value.name) == 'ann'", [0]),
        ("startswith(value.name, 'A')", [0]),
        ("endswith(value.name, 'b')", [1]),
        ("contains(value, 'json')", [3]),
        ("matches(value.name, '^[a-z]+$')", [1]),
        ("length(key) == 2 and offset > 4", [5, 6]),
        ("value.ok", [0]),
        ("not value.ok", [1]),
        ("value.ok == false", [1]),
        ("value.deep.er['x y'] == 1", [1]),
        ("value.tags[0] == 'a'", [0]),
        ("value.tags[-1] == 'b'", [0]),
        ("value[1] == 2", [5]),
        ("value.tags == '[\"a\",\"b\"]'", [0]),
        ("value.name is None", [2, 3, 4, 5, 6]),
        ("value.name is not null and topic == 'orders'", [0, 1]),
        ("value is null", [4]),
        ("key is null", [2]),
        ("key == '\ufffd'", [3]),
        ("topic == 'old' and offset >= 5", [5, 6]),
        ("partition != 0", []),
        ("offset in [1, 3]", [1, 3]),
        ("timestamp < '2026-11-01T10:00:00+00:00'", [0, 1]),
        ("timestamp >= 1793538000000", [5, 6]),
        ("value.at < timestamp", []),
        ("header.h == '2'", [0]),
        ("header['x y'] == '\ufffd'", [3]),
        ("header.h is null", [1, 2, 3, 4, 5, 6]),
        ("number(value.amount) > 10", [1, 6]),
        ("text(value.amount) == '5'", [0]),
        ("true", [0, 1, 2, 3, 4, 5, 6]),
        ("value.nothing.at.all > 1", []),
    ],
)  # fmt: skip
def test_where_selects_rows(batch, text, rows):
    where = Where(text)
    assert where.rows(batch).to_pylist() == rows
    # The expression also works with slices, which polls return, and with an empty batch.
    assert where.rows(batch.slice(2)).to_pylist() == [row - 2 for row in rows if row >= 2]
    assert where.rows(batch.slice(0, 0)).to_pylist() == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "is not an expression"),
        ("value.amount >", "is not an expression"),
        ("value.amount = 10", "== compares"),
        ("valeu.amount > 1", "there is no field valeu.amount"),
        ("offset.x > 1", "there is no field offset.x"),
        ("header.a.b == '1'", "there is no field"),
        ("header == '1'", "there is no field"),
        ("offset", "is a number, not a condition"),
        ("offset > 'x'", "offset is a number and 'x' a text"),
        ("offset + topic > 1", "topic is a text, not a number"),
        ("value.x < null", "null can only be compared"),
        ("value.ok < true", "true and false have no order"),
        ("offset is 3", "compare with null only"),
        ("value.x in value.y", "in takes a list"),
        ("value.x in []", "in takes a list"),
        ("matches(key, '(')", "is not a regular expression"),
        ("matches(key, topic)", "must be text in quotes"),
        ("lower(key, 1) == 'a'", "lower takes 1 argument"),
        ("timestamp > 'yesterday'", "is not a time"),
        ("offset > 99999999999999999999", "more than 64 bits"),
        ("key == b'x'", "is not a number, text, true, false or null"),
        ("offset % 2 == 0", "is not allowed in a condition"),
        ("'a' * 1000000000 == key", "is a text, not a number"),
        ("9**9**9**9 > 1", "is not allowed in a condition"),
        ("__import__('os').system('touch /tmp/owned')", "there is no function"),
        ("open('/etc/passwd')", "there is no function open"),
        ("(lambda: true)()", "there is no function"),
        ("[x for x in value]", "is not allowed in a condition"),
        ("value.__class__.__mro__[1](1) == 1", "there is no function"),
        ("f'{value}' == 'x'", "is not allowed in a condition"),
        ("(x := 1) == 1", "is not allowed in a condition"),
        ("true if offset else false", "is not allowed in a condition"),
        ("value[offset] == 1", "is not a field"),
        ("*offset", "is not an expression"),
        ("(" * 4000 + "true" + ")" * 4000, "is not an expression"),
        ("not " * 3000 + "true", "expression"),
        ("-" * 3000 + "offset > 1", "expression"),
        ("offset > 1 " * 2000, "more than 10,000 characters"),
        ("offset > 1\x00", "is not an expression"),
    ],
    ids=lambda text: text[:40],
)  # fmt: skip
def test_invalid_expressions_are_rejected(text, why):
    with pytest.raises(WhereError) as raised:
        Where(text)
    assert why in raised.value.message


def test_headers_are_read_only_if_the_expression_uses_them():
    assert Where("header.h == '1'").wants_headers
    assert not Where("value.h == '1'").wants_headers
