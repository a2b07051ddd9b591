"""Values of Java's Avro and of Apicurio's serializers, and schema resolution. Expected results are those of Java's
readers.
"""

from __future__ import annotations

import copy
import json
import os
import random
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Avro, Json, Protobuf, SchemaRegistry, decode_values, encode_values
from samsarrow.exceptions import BadValueError
from support.apicurio import Apicurio
from support.serdes import JavaSerdes, shown

fastavro = pytest.importorskip("fastavro", reason="fastavro is not installed")
descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="google's protobuf is not installed")
generate = pytest.importorskip("support.avro")
protos = pytest.importorskip("support.proto")
CHANGES = pytest.importorskip("support.changes").CHANGES

SCHEMAS = int(os.environ.get("SAMSARROW_AVRO_PAIRS", "60"))
ROWS = 6
# Number of schemas that are registered with Apicurio.
FILES = SCHEMAS // 3
JSON_FRAMES = [("apicurio8", "false", "false"), ("confluent", "true", "false"), ("none", "false", "true")]
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def encoded(schema: Any, values: list[Any]) -> list[bytes]:
    parsed = fastavro.parse_schema(copy.deepcopy(schema))
    return [generate.encoded(parsed, value) for value in values]


def rows(values: list[bytes], form: Avro, schema: Any, **more: Any) -> list[Any]:
    """Returns decoded rows in the form in which the Java program returns them, with None for a bad value."""
    got = decode_values(pa.array(values, pa.binary()), form, on_decode_error="null", **more)
    got.validate(full=True)
    return [None if row is None else shown(row, schema) for row in got.to_pylist()]


def read(java: JavaSerdes, values: list[bytes], writer: Any, reader: Any) -> list[Any]:
    """Returns the values in the form in which Java reads them, with None for values that it cannot read."""
    answer = java.read(values, writer, reader)
    assert isinstance(answer, list), (answer, writer, reader)
    return [item.get("ok") for item in answer]


def test_values_written_by_java(serdes: JavaSerdes) -> None:
    blocks = 0
    for seed in range(SCHEMAS):
        make = generate.Generator(seed + 2_000_000)
        schema = make.record(3)
        written = serdes.write(schema, encoded(schema, [make.value(schema) for _ in range(ROWS)]))
        expected = read(serdes, written["plain"], schema, schema)
        assert None not in expected
        bare = Avro(schema, framing="none")
        assert rows(written["plain"], bare, schema) == expected, (seed, schema)
        assert rows(written["blocked"], bare, schema) == expected, (seed, schema)
        prints = Avro(schema, writers=[schema], framing="single-object")
        assert rows(written["single"], prints, schema) == expected, (seed, schema)
        blocks += written["blocked"] != written["plain"]
    assert blocks > SCHEMAS / 3


def test_schema_resolution_matches_java(serdes: JavaSerdes) -> None:
    read_by_both = 0
    for seed in range(SCHEMAS):
        make = generate.Generator(seed + 3_000_000, rename=False)
        schema = make.record(3)
        other = make.evolved(schema)
        values = encoded(schema, [make.value(schema) for _ in range(ROWS)])
        expected = read(serdes, values, schema, other)
        form = Avro(other, writers={1: schema})
        assert rows([b"\0\0\0\0\1" + value for value in values], form, other) == expected, (seed, schema, other)
        read_by_both += sum(row is not None for row in expected)
    assert read_by_both > SCHEMAS * ROWS * 0.8


def test_each_schema_change_matches_java(serdes: JavaSerdes) -> None:
    for name, (writer, reader, values) in CHANGES.items():
        of_writer = encoded(writer, values)
        expected = read(serdes, of_writer, writer, reader)
        assert None not in expected, name
        framed = [b"\0\0\0\0\1" + value for value in of_writer]
        assert rows(framed, Avro(reader, writers={1: writer}), reader) == expected, name


def test_apicurio_ids_of_four_and_eight_bytes(serdes: JavaSerdes, apicurio: Apicurio) -> None:
    """Only ids of contents are readable, because Confluent's API does not know other ids."""
    make = generate.Generator(7)
    with SchemaRegistry(apicurio.url) as registry:
        for number, (framing, size, legacy) in enumerate((("confluent", 5, "true"), ("apicurio8", 9, "false"))):
            schema = make.record(2)
            values = encoded(schema, [make.value(schema) for _ in range(ROWS)])
            topic = f"apicurio-{number}"
            config = {"use_id": "contentId", "as_confluent": legacy, "headers__enabled": "false"}
            sent, expected = serdes.serialize(apicurio, topic, schema, values, **config)
            assert {value[0] for value, _ in sent} == {0}
            actual = registry.schema(subject=f"{topic}-value")
            assert actual.id is not None
            assert {value[1:size] for value, _ in sent} == {actual.id.to_bytes(size - 1)}
            form = Avro(registry, framing=framing)  # type: ignore[arg-type]
            assert rows([value for value, _ in sent], form, schema, topic=topic) == expected


def test_apicurio_ids_in_headers(serdes: JavaSerdes, apicurio: Apicurio) -> None:
    """Ids of contents are readable. Global ids are not, because Confluent's API does not know them."""
    make = generate.Generator(8)
    schema = make.record(2)
    values = encoded(schema, [make.value(schema) for _ in range(ROWS)])
    for kind in ("contentId", "globalId"):
        topic = f"apicurio-headers-{kind}"
        sent, expected = serdes.serialize(apicurio, topic, schema, values, use_id=kind, headers__enabled="true")
        assert {f"apicurio.value.{kind}"} <= set.intersection(*(set(headers) for _, headers in sent))
        alone = [value for value, _ in sent]
        assert rows(alone, Avro(schema, framing="none"), schema) == expected
        column = pa.array([[{"key": key, "value": of} for key, of in headers.items()] for _, headers in sent], HEADERS)
        with SchemaRegistry(apicurio.url) as registry:
            if kind == "contentId":
                for framing in ("auto", "header"):
                    form = Avro(registry, framing=framing)  # type: ignore[arg-type]
                    assert rows(alone, form, schema, topic=topic, headers=column) == expected
            else:
                with pytest.raises(BadValueError, match=r"the header apicurio\.value\.globalId names the schema"):
                    decode_values(
                        pa.array(alone, pa.binary()), Avro(registry, framing="header"), headers=column, topic=topic
                    )


def test_apicurio_json(serdes: JavaSerdes, apicurio: Apicurio) -> None:
    """Decodes ids of eight bytes, of four bytes, and in a header. Apicurio's deserializer reads our values."""
    schema = pa.struct([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])
    tags = {"type": "array", "items": {"type": "string"}}
    properties = {"id": {"type": "integer"}, "name": {"type": "string"}, "tags": tags}
    text = json.dumps(
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": properties}
    )
    expected = [{"id": 2**53 + number, "name": "Zoë \u2028", "tags": ["a"] * number} for number in range(ROWS)]
    texts = [json.dumps(row).encode() for row in expected]
    with SchemaRegistry(apicurio.url) as registry:
        for framing, legacy, headers in JSON_FRAMES:
            topic = f"apicurio-json-{framing}"
            registered = registry.register(f"{topic}-value", text, schema_type="JSON")
            config = {"use_id": "contentId", "as_confluent": legacy, "headers__enabled": headers, "find_latest": "true"}
            sent, read = serdes.json(apicurio, topic, texts, **config)
            assert [json.loads(item) for item in read] == expected
            values = pa.array([value for value, _ in sent], pa.binary())
            form = Json(registry, framing=framing)  # type: ignore[arg-type]
            assert decode_values(values, form, topic=topic).to_pylist() == expected
            if headers == "true":
                assert all(value.startswith(b"{") for value, _ in sent)
                assert sent[0][1]["apicurio.value.contentId"] == registered.to_bytes(8)
                continue
            written = encode_values(pa.array(expected, schema), form, topic=topic)
            assert {item[: item.index(b"{")] for item in written.to_pylist()} == {sent[0][0][: sent[0][0].index(b"{")]}
            again = serdes.deserialize(apicurio, topic, "json", written.to_pylist(), **config)
            assert [json.loads(item) for item in again] == expected


def json_type(some: random.Random, depth: int) -> dict[str, Any]:
    """Returns a random type of JSON Schema."""
    kind = some.choice(["integer", "number", "string", "boolean", *["array", "object", "object"] * (depth > 0)])
    made: dict[str, Any] = {"type": [kind, "null"] if some.random() < 0.4 else kind}
    if kind == "array":
        made["items"] = json_type(some, depth - 1)
    if kind == "object":
        names = some.sample(["id", "a name of more than sixteen bytes", "ä", "x.y", "$z", 'q"uote'], 3)
        made["properties"] = {name: json_type(some, depth - 1) for name in names}
        made["required"] = [name for name in names if some.random() < 0.5]
    return made


def json_value(some: random.Random, schema: dict[str, Any]) -> Any:
    """Returns a random value of the type, in which optional members may be missing."""
    kind, nullable = schema["type"], isinstance(schema["type"], list)
    if nullable and some.random() < 0.2:
        return None
    match kind[0] if nullable else kind:
        case "integer":
            return some.choice([0, -1, 2**53 + 1, -(2**63), 2**63 - 1])
        case "number":
            return some.choice([0.1, -2.5, 1e300, 5e-324, float(some.randrange(10**6))])
        case "string":
            return some.choice(["", "plain", "Zoë \u2028", 'q"\\/', "😀 and a text of more than sixteen bytes"])
        case "boolean":
            return some.random() < 0.5
        case "array":
            return [json_value(some, schema["items"]) for _ in range(some.randrange(4))]
    named = schema["properties"].items()
    return {n: json_value(some, of) for n, of in named if n in schema["required"] or some.random() < 0.8}


def whole(value: Any, schema: dict[str, Any]) -> Any:
    """Replaces missing members by null."""
    if isinstance(value, list):
        return [whole(item, schema["items"]) for item in value]
    if isinstance(value, dict):
        return {name: whole(value.get(name), of) for name, of in schema["properties"].items()}
    return value


def test_apicurio_random_json_round_trip(serdes: JavaSerdes, apicurio: Apicurio) -> None:
    """Apicurio's serializer validates each text against the schema."""
    config = {"use_id": "contentId", "as_confluent": "false", "headers__enabled": "false", "find_latest": "true"}
    with SchemaRegistry(apicurio.url) as registry:
        for seed in range(FILES):
            some, topic = random.Random(seed), f"apicurio-random-json-{seed}"
            schema = {"type": "object", "properties": {"first": json_type(some, 3), "second": json_type(some, 2)}}
            schema |= {"required": ["first"], "$schema": "http://json-schema.org/draft-07/schema#"}
            registry.register(f"{topic}-value", json.dumps(schema), schema_type="JSON")
            rows = [json_value(some, schema) for _ in range(ROWS)]
            sent, _ = serdes.json(apicurio, topic, [json.dumps(row).encode() for row in rows], **config)
            expected = [whole(row, schema) for row in rows]
            form = Json(registry, framing="apicurio8")
            got = decode_values(pa.array([value for value, _ in sent], pa.binary()), form, topic=topic)
            assert got.to_pylist() == expected, (seed, schema)
            written = encode_values(got, form, topic=topic).to_pylist()
            again = serdes.deserialize(apicurio, topic, "json", written, **config)
            assert [whole(json.loads(item), schema) for item in again] == expected, (seed, schema)


def test_apicurio_random_protobuf_round_trip(serdes: JavaSerdes, apicurio: Apicurio) -> None:
    """Builds our schema from descriptors; the text that Apicurio 2.6.13 derives from them lacks maps and `optional`.

    For the same reason, what Apicurio reads from our values is compared with what it reads from its own values.
    """
    config = {"use_id": "contentId", "headers__enabled": "false"}
    count = 0
    for seed in range(FILES):
        make, topic = protos.Generator(seed, plain=True), f"apicurio-random-protobuf-{seed}"
        values = [value for value in (make.value() for _ in range(ROWS)) if protos.read(make.type, value) is not None]
        expected = [protos.read(make.type, value) for value in values]
        sent, read = serdes.protobuf(apicurio, topic, make.file.SerializeToString(), "M0", values, **config)
        form = Protobuf(make.file_set(), message="p.M0", framing="apicurio8")
        got = decode_values(pa.array([value for value, _ in sent], pa.binary()), form, topic=topic)
        assert [protos.actual(row, make.descriptor) for row in got.to_pylist()] == expected, seed
        ours = encode_values(got, Protobuf(make.file_set(), message="p.M0", framing="none")).to_pylist()
        # A frame has the magic byte, the id, and the message's name after its length.
        frames = [value[: 10 + value[9]] for value, _ in sent]
        ours = [frame + value for frame, value in zip(frames, ours, strict=True)]
        again = serdes.deserialize(apicurio, topic, "protobuf", ours, **config)
        assert [protos.read(make.type, item) for item in again] == [protos.read(make.type, item) for item in read], seed
        count += len(expected)
    assert count > FILES * ROWS / 2


def test_apicurio_protobuf(serdes: JavaSerdes, apicurio: Apicurio) -> None:
    """Messages that are not the first in the file, with names of even and odd length."""
    file = descriptor_pb2.FileDescriptorProto(name="orders.proto", package="p", syntax="proto3")
    for name in ("First", "Order", "Refund"):
        message = file.message_type.add(name=name)
        message.field.add(name="id", number=1, type=3, label=1)
        message.field.add(name="city", number=2, type=9, label=1)
    described = descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString()
    orders = [{"id": number - 2, "city": "Zoë" * number} for number in range(ROWS)]
    config = {"use_id": "contentId", "headers__enabled": "false"}
    with SchemaRegistry(apicurio.url) as registry:
        for message in ("First", "Order", "Refund"):
            topic = f"apicurio-protobuf-{message}"
            plain = Protobuf(described, message=message, framing="none")
            column = pa.array(orders, pa.struct([("id", pa.int64()), ("city", pa.string())]))
            messages = encode_values(column, plain).to_pylist()
            sent, read = serdes.protobuf(apicurio, topic, file.SerializeToString(), message, messages, **config)
            assert read == messages
            values = pa.array([value for value, _ in sent], pa.binary())
            form = Protobuf(registry, message=message, framing="apicurio8")
            assert decode_values(values, form, topic=topic).to_pylist() == orders
            written = encode_values(column, form, topic=topic)
            assert written.to_pylist() == values.to_pylist()
            assert serdes.deserialize(apicurio, topic, "protobuf", written.to_pylist(), **config) == messages
            other = Protobuf(registry, message="First" if message == "Order" else "Order", framing="apicurio8")
            with pytest.raises(BadValueError, match=f"it is a p.{message}, and p"):
                decode_values(values, other, topic=topic)
            # With ids of four bytes, Apicurio also writes the name. Confluent's framing has message indexes there.
            legacy, _ = serdes.protobuf(
                apicurio, topic, file.SerializeToString(), message, messages, as_confluent="true", **config
            )
            assert {len(long) - len(short) for (long, _), (short, _) in zip(sent, legacy, strict=True)} == {4}
            short = pa.array([value for value, _ in legacy], pa.binary())
            for framing in ("auto", "confluent"):
                indexed = Protobuf(registry, message=message, framing=framing)  # type: ignore[arg-type]
                assert decode_values(short, indexed, topic=topic, on_decode_error="null").null_count == ROWS
                with pytest.raises(BadValueError, match="index"):
                    decode_values(short, indexed, topic=topic)
