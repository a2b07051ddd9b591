"""Random schemas and data, compared with fastavro. SAMSARROW_AVRO_PAIRS=10000 runs the long form."""

from __future__ import annotations

import copy
import os
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Avro, decode_values

fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed")
generate = pytest.importorskip("support.avro")

PAIRS = int(os.environ.get("SAMSARROW_AVRO_PAIRS", "400"))
BLOCK = 50
ROWS = 6


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_values_match_fastavro(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = generate.Generator(seed, namesakes=True)
        schema = make.record(3)
        parsed = fastavro.parse_schema(copy.deepcopy(schema))
        values = [generate.encoded(parsed, make.value(schema)) for _ in range(ROWS)]
        got = decode_values(pa.array(values, pa.binary()), Avro(schema, framing="none"))
        got.validate(full=True)
        want = [generate.expected(generate.by_fastavro(value, parsed), schema) for value in values]
        assert got.to_pylist() == want, (seed, schema)


def resolved(value: bytes, writer: Any, reader: Any, schema: Any) -> Any:
    try:
        return generate.expected(generate.by_fastavro(value, writer, reader), schema)
    except (fastavro.read.SchemaResolutionError, ValueError, UnicodeDecodeError):
        return None


@pytest.mark.parametrize("block", range(0, PAIRS, BLOCK))
def test_schema_resolution_matches_fastavro(block: int) -> None:
    for seed in range(block, block + BLOCK):
        make = generate.Generator(seed + 1_000_000)
        schema = make.record(3)
        other = make.evolved(schema)
        # fastavro mistakes a name in the writer's schema for a name that the reader's schema uses for another type.
        writer, reader = (fastavro.parse_schema(copy.deepcopy(item)) for item in (schema, other))
        values = [generate.encoded(writer, make.value(schema)) for _ in range(ROWS)]
        framed = [b"\0\0\0\0\x05" + value for value in values]
        got = decode_values(pa.array(framed, pa.binary()), Avro(other, writers={5: schema}), on_decode_error="null")
        got.validate(full=True)
        want = [resolved(value, writer, reader, other) for value in values]
        assert got.to_pylist() == want, (seed, schema, other)
