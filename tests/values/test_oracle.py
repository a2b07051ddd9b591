"""Random schemas and data through fastavro and through us: SAMSARROW_AVRO_PAIRS=10000 for the long form."""

from __future__ import annotations

import copy
import os
import struct
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from samsarrow import Avro, decode_values

fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed")
generate = pytest.importorskip("support.avro")

PAIRS = int(os.environ.get("SAMSARROW_AVRO_PAIRS", "400"))
BLOCK = 50
ROWS = 6
NAMED = {"record", "enum", "fixed"}


def expected(value: Any, schema: Any) -> Any:
    """What fastavro read, as pyarrow gives our column."""
    if isinstance(schema, list):
        members = [branch for branch in schema if branch != "null"]
        if value is None or not members:
            return None
        if len(members) == 1:
            return expected(value, members[0])
        chosen = next(branch for branch in members if is_of(value, branch))
        names = [name(branch) for branch in members]
        return {
            key: expected(value, chosen) if branch is chosen else None
            for key, branch in zip(names, members, strict=True)
        }
    if isinstance(schema, str):
        # Python's numbers are doubles.
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


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_values_are_what_fastavro_reads(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = generate.Generator(seed)
        schema = make.record(3)
        parsed = fastavro.parse_schema(copy.deepcopy(schema))
        values = [generate.encoded(parsed, make.value(schema)) for _ in range(ROWS)]
        got = decode_values(pa.array(values, pa.binary()), Avro(schema, framing="none"))
        got.validate(full=True)
        want = [expected(generate.by_fastavro(value, parsed), schema) for value in values]
        assert got.to_pylist() == want, (seed, schema)


def resolved(value: bytes, writer: Any, reader: Any, schema: Any) -> Any:
    try:
        return expected(generate.by_fastavro(value, writer, reader), schema)
    except (fastavro.read.SchemaResolutionError, ValueError, UnicodeDecodeError):
        return None


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_other_schemas_read_what_fastavro_reads(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = generate.Generator(seed + 1_000_000)
        schema = make.record(3)
        other = make.evolved(schema)
        # fastavro takes a writer's name that the reader's has elsewhere for the reader's.
        writer, reader = (fastavro.parse_schema(copy.deepcopy(one)) for one in (schema, other))
        values = [generate.encoded(writer, make.value(schema)) for _ in range(ROWS)]
        framed = [b"\0\0\0\0\x05" + value for value in values]
        got = decode_values(pa.array(framed, pa.binary()), Avro(other, writers={5: schema}), bad_values="null")
        got.validate(full=True)
        want = [resolved(value, writer, reader, other) for value in values]
        assert got.to_pylist() == want, (seed, schema, other)
