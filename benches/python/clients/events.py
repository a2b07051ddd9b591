"""Events of a web shop as Avro and JSON: eight fields, 53 and 133 bytes."""

import json
import struct
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa

# Different ones; a topic has them again and again.
DIFFERENT = 50_000
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Event",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": "string"},
        {"name": "event", "type": "string"},
        {"name": "page", "type": "string"},
        {"name": "session", "type": "long"},
        {"name": "price", "type": "int"},
        {"name": "currency", "type": ["null", "string"]},
        {"name": "member", "type": "boolean"},
    ],
}
TYPE = pa.struct(
    [
        ("id", pa.int64()), ("user", pa.string()), ("event", pa.string()), ("page", pa.string()),
        ("session", pa.int64()), ("price", pa.int32()), ("currency", pa.string()), ("member", pa.bool_()),
    ]
)  # fmt: skip


def rows() -> list[dict[str, Any]]:
    rng = np.random.default_rng(7)
    drawn = zip(
        *(rng.integers(0, below, DIFFERENT).tolist() for below in (10**6, 4, 5000, 1 << 40, 90_000, 3)), strict=True
    )
    return [
        {
            "id": number,
            "user": f"u{user}",
            "event": ("view", "click", "buy", "search")[event],
            "page": f"/shop/{page}",
            "session": session,
            "price": price,
            "currency": "EUR" if member else None,
            "member": member > 1,
        }
        for number, (user, event, page, session, price, member) in enumerate(drawn)
    ]


def avro(schema_id: int) -> list[bytes]:
    """In Confluent's frame."""
    schema, frame = fastavro.parse_schema(AVRO), b"\0" + struct.pack(">I", schema_id)

    def written(row: dict[str, Any]) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        return frame + out.getvalue()

    return [written(row) for row in rows()]


def texts() -> list[bytes]:
    return [json.dumps(row, separators=(",", ":")).encode() for row in rows()]


def sums(count: int) -> dict[str, int]:
    """Of the first `count` records of a topic."""
    whole, rest = divmod(count, DIFFERENT)
    every = rows()
    return {
        name: whole * sum(row[name] for row in every) + sum(row[name] for row in every[:rest])
        for name in ("id", "price")
    }
