"""Random messages through google's protobuf and through us: SAMSARROW_PROTOBUF_SCHEMAS=10000 for the long form."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from samsarrow import Protobuf, decode_values

generate = pytest.importorskip("support.proto", reason="google's protobuf is not installed")

SCHEMAS = int(os.environ.get("SAMSARROW_PROTOBUF_SCHEMAS", "400"))
BLOCK = 50
ROWS = 12


@pytest.mark.parametrize("block", range(0, SCHEMAS, BLOCK))
def test_values_are_what_google_reads(block: int) -> None:
    good = 0
    for seed in range(block, block + BLOCK):
        make = generate.Generator(seed)
        values = [make.value() for _ in range(ROWS)] + [b""]
        want = [generate.read(make.type, value) for value in values]
        set_of = generate.descriptor_pb2.FileDescriptorSet(file=[make.file])
        for schema in (make.text(), set_of.SerializeToString()):
            got = decode_values(
                pa.array(values, pa.binary()), Protobuf(schema, message="p.M0", framing="none"), bad_values="null"
            )
            got.validate(full=True)
            assert [generate.actual(row, make.descriptor) for row in got.to_pylist()] == want, (seed, schema)
        good += sum(row is not None for row in want)
    assert good > BLOCK * ROWS / 2
