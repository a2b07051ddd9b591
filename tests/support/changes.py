"""Schema changes, one example of each kind."""

from __future__ import annotations

from typing import Any

from support.avro import PROMOTIONS


def record(*fields: Any, name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, **more, "fields": [dict(field) for field in fields]}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def enum(*symbols: str, **more: Any) -> dict[str, Any]:
    return {"type": "enum", "name": "E", "symbols": list(symbols), **more}


A, B = field("a", "int"), field("b", "string")
INNER = record(A, name="Inner")
# Schema changes by name, each with the writer's schema, the reader's schema, and values written with the former.
CHANGES: dict[str, tuple[Any, Any, list[Any]]] = {
    "add": (record(A), record(A, field("c", "string", default="new")), [{"a": 1}, {"a": 2}]),
    "add_null": (record(A), record(A, field("c", ["null", "int"], default=None)), [{"a": 1}]),
    "add_map": (record(A), record(field("c", {"type": "map", "values": "int"}, default={"k": 3}), A), [{"a": 1}]),
    "remove": (record(A, B), record(B), [{"a": 1, "b": "x"}, {"a": -1, "b": ""}]),
    "reorder": (record(A, B), record(B, A), [{"a": 1, "b": "x"}]),
    "alias": (record(A, B), record(field("z", "long", aliases=["a"]), B), [{"a": 1, "b": "x"}]),
    "record_alias": (record(A, name="Old"), record(A, name="New", aliases=["Old"]), [{"a": 1}]),
    "namespace": (record(A, name="x.R"), record(A, name="y.R"), [{"a": 1}]),
    "nested": (
        record(field("i", record(A, B, name="Inner"))),
        record(field("i", record(field("c", "boolean", default=True), A, name="Inner"))),
        [{"i": {"a": 1, "b": "x"}}],
    ),
    "nested_list": (
        record(field("i", {"type": "array", "items": INNER})),
        record(field("i", {"type": "array", "items": record(field("a", "double"), name="Inner")})),
        [{"i": [{"a": 1}, {"a": 2}]}, {"i": []}],
    ),
    "named_again": (
        record(field("i", INNER), field("j", ["null", "Inner"])),
        record(field("j", ["null", INNER]), field("i", "Inner")),
        [{"i": {"a": 1}, "j": None}, {"i": {"a": 1}, "j": {"a": 2}}],
    ),
    "enum_reordered": (
        record(field("e", enum("A", "B"))),
        record(field("e", enum("B", "A", "C"))),
        [{"e": "A"}, {"e": "B"}],
    ),
    "enum_default": (
        record(field("e", enum("A", "B"))),
        record(field("e", enum("B", default="B"))),
        [{"e": "A"}, {"e": "B"}],
    ),
    "optional": (record(A), record(field("a", ["null", "int"])), [{"a": 1}]),
    "union_widened": (
        record(field("u", ["null", "int"])),
        record(field("u", ["int", "null", "string"])),
        [{"u": 1}, {"u": None}],
    ),
    "union_narrowed": (record(field("u", ["null", "int"])), record(field("u", "int")), [{"u": 1}, {"u": 2}]),
    "union_promoted": (
        record(field("u", ["null", "int"])),
        record(field("u", ["null", "double"])),
        [{"u": 1}, {"u": None}],
    ),
}
for of, into in [(w, r) for w, rs in PROMOTIONS.items() for r in rs]:
    CHANGES[f"{of}_to_{into}"] = (record(field("a", of)), record(field("a", into)), [{"a": 1}, {"a": -70}])
CHANGES["bytes_to_string"] = (record(field("a", "bytes")), record(field("a", "string")), [{"a": b"x"}, {"a": b""}])
CHANGES["string_to_bytes"] = (record(field("a", "string")), record(field("a", "bytes")), [{"a": "ü"}, {"a": ""}])
