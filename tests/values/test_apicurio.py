"""The schema registry client against Apicurio's registry, which has Confluent's API."""

from __future__ import annotations

import itertools
import json
import struct
import urllib.request
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from samsarrow import Avro, SchemaReference, SchemaRegistry, decode_values
from samsarrow.exceptions import BadValueError, RegistryError, SchemaIncompatibleError, SchemaNotFoundError
from support.apicurio import Apicurio

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
SECOND = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "city", "type": "string", "default": "Rome"}, {"name": "id", "type": "long"}],
}
BROKEN = {"type": "record", "name": "Order", "fields": [{"name": "price", "type": "double"}]}
USER = {"type": "record", "name": "app.User", "fields": [{"name": "name", "type": "string"}]}
LOGIN = {"type": "record", "name": "app.Login", "fields": [{"name": "user", "type": "app.User"}]}
# Short retry delays.
QUICK: dict[str, Any] = {"missing_id_retries_wait_ms": 10}
_numbers = itertools.count()


@pytest.fixture
def client(apicurio: Apicurio) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(apicurio.url, **QUICK) as client:
        yield client


@pytest.fixture
def topic() -> str:
    """Returns a unique topic: all tests share the registry."""
    return f"orders-{next(_numbers)}"


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + payload


def demand(apicurio: Apicurio, subject: str, level: str) -> None:
    """Sets the compatibility level of a subject; by default, Apicurio checks no compatibility."""
    body = json.dumps({"compatibility": level}).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    request = urllib.request.Request(f"{apicurio.url}/config/{subject}", body, headers, method="PUT")
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status == 200


def test_schemas_are_registered_and_found(client: SchemaRegistry, topic: str) -> None:
    subject = f"{topic}-value"
    first = client.register(subject, FIRST)
    assert client.register(subject, FIRST) == first
    second = client.register(subject, SECOND)
    assert first != second
    assert client.versions(subject) == [1, 2]
    assert subject in client.subjects()
    latest = client.schema(subject=subject)
    assert (latest.id, latest.version, latest.subject, latest.schema_type) == (second, 2, subject, "AVRO")
    assert json.loads(latest.schema) == SECOND
    assert client.schema(subject=subject, version=1).id == first
    assert json.loads(client.schema(id=first).schema) == FIRST
    # This version of Apicurio does not support GUIDs.
    assert latest.guid is None


def test_subject_names_with_any_characters(client: SchemaRegistry) -> None:
    name = "a/b c?d=ü%"
    number = client.register(name, '"long"')
    assert name in client.subjects()
    assert client.schema(subject=name).id == number


def test_missing_schemas(client: SchemaRegistry, topic: str) -> None:
    client.register(topic, FIRST)
    for asked, code in (
        ({"id": 999_999}, "40403"),
        ({"subject": topic, "version": 9}, "40402"),
        ({"subject": "nothing"}, "40401"),
    ):
        with pytest.raises(SchemaNotFoundError, match=code):
            client.schema(**asked)  # type: ignore[arg-type]
    with pytest.raises(SchemaNotFoundError, match="40401"):
        client.versions("nothing")
    with pytest.raises(SchemaNotFoundError):
        client.schema(guid="00000000-0000-0000-0000-000000000001")


def test_invalid_schema_is_rejected(client: SchemaRegistry, topic: str) -> None:
    with pytest.raises(RegistryError, match="42201") as caught:
        client.register(topic, "{")
    assert caught.value.status == 422


def test_incompatible_schema_is_rejected(apicurio: Apicurio, client: SchemaRegistry, topic: str) -> None:
    client.check(topic, BROKEN)
    client.register(topic, FIRST)
    assert client.compatibility(topic) == "NONE"
    demand(apicurio, topic, "BACKWARD")
    assert client.compatibility(topic) == "BACKWARD"
    client.check(topic, SECOND)
    for refused in (client.check, client.register):
        with pytest.raises(SchemaIncompatibleError, match="is incompatible with earlier versions"):
            refused(topic, BROKEN)
    assert client.versions(topic) == [1]
    client.register(topic, SECOND)
    demand(apicurio, topic, "NONE")
    client.check(topic, BROKEN)


def test_references_are_resolved(client: SchemaRegistry, topic: str) -> None:
    user, login, everything = f"{topic}-user", f"{topic}-login", f"{topic}-value"
    client.register(user, USER)
    refers = SchemaReference("app.User", user, 1)
    client.register(login, LOGIN, references=[refers])
    outer = ["null", "app.Login", "app.User"]
    both = [SchemaReference("app.Login", login, 1), refers]
    number = client.register(everything, outer, references=both)
    result = client.schema(id=number)
    assert set(result.references) == set(both)
    assert [json.loads(text)["name"] for text in result.needed] == ["app.User", "app.Login"]
    values = pa.array([framed(number, b"\x02\x06ann"), framed(number, b"\x04\x06bob"), framed(number, b"\x00")])
    got = decode_values(values, Avro(client), topic=topic).to_pylist()
    assert got == [{"Login": {"user": {"name": "ann"}}, "User": None}, {"Login": None, "User": {"name": "bob"}}, None]


def test_contexts_are_separate(apicurio: Apicurio, client: SchemaRegistry, topic: str) -> None:
    with SchemaRegistry(apicurio.url, context=".staging", **QUICK) as staging:
        client.register(topic, FIRST)
        number = staging.register(topic, SECOND)
        assert staging.versions(topic) == client.versions(topic) == [1]
        result = staging.schema(subject=topic)
        assert (result.id, result.subject, json.loads(result.schema)) == (number, topic, SECOND)
        assert json.loads(staging.schema(id=number).schema) == SECOND
        assert json.loads(client.schema(subject=topic).schema) == FIRST
        assert topic in staging.subjects()
        assert {topic, f":.staging:{topic}"} <= set(client.subjects())


def test_values_are_decoded_with_its_schemas(client: SchemaRegistry, topic: str) -> None:
    first, second = (client.register(f"{topic}-value", item) for item in (FIRST, SECOND))
    values = pa.array([framed(first, b"\x02"), None, framed(second, b"\x06Ulm\x04")])
    expected = [{"city": "Rome", "id": 1}, None, {"city": "Ulm", "id": 2}]
    assert decode_values(values, Avro(client), topic=topic).to_pylist() == expected
    unknown = pa.array([framed(first, b"\x02"), framed(999_999, b"\x02")])
    with pytest.raises(BadValueError, match="999999") as caught:
        decode_values(unknown, Avro(client), topic=topic)
    assert (caught.value.row, caught.value.schema_id) == (1, 999_999)
    key = client.register(f"{topic}-key", '"long"')
    assert decode_values(pa.array([framed(key, b"\x04")]), Avro(client), topic=topic, key=True).to_pylist() == [2]


def test_schemas_of_other_types(client: SchemaRegistry, topic: str) -> None:
    # Apicurio requires the type to be recognizable in the text.
    text = '{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object"}'
    for kind, schema in (("JSON", text), ("PROTOBUF", 'syntax = "proto3"; message A { int32 a = 1; }')):
        subject = f"{topic}-{kind}"
        number = client.register(subject, schema, schema_type=kind)  # type: ignore[arg-type]
        result = client.schema(id=number)
        assert (result.schema_type, result.schema) == (kind, schema)
        with pytest.raises(BadValueError, match=f"type {kind}"):
            decode_values(pa.array([framed(number, b"\x02")]), Avro(FIRST, registry=client))
