"""Random types, JSON texts of their values, and an oracle that parses the texts with Python's `json`."""

from __future__ import annotations

import base64
import json
import math
import random
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

NAMES = ["id", "user", "a name of more than sixteen bytes", "ä", "n\tame", 'q"uote', "", "x1", "x2", "x3"]
STRINGS = [
    "",
    "plain",
    "exactly8",
    "a text of more than sixteen bytes",
    "Grüße 語",
    "😀",
    'q"\\/',
    "line\nbreak\t\x00",
    "\x7f",
]
LEAVES = [
    pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.float32(),
    pa.float64(), pa.float64(), pa.bool_(), pa.string(), pa.string(), pa.string(), pa.binary(), pa.binary(3),
    pa.date32(), pa.time32("ms"), pa.time64("us"), pa.timestamp("ms", "UTC"), pa.timestamp("us"),
    pa.timestamp("s", "UTC"), pa.decimal128(12, 3), pa.decimal256(50, 10), pa.null(),
]  # fmt: skip
PER_SECOND = {"s": 1, "ms": 1000, "us": 1_000_000, "ns": 1_000_000_000}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class BadError(Exception):
    """Raised if the oracle considers a value invalid."""


class UnsureError(Exception):
    """Raised if the oracle cannot decide."""


class Pairs(list[tuple[str, Any]]):
    """The members of an object in their original order, including duplicates."""


class Generator:
    """Generates types and texts from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def struct(self, depth: int) -> pa.DataType:
        names = self.random.sample(NAMES, self.random.randint(1, 6))
        return pa.struct([self.field(name, depth) for name in names])

    def field(self, name: str, depth: int) -> pa.Field:
        kind = self.kind(depth)
        return pa.field(name, kind, nullable=pa.types.is_null(kind) or self.random.random() < 0.8)

    def kind(self, depth: int) -> pa.DataType:
        choice = self.random.randrange(6 if depth else 3)
        if choice == 3:
            return pa.list_(self.field("item", depth - 1))
        if choice == 4:
            return pa.map_(pa.string(), self.field("value", depth - 1))
        return self.struct(depth - 1) if choice == 5 else self.random.choice(LEAVES)

    def text(self, kind: pa.DataType, *, nullable: bool = True, odd: float = 0.004) -> str:
        """Returns the JSON text of a value. With probability `odd`, the text has another type, which may be valid."""
        if nullable and self.random.random() < 0.15:
            return "null"
        if self.random.random() < odd:
            return self.random.choice(
                ['"x"', "1", "1.5", "true", "[]", "{}", "null", "1e400", "-1", "99999999999999999999"]
            )
        if pa.types.is_struct(kind):
            members = [
                (self.name(field.name), self.text(field.type, nullable=field.nullable, odd=odd))
                for field in kind
                if not field.nullable or self.random.random() < 0.85
            ]
            if self.random.random() < 0.3:
                members.append((self.name("other"), self.any(3)))
            if self.random.random() < 0.5:
                self.random.shuffle(members)
            return self.object(members)
        if pa.types.is_map(kind):
            keys = self.random.sample(NAMES, self.random.randrange(4))
            value = kind.item_field
            return self.object(
                [(self.name(key), self.text(value.type, nullable=value.nullable, odd=odd)) for key in keys]
            )
        if pa.types.is_list(kind):
            item = kind.value_field
            items = [self.text(item.type, nullable=item.nullable, odd=odd) for _ in range(self.random.randrange(4))]
            return f"[{self.space()}{self.comma().join(items)}{self.space()}]"
        return self.leaf(kind)

    def json_schema(self, depth: int, *, whole: bool = False) -> dict[str, Any]:
        """Returns a JSON Schema. If `whole` is set, it is the schema of an object."""
        kinds = [
            "integer",
            "number",
            "string",
            "boolean",
            "date",
            "time",
            "date-time",
            "several",
            "any",
            "enum",
            "self",
        ]
        if depth:
            kinds += ["array", "map", "object"]
        match "object" if whole else self.random.choice(kinds):
            case "integer" | "number" | "string" | "boolean" as kind:
                return {"type": [kind, "null"] if self.random.random() < 0.2 else kind}
            case "date" | "time" | "date-time" as form:
                return {"type": "string", "format": form}
            case "several":
                return {"type": ["integer", "string", "boolean"]}
            case "any":
                return self.random.choice([{}, {"anyOf": [{"type": "integer"}, {"type": "object"}]}])
            case "enum":
                return {"enum": ["a", "b"]}
            case "self":
                return {"$ref": "#"}
            case "array":
                return {"type": "array", "items": self.json_schema(depth - 1)}
            case "map":
                return {"type": "object", "additionalProperties": self.json_schema(depth - 1)}
            case _:
                names = self.random.sample([*NAMES, "host.name", "host"], self.random.randint(1, 5))
                required = [name for name in names if self.random.random() < 0.5]
                properties = {name: self.json_schema(depth - 1) for name in names}
                properties = {
                    name: {} if one == {"$ref": "#"} and name in required else one for name, one in properties.items()
                }
                return {"type": "object", "properties": properties, "required": required}

    def json_value(self, schema: dict[str, Any], root: dict[str, Any], depth: int = 3) -> Any:
        """Returns a value that matches a JSON Schema, as a Python object."""
        some = self.random
        if schema.get("$ref"):
            return self.json_value(root, root, depth - 1)
        if "enum" in schema:
            return some.choice(schema["enum"])
        if "properties" in schema:
            there = {name: one for name, one in schema["properties"].items() if name in schema["required"]}
            if depth > 0:
                there = {
                    name: one for name, one in schema["properties"].items() if name in there or some.random() < 0.7
                }
            return {name: self.json_value(one, root, depth) for name, one in there.items()}
        if "additionalProperties" in schema:
            return {
                name: self.json_value(schema["additionalProperties"], root, depth)
                for name in some.sample(NAMES, 2 if depth > 0 else 0)
            }
        if "items" in schema:
            return [self.json_value(schema["items"], root, depth) for _ in range(some.randrange(3) if depth > 0 else 0)]
        match schema.get("format"):
            case "date":
                return "2026-01-02"
            case "time":
                return some.choice(["03:04:05Z", "23:59:59.600Z"])
            case "date-time":
                return some.choice(["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.600Z"])
        kind = schema.get("type", "any")
        if isinstance(kind, list):
            kind = some.choice(kind)
        match kind:
            case "integer":
                return some.randrange(-(2**63), 2**63)
            case "number":
                return some.randrange(-(10**6), 10**6) / 8
            case "boolean":
                return some.random() < 0.5
            case "null":
                return None
            case "string":
                return some.choice(STRINGS)
        return some.choice([1, "1", '"1"', "null", True, {"k": [1, None]}, ["a", {}], -0.5])

    def any(self, depth: int) -> str:
        """Returns the JSON text of a value of any type."""
        choice = self.random.randrange(7 if depth else 5)
        if choice == 5:
            return "[" + self.comma().join(self.any(depth - 1) for _ in range(self.random.randrange(4))) + "]"
        if choice == 6:
            return self.object([(self.name(name), self.any(depth - 1)) for name in self.random.sample(NAMES, 2)])
        leaves = ["null", "true", "false", str(self.random.randrange(-5, 5)), "-1.5e3", "0"]
        return self.name(self.random.choice(STRINGS)) if choice else self.random.choice(leaves)

    def leaf(self, kind: pa.DataType) -> str:
        some = self.random
        if pa.types.is_null(kind):
            return "null"
        if pa.types.is_boolean(kind):
            return some.choice(["true", "false"])
        if pa.types.is_integer(kind):
            low, high = bounds(kind)
            value = some.choice([low, high, 0, some.randint(low, high), some.randint(low // 2**20, high >> 20)])
            return f"{value}.0" if some.random() < 0.05 else str(value)
        if kind == pa.float32():
            return some.choice(["0", "-0.0", "1.5", "16777217", "0.1", "3e38", "1e-40", str(some.randrange(10**6) / 8)])
        if pa.types.is_floating(kind):
            wild = struct.unpack("<d", some.randbytes(8))[0]
            wild = wild if math.isfinite(wild) else 0.1
            return some.choice([repr(wild), repr(some.random()), str(some.randrange(10**20)), "1E2", "-0", "5e-324"])
        if pa.types.is_decimal(kind):
            places = some.randrange(kind.scale + 1)
            digits = some.randrange(kind.precision - kind.scale + places + 1)
            number = Decimal((some.randrange(2), tuple(some.randrange(10) for _ in range(digits)), -places))
            return f'"{number}"' if some.random() < 0.4 else str(number)
        if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
            size = kind.byte_width if pa.types.is_fixed_size_binary(kind) else some.randrange(20)
            return f'"{base64.b64encode(some.randbytes(size)).decode()}"'
        if pa.types.is_date32(kind):
            day = date(1970, 1, 1) + timedelta(days=some.randrange(-700_000, 2_900_000))
            return some.choice([f'"{day.isoformat()}"', str(some.randrange(-1000, 30000))])
        if pa.types.is_time(kind):
            most = 86_400 * PER_SECOND[kind.unit]
            when = (datetime(1970, 1, 1) + timedelta(microseconds=some.randrange(86_400 * 10**6))).time()
            return some.choice([str(some.randrange(most)), f'"{when.isoformat()}"', f'"{when.isoformat()}Z"'])
        if pa.types.is_timestamp(kind):
            when = datetime(1, 1, 2) + timedelta(microseconds=some.randrange(9998 * 365 * 86_400 * 10**6))
            zone = some.choice(["", "Z", "+00:00", "-05:30", "+1400"])
            number = some.randrange(-(10**10), 10**10) * PER_SECOND[kind.unit]
            return some.choice([str(number), f'"{when.isoformat(sep=some.choice("T "))}{zone}"'])
        return self.name(some.choice(STRINGS))

    def name(self, text: str) -> str:
        return json.dumps(text, ensure_ascii=self.random.random() < 0.5)

    def space(self) -> str:
        return self.random.choice(["", "", "", " ", "\n  "])

    def comma(self) -> str:
        return f"{self.space()},{self.space()}"

    def object(self, members: list[tuple[str, str]]) -> str:
        inside = self.comma().join(f"{name}{self.space()}:{self.space()}{value}" for name, value in members)
        return f"{{{self.space()}{inside}{self.space()}}}"

    def damaged(self, text: str) -> str:
        """Returns the text with a few characters changed."""
        for _ in range(self.random.randint(1, 2)):
            at = self.random.randrange(len(text))
            cut = self.random.randrange(2)
            text = text[:at] + self.random.choice(["", *'0{}[]",:\\ \n-.eutfn\x01']) + text[at + cut :]
            text = text or " "
        return text


def bounds(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(kind) else (0, 2**bits - 1)


def loaded(text: str) -> Any:
    """Parses a text with Python's `json`, but rejects Python's extensions of JSON."""
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_refuse, object_pairs_hook=Pairs)
        json.dumps(value, ensure_ascii=False, default=str).encode()
    except InvalidOperation:
        # The exponent exceeds the range of Python's decimals.
        raise UnsureError from None
    except (ValueError, RecursionError):
        raise BadError from None
    return value


def _refuse(_: str) -> None:
    raise ValueError


def expected(value: Any, kind: pa.DataType, *, nullable: bool = True) -> Any:
    """Returns the value that a column of this type should have."""
    if value is None:
        return None if nullable else _bad()
    if pa.types.is_struct(kind):
        return _members(value if isinstance(value, Pairs) else _bad(), kind)
    if pa.types.is_map(kind):
        item = kind.item_field
        pairs = value if isinstance(value, Pairs) else _bad()
        return [(key, expected(below, item.type, nullable=item.nullable)) for key, below in pairs]
    if pa.types.is_list(kind):
        item = kind.value_field
        items = value if isinstance(value, list) and not isinstance(value, Pairs) else _bad()
        return [expected(below, item.type, nullable=item.nullable) for below in items]
    if pa.types.is_null(kind):
        return _bad()
    if pa.types.is_boolean(kind) or pa.types.is_string(kind):
        return value if isinstance(value, bool if pa.types.is_boolean(kind) else str) else _bad()
    number = isinstance(value, (int, Decimal)) and not isinstance(value, bool)
    if not number and not isinstance(value, str):
        return _bad()
    if pa.types.is_decimal(kind):
        return _decimal(value, kind)
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return _bad() if number else _bytes(value, kind)
    if pa.types.is_temporal(kind):
        return _whole(value, *_limits(kind)) if number else _temporal(value, kind)
    if not number:
        return _bad()
    return _whole(value, *bounds(kind)) if pa.types.is_integer(kind) else _float(value, kind)


def _bad() -> Any:
    raise BadError


def _members(pairs: Pairs, kind: pa.DataType) -> dict[str, Any]:
    fields = {field.name: field for field in kind}
    found = {
        key: expected(below, fields[key].type, nullable=fields[key].nullable) for key, below in pairs if key in fields
    }
    for name, field in fields.items():
        if name not in found:
            found[name] = None if field.nullable else _bad()
    return found


def _limits(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_time(kind):
        return 0, 86_400 * PER_SECOND[kind.unit] - 1
    return bounds(pa.int32() if pa.types.is_date32(kind) else pa.int64())


def _whole(value: int | Decimal, low: int, high: int) -> int:
    if isinstance(value, Decimal) and ((value.adjusted() > 40 and value) or value != value.to_integral_value()):
        return _bad()
    return int(value) if low <= value <= high else _bad()


def _float(value: int | Decimal, kind: pa.DataType) -> float:
    try:
        found = float(value)
        if kind == pa.float32():
            found = struct.unpack("f", struct.pack("f", found))[0]
    except OverflowError:
        return _bad()
    return found if math.isfinite(found) else _bad()


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    if isinstance(value, str) and not re.fullmatch(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", value):
        return _bad()
    number = Decimal(value)
    if number and (number.adjusted() > 80 or number.adjusted() < -80):
        return _bad()
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits)))
    shift = exponent + kind.scale
    if whole and shift < 0 and whole % 10**-shift:
        return _bad()
    unscaled = whole * 10**shift if shift >= 0 else whole // 10 ** min(-shift, 200)
    if not whole:
        unscaled = 0
    if unscaled >= 10**kind.precision:
        return _bad()
    return Decimal((sign if unscaled else 0, tuple(map(int, str(unscaled))), -kind.scale))


def _bytes(text: str, kind: pa.DataType) -> bytes:
    try:
        found = base64.b64decode(text, validate=True)
    except ValueError:
        raise UnsureError from None
    if base64.b64encode(found).decode() != text:
        raise UnsureError
    return _bad() if pa.types.is_fixed_size_binary(kind) and len(found) != kind.byte_width else found


DAY = r"(\d{4}-\d\d-\d\d)"
CLOCK = r"(\d\d:\d\d:\d\d)(?:\.(\d+))?"
ZONE = r"(?:[Zz]|([+-])(\d\d):?(\d\d))?"


def _temporal(text: str, kind: pa.DataType) -> int:
    try:
        if pa.types.is_date32(kind):
            return (date.fromisoformat(text) - date(1970, 1, 1)).days if re.fullmatch(DAY, text, re.ASCII) else _bad()
        if pa.types.is_time(kind):
            found = re.fullmatch(CLOCK + r"(?:[Zz]|[+-]00:00)?", text, re.ASCII) or _bad()
            when = datetime.fromisoformat(f"1970-01-01T{found[1]}+00:00")
            return _ticks(when, found[2], kind.unit)
        found = re.fullmatch(f"{DAY}[Tt ]{CLOCK}{ZONE}", text, re.ASCII) or _bad()
        when = datetime.fromisoformat(f"{found[1]}T{found[2]}+00:00")
        ticks = _ticks(when, found[3], kind.unit)
        if found[4] is None:
            return ticks
        hours, minutes = int(found[5]), int(found[6])
        east = (hours * 60 + minutes) * 60 if hours < 24 and minutes < 60 else _bad()
        return ticks + (-east if found[4] == "+" else east) * PER_SECOND[kind.unit]
    except ValueError:
        # Python's datetime does not support the year 0.
        if "0000" in text:
            raise UnsureError from None
        return _bad()


def _ticks(when: datetime, fraction: str | None, unit: str) -> int:
    per = PER_SECOND[unit]
    return round((when - EPOCH).total_seconds()) * per + int((fraction or "").ljust(9, "0")[:9]) // (10**9 // per)
