"""Events of a web shop as Avro, JSON and Protobuf: eight fields; 46, 137 and 52 bytes including their framing."""

import base64
import json
import struct
from io import BytesIO
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from samsarrow.registry import SchemaType

# Number of distinct events; a topic repeats them.
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
JSON: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "user": {"type": "string"},
        "event": {"type": "string"},
        "page": {"type": "string"},
        "session": {"type": "integer"},
        "price": {"type": "integer", "connect.type": "int32"},
        "currency": {"type": ["null", "string"]},
        "member": {"type": "boolean"},
    },
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


def framed(form: str, schema_id: int) -> list[bytes]:
    """Returns serialized events in Confluent's framing."""
    frame = b"\0" + struct.pack(">I", schema_id)
    if form == "json":
        return [frame + json.dumps(row, separators=(",", ":")).encode() for row in rows()]
    if form == "protobuf":
        message = message_class()
        # The byte after the frame is the array of message indexes; 0 stands for the first message of the file.
        return [frame + b"\0" + message(**row).SerializeToString() for row in rows()]
    schema = fastavro.parse_schema(AVRO)

    def written(row: dict[str, Any]) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        return frame + out.getvalue()

    return [written(row) for row in rows()]


def message_class() -> Any:
    """Returns the class that `protoc` would generate."""
    pool = DescriptorPool()
    pool.Add(_file())
    return GetMessageClass(pool.FindMessageTypeByName("Event"))


def _file() -> FileDescriptorProto:
    kinds = {"id": 3, "user": 9, "event": 9, "page": 9, "session": 3, "price": 5, "currency": 9, "member": 8}
    file = FileDescriptorProto(name="event.proto", syntax="proto3")
    message = file.message_type.add(name="Event")
    for number, (name, kind) in enumerate(kinds.items(), 1):
        message.field.add(name=name, number=number, type=kind, label=1)
    message.oneof_decl.add(name="_currency")
    message.field[6].proto3_optional, message.field[6].oneof_index = True, 0
    return file


def _descriptor() -> str:
    """Returns the serialized schema, in the form in which confluent-kafka expects it from the registry."""
    return base64.b64encode(_file().SerializeToString()).decode()


def sums(count: int) -> dict[str, int]:
    """Returns the sums of ids and prices in the first `count` records of a topic."""
    whole, rest = divmod(count, DIFFERENT)
    every = rows()
    return {
        name: whole * sum(row[name] for row in every) + sum(row[name] for row in every[:rest])
        for name in ("id", "price")
    }


SCHEMAS: dict[str, tuple[Any, SchemaType]] = {
    "avro": (AVRO, "AVRO"), "json": (JSON, "JSON"), "protobuf": (_descriptor(), "PROTOBUF"),
}  # fmt: skip
