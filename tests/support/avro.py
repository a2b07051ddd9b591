"""Random Avro schemas, values and evolved schemas, generated from a seed."""

from __future__ import annotations

import copy
import datetime
import io
import random
import string
import struct
from decimal import Decimal
from typing import Any
from uuid import UUID

import fastavro

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
NAMED = {"record", "enum", "fixed"}
PROMOTIONS = {"int": ["long", "float", "double"], "long": ["float", "double"], "float": ["double"]}


class Generator:
    """Generates schemas with unique names.

    Args:
        seed: seed of the random generator.
        namesakes: True if unions may contain types with equal short names.
        rename: True if records of `evolved` schemas move to another namespace, so that Java treats them as other types.
    """

    def __init__(self, seed: int, *, rename: bool = True, namesakes: bool = False) -> None:
        self.random = random.Random(seed)
        self.namesakes = namesakes
        self.rename = rename
        self.names = 0

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{self.random.choice(['', 'a.', 'b.c.'])}{kind}{self.names}"

    def record(self, depth: int) -> dict[str, Any]:
        fields = [{"name": f"f{i}", "type": self.any(depth)} for i in range(self.random.randint(1, 6))]
        return {"type": "record", "name": self.name("R"), "fields": fields}

    def any(self, depth: int, *, union: bool = True) -> Any:
        kinds = ["primitive"] * 4 + ["logical", "fixed", "enum"]
        if depth:
            kinds += ["array", "map", "record"] + ["optional", "union"] * union
        match self.random.choice(kinds):
            case "primitive":
                return self.random.choice(PRIMITIVES)
            case "logical":
                return self.logical()
            case "fixed":
                return {"type": "fixed", "name": self.name("F"), "size": self.random.randint(1, 20)}
            case "enum":
                symbols = self.random.sample(string.ascii_uppercase, self.random.randint(1, 5))
                return {"type": "enum", "name": self.name("E"), "symbols": symbols}
            case "array":
                return {"type": "array", "items": self.any(depth - 1)}
            case "map":
                return {"type": "map", "values": self.any(depth - 1)}
            case "record":
                return self.record(depth - 1)
            case "optional":
                one = self.value_type(depth - 1)
                return self.random.choice([["null", one], [one, "null"]])
            case _:
                return self.union(depth - 1)

    def value_type(self, depth: int) -> Any:
        """Returns any schema except null and unions."""
        while (one := self.any(depth, union=False)) == "null":
            pass
        return one

    def union(self, depth: int) -> list[Any]:
        # The branches are chosen so that fastavro selects the right one by the Python type, and so that no branch can
        # be promoted to another: fastavro reads into the first branch to which the written type can be promoted, but
        # samsarrow and Java prefer the branch of the same type.
        pick = self.random.choice
        branches = ["null", "boolean", pick(["long", "double"]), pick(["string", "bytes"])]
        branches.append({"type": "array", "items": "int"})
        if depth:
            branches.append(self.record(depth - 1))
        if self.namesakes and self.random.random() < 0.5:
            self.names += 1
            # If a value does not name its record, fastavro uses the first record with the same fields.
            fields = [{"name": "x", "type": "int"}]
            same = [f"same{self.names}.{at}.Same" for at in ("v1", "v2", "v3")]
            branches = [b for b in branches if b in PRIMITIVES]
            return [*branches, *({"type": "record", "name": one, "fields": fields} for one in same)]
        return self.random.sample(branches, self.random.randint(2, 4))

    def logical(self) -> dict[str, Any]:
        precision = self.random.choice([1, 9, 38, 39, 60, 76])
        decimal = {"logicalType": "decimal", "precision": precision, "scale": self.random.randint(0, precision)}
        return self.random.choice(
            [
                {"type": "int", "logicalType": "date"},
                {"type": "int", "logicalType": "time-millis"},
                {"type": "long", "logicalType": "time-micros"},
                {"type": "long", "logicalType": "timestamp-millis"},
                {"type": "long", "logicalType": "timestamp-micros"},
                {"type": "long", "logicalType": "local-timestamp-micros"},
                {"type": "string", "logicalType": "uuid"},
                {"type": "bytes", **decimal},
                {"type": "fixed", "name": self.name("D"), "size": 40, **decimal},
            ]
        )

    def value(self, schema: Any) -> Any:
        """Returns a value of the schema in a form that fastavro can encode."""
        pick = self.random
        if isinstance(schema, list):
            chosen = pick.choice(schema)
            value = self.value(chosen)
            return (chosen["name"], value) if is_namesake(chosen) else value
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(schema, dict) and "logicalType" in schema:
            return self.logical_value(schema)
        match kind:
            case "null":
                return None
            case "boolean":
                return pick.random() < 0.5
            case "int":
                return pick.randint(-(2**31), 2**31 - 1) >> pick.randint(0, 31)
            case "long":
                return pick.randint(-(2**63), 2**63 - 1) >> pick.randint(0, 63)
            case "float":
                return float(pick.randint(-(2**20), 2**20)) / 8
            case "double":
                return pick.uniform(-1e9, 1e9)
            case "bytes":
                return pick.randbytes(pick.randint(0, 40))
            case "string":
                return "".join(pick.choices("aé語🙂 xyz", k=pick.randint(0, 40)))
            case "fixed":
                return pick.randbytes(schema["size"])
            case "enum":
                return pick.choice(schema["symbols"])
            case "array":
                return [self.value(schema["items"]) for _ in range(pick.randint(0, 4))]
            case "map":
                return {f"k{i}": self.value(schema["values"]) for i in range(pick.randint(0, 4))}
            case _:
                return {field["name"]: self.value(field["type"]) for field in schema["fields"]}

    def logical_value(self, schema: Any) -> Any:
        pick = self.random
        match schema["logicalType"]:
            case "date":
                return datetime.date(1970, 1, 1) + datetime.timedelta(days=pick.randint(-700_000, 2_000_000))
            case "time-millis":
                return datetime.time(pick.randint(0, 23), 7, 59, pick.randint(0, 999) * 1000)
            case "time-micros":
                return datetime.time(pick.randint(0, 23), 7, 59, pick.randint(0, 999_999))
            case "timestamp-millis":
                return EPOCH + datetime.timedelta(milliseconds=pick.randint(-(10**13), 10**14))
            case "timestamp-micros":
                return EPOCH + datetime.timedelta(microseconds=pick.randint(-(10**16), 10**17))
            case "local-timestamp-micros":
                return EPOCH.replace(tzinfo=None) + datetime.timedelta(microseconds=pick.randint(0, 10**17))
            case "uuid":
                return str(UUID(int=pick.getrandbits(128)))
            case _:
                digits = "".join(pick.choices(string.digits, k=pick.randint(1, schema["precision"])))
                sign = pick.randint(0, 1)
                return Decimal((sign, tuple(map(int, digits)), -schema["scale"]))

    def evolved(self, schema: Any) -> Any:
        """Returns an evolved schema. Most values written with `schema` can be read with it, but some may be out of its
        range.
        """
        pick = self.random
        if isinstance(schema, list):
            return [self.evolved(branch) if isinstance(branch, dict) else branch for branch in schema]
        if isinstance(schema, str):
            if schema in PROMOTIONS and pick.random() < 0.4:
                return pick.choice(PROMOTIONS[schema])
            if schema != "null" and pick.random() < 0.15:
                return ["null", schema]
            return schema
        schema = copy.deepcopy(schema)
        match schema["type"]:
            case "array":
                schema["items"] = self.evolved(schema["items"])
            case "map":
                schema["values"] = self.evolved(schema["values"])
            case "enum":
                if pick.random() < 0.5:
                    schema["symbols"] = [*pick.sample(schema["symbols"], len(schema["symbols"])), "LATER"]
                    schema["symbols"].remove(schema["symbols"][0])
                    schema["default"] = "LATER"
            case "record":
                if self.rename:
                    schema["name"] = f"other.{schema['name'].rpartition('.')[2]}"
                fields = [{**field, "type": self.evolved(field["type"])} for field in schema["fields"]]
                fields = [field for field in fields if pick.random() < 0.8]
                for field in fields:
                    if pick.random() < 0.3:
                        field["aliases"] = [field["name"]]
                        field["name"] = f"{field['name']}_renamed"
                if pick.random() < 0.5:
                    fields += [
                        {"name": "added", "type": "int", "default": 7},
                        {"name": "added_list", "type": {"type": "array", "items": "string"}, "default": ["x"]},
                        {"name": "added_optional", "type": ["null", "string"], "default": None},
                    ]
                pick.shuffle(fields)
                schema["fields"] = fields
        return schema


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, value)
    return out.getvalue()


def by_fastavro(value: bytes, writer: Any, reader: Any = None) -> Any:
    # If the reader's schema differs from the writer's and refers to a type by name, fastavro cannot return record
    # names.
    return fastavro.schemaless_reader(io.BytesIO(value), writer, reader, return_record_name=reader is None)


def is_namesake(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("name", "").endswith(".Same")


def expected(value: Any, schema: Any) -> Any:
    """Converts a value that fastavro decoded to the form that pyarrow columns return."""
    if isinstance(schema, list):
        members = [branch for branch in schema if branch != "null"]
        # For a record in a union, fastavro returns a tuple with the name of the record.
        named, value = value if isinstance(value, tuple) else ("", value)
        if value is None or not members:
            return None
        if len(members) == 1:
            return expected(value, members[0])
        chosen = next(
            branch for branch in members if (branch["name"] == named if is_namesake(branch) else is_of(value, branch))
        )
        names = [branch["name"] if is_namesake(branch) else name(branch) for branch in members]
        return {
            key: expected(value, chosen) if branch is chosen else None
            for key, branch in zip(names, members, strict=True)
        }
    if isinstance(schema, str):
        # Python floats have double precision.
        return struct.unpack("f", struct.pack("f", value))[0] if schema == "float" else value
    match schema["type"]:
        case "array":
            return [expected(item, schema["items"]) for item in value]
        case "map":
            return [(key, expected(item, schema["values"])) for key, item in value.items()]
        case "record":
            return {field["name"]: expected(value[field["name"]], field["type"]) for field in schema["fields"]}
    return str(value) if isinstance(value, UUID) else value


def is_of(value: Any, schema: Any) -> bool:
    kind = schema if isinstance(schema, str) else schema["type"]
    kinds = {
        "boolean": bool,
        "long": int,
        "double": float,
        "string": str,
        "bytes": bytes,
        "array": list,
        "record": dict,
    }
    return type(value) is kinds[kind]


def name(schema: Any) -> str:
    if isinstance(schema, str):
        return schema
    return schema["name"].rpartition(".")[2] if schema["type"] in NAMED else schema["type"]
