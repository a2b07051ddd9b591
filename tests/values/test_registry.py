"""The schema registry client against `samsarrow.testing.Registry`."""

from __future__ import annotations

import asyncio
import json
import pickle
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from samsarrow import AsyncSchemaRegistry, Avro, Json, SchemaReference, SchemaRegistry, decode_values, encode_values
from samsarrow.exceptions import (
    BadValueError,
    ClosedError,
    ConfigurationError,
    RegistryError,
    SchemaIncompatibleError,
    SchemaNotFoundError,
    TlsError,
)
from samsarrow.testing import Registry

# Short retry delays.
QUICK: dict[str, Any] = {"retries_wait_ms": 5, "retries_max_wait_ms": 20, "missing_id_retries_wait_ms": 10}
FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
SECOND = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "city", "type": "string", "default": "Rome"}, {"name": "id", "type": "long"}],
}
BROKEN = {"type": "record", "name": "Order", "fields": [{"name": "price", "type": "double"}]}
USER = {"type": "record", "name": "app.User", "fields": [{"name": "name", "type": "string"}]}
LOGIN = {"type": "record", "name": "app.Login", "fields": [{"name": "user", "type": "app.User"}]}


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest.fixture
def client(registry: Registry) -> Iterator[SchemaRegistry]:
    with SchemaRegistry(registry.url, **QUICK) as client:
        yield client


def framed(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">I", schema_id) + payload


def test_schemas_are_registered_and_found(client: SchemaRegistry) -> None:
    first = client.register("orders-value", FIRST)
    assert client.register("orders-value", json.dumps(FIRST)) == first
    second = client.register("orders-value", SECOND)
    assert (first, second) == (1, 2)
    assert client.versions("orders-value") == [1, 2]
    assert client.subjects() == ["orders-value"]
    assert client.compatibility() == client.compatibility("orders-value") == "BACKWARD"
    latest = client.schema(subject="orders-value")
    assert (latest.id, latest.version, latest.subject, latest.schema_type) == (2, 2, "orders-value", "AVRO")
    assert json.loads(latest.schema) == SECOND
    assert client.schema(subject="orders-value", version=1).id == 1
    by_id = client.schema(id=1)
    assert json.loads(by_id.schema) == FIRST
    assert (by_id.subject, by_id.version) == (None, None)
    assert isinstance(latest.guid, UUID)
    assert client.schema(guid=latest.guid).schema == client.schema(guid=str(latest.guid)).schema == latest.schema


def test_arguments_that_are_no_schemas_or_guids_are_errors(registry: Registry, client: SchemaRegistry) -> None:
    """`json.dumps` turned any value into a text, which was registered: None became `null`."""
    for schema, kind, error in [
        (None, "AVRO", "schema must be str .*, not NoneType"),
        (7, "JSON", "schema must be str .*, not int"),
        (b'"long"', "AVRO", "schema must be str .*, not bytes"),
        ({"type": "object"}, "PROTOBUF", "schema of type PROTOBUF must be text, not dict"),
    ]:
        for call in (client.register, client.lookup, client.check):
            with pytest.raises(TypeError, match=error):
                call("s", schema, schema_type=kind)  # type: ignore[arg-type, operator]
    with pytest.raises(ConfigurationError, match="schema_type must be AVRO, JSON or PROTOBUF, not 'XML'"):
        client.register("s", "<a/>", schema_type="XML")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"guid must be a UUID, such as .*, not 'seven'"):
        client.schema(guid="seven")
    with pytest.raises(TypeError, match="subject_strategy must return the subject as str, not NoneType"):
        encode_values(pa.table({"id": [1]}), Avro(client, subject_strategy=lambda *_: None), topic="t")  # type: ignore[arg-type, return-value]
    assert registry.requests() == 0


def test_subject_names_with_any_characters(client: SchemaRegistry) -> None:
    name = "a/b c?d=ü%"
    client.register(name, '"long"')
    assert client.subjects() == [name]
    assert client.schema(subject=name).schema == '"long"'


def test_ids_and_guids_are_requested_once(registry: Registry, client: SchemaRegistry) -> None:
    number = registry.register("s", '"long"')
    guid = registry.guid(number)
    for _ in range(3):
        client.schema(id=number)
        client.schema(guid=guid)
    assert registry.requests() == 2
    # A schema in the response of a subject is not requested again by id.
    other = registry.register("t", '"string"')
    client.schema(subject="t")
    client.schema(id=other)
    assert registry.requests() == 3


def test_concurrent_lookups_of_an_id_share_a_request(registry: Registry, client: SchemaRegistry) -> None:
    number = registry.register("s", '"long"')
    registry.stall()
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(client.schema, id=number) for _ in range(16)]
        until(lambda: registry.requests() > 0)
        time.sleep(0.1)
        registry.heal()
        assert {item.result(10).schema for item in asked} == {'"long"'}
    assert registry.requests() == 1


def test_missing_id_is_requested_three_times_and_cached(registry: Registry) -> None:
    with SchemaRegistry(registry.url, **QUICK, missing_id_cache_ttl_sec=1) as client:
        with pytest.raises(SchemaNotFoundError, match=r"schema id 7: http://127.*40403"):
            client.schema(id=7)
        assert registry.requests() == 3
        registry.put(7, '"long"')
        with pytest.raises(SchemaNotFoundError):
            client.schema(id=7)
        assert registry.requests() == 3
        time.sleep(1.05)
        assert client.schema(id=7).schema == '"long"'


def test_lookup_waits_for_lagging_replica(registry: Registry) -> None:
    with SchemaRegistry(registry.url, **{**QUICK, "missing_id_retries_wait_ms": 150}) as client:
        timer = threading.Timer(0.1, registry.put, (7, '"long"'))
        timer.start()
        assert client.schema(id=7).schema == '"long"'
        timer.join()
    assert registry.requests() == 2


def test_registration_clears_cached_miss(client: SchemaRegistry) -> None:
    with pytest.raises(SchemaNotFoundError):
        client.schema(id=1)
    assert client.register("s", '"long"') == 1
    assert client.schema(id=1).schema == '"long"'


def test_outage_is_not_cached_as_missing_schema(registry: Registry, client: SchemaRegistry) -> None:
    number = registry.register("s", '"long"')
    registry.down()
    with pytest.raises(RegistryError, match="the last of 4 attempts") as caught:
        client.schema(id=number)
    assert caught.value.retriable
    assert caught.value.url == f"{registry.url}/"
    assert caught.value.status is None
    assert "check that the registry runs" in str(caught.value)
    registry.up()
    assert client.schema(id=number).schema == '"long"'


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_retriable_errors_are_retried(registry: Registry, client: SchemaRegistry, status: int) -> None:
    number = registry.register("s", '"long"')
    registry.fail(status, times=3)
    assert client.schema(id=number).schema == '"long"'
    assert registry.requests() == 4
    registry.fail(status, times=None)
    with pytest.raises(RegistryError) as caught:
        client.subjects()
    assert (caught.value.status, caught.value.retriable) == (status, True)
    assert registry.requests() == 8


@pytest.mark.parametrize("status", [400, 401, 403, 422, 302])
def test_other_errors_are_raised_immediately(registry: Registry, client: SchemaRegistry, status: int) -> None:
    registry.fail(status, times=None)
    with pytest.raises(RegistryError) as caught:
        client.schema(id=1)
    assert (caught.value.status, caught.value.retriable) == (status, False)
    assert registry.requests() == 1


def test_unknown_path_is_not_a_missing_schema(registry: Registry) -> None:
    with (
        SchemaRegistry(f"{registry.url}/wrong", **QUICK) as client,
        pytest.raises(RegistryError, match="is this its url"),
    ):
        client.schema(id=1)
    assert registry.requests() == 1


def test_falls_back_to_next_url(registry: Registry) -> None:
    number = registry.register("s", '"long"')
    with Registry() as other:
        other.put(number, '"long"')
        with SchemaRegistry([other.url, registry.url], **QUICK) as client:
            other.down()
            started = time.monotonic()
            assert client.schema(id=number).schema == '"long"'
            assert time.monotonic() - started < 2
            other.up()
            # The client continues with the URL that responded last.
            client.subjects()
            assert (other.requests(), registry.requests()) == (0, 2)
            registry.fail(503, times=None)
            assert client.subjects() == []
            assert (other.requests(), registry.requests()) == (1, 3)
            other.fail(500, times=None)
            with pytest.raises(RegistryError, match="the last of 4 attempts at each of 2 urls"):
                client.subjects()


def test_stalled_registry_times_out(registry: Registry) -> None:
    registry.stall()
    with (
        SchemaRegistry(registry.url, **QUICK, max_retries=1, http_read_timeout_ms=100) as client,
        pytest.raises(RegistryError, match=r"no complete response within 100 ms \(http.read.timeout.ms\)"),
    ):
        client.schema(id=1)
    assert registry.requests() == 2


def test_close_ends_pending_requests(registry: Registry) -> None:
    registry.stall()
    client = SchemaRegistry(registry.url, **QUICK)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(client.schema, id=1)
        until(lambda: registry.requests() > 0)
        client.close()
        with pytest.raises(ClosedError):
            asked.result(5)
    client.close()
    with pytest.raises(ClosedError):
        client.subjects()


@pytest.mark.parametrize("auth", [("key", "hunter2"), "hunter2-token"], ids=["basic", "bearer"])
def test_authentication(auth: Any) -> None:
    with Registry(auth=auth) as registry:
        with SchemaRegistry(registry.url, auth=auth, **QUICK) as client:
            assert client.register("s", '"long"') == 1
            assert "hunter2" not in repr(client)
            assert "[hidden]" in repr(client)
            copy = pickle.loads(pickle.dumps(client))
            assert copy.schema(id=1).schema == '"long"'
            copy.close()
        wrong = ("key", "hunter3") if isinstance(auth, tuple) else "hunter3"
        for given in (wrong, None):
            with SchemaRegistry(registry.url, auth=given, **QUICK) as client:
                before = registry.requests()
                with pytest.raises(RegistryError, match="401") as caught:
                    client.schema(id=1)
                assert registry.requests() == before + 1
                assert "hunter" not in str(caught.value)


def test_tls_options_apply(tmp_path: Path) -> None:
    authority = pytest.importorskip("support.certificates").Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    issued = authority.issue()
    chain.write_text(issued.chain_pem)
    key.write_text(issued.key_pem)
    context.load_cert_chain(chain, key)
    with Registry(ssl_context=context) as registry:
        assert registry.url.startswith("https://")
        with SchemaRegistry(registry.url, ssl_ca_pem=authority.pem, **QUICK) as client:
            assert client.register("s", '"long"') == 1
        with SchemaRegistry(registry.url, **QUICK) as client, pytest.raises(TlsError, match="registry"):
            client.subjects()


def test_secrets_in_responses_are_masked() -> None:
    with Registry() as registry, SchemaRegistry(registry.url, auth=("key", "hunter2"), **QUICK) as client:
        registry.fail(422, body='{"error_code": 42201, "message": "key:hunter2 is wrong"}')
        with pytest.raises(RegistryError) as caught:
            client.subjects()
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"url": "localhost:8081"}, "must begin with https:// or http://"),
        ({"url": "http://me:hunter2@localhost"}, "name or password"),
        ({"url": []}, "needs a url"),
        ({"url": "http://h", "max_retry": 1}, "did you mean max.retries"),
        ({"url": "http://h", "max_retries": "many"}, "must be a whole number"),
        ({"url": "http://h", "context": "a:b"}, "context must be"),
        ({"url": "http://h", "auth": ("a:b", "hunter2")}, "colon"),
        ({"url": "http://h", "auth": "hunter2\n"}, "cannot be sent"),
        ({"url": "https://h", "ssl_ca_location": "/nowhere"}, "/nowhere"),
    ],
)
def test_invalid_options(options: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigurationError, match=expected) as caught:
        SchemaRegistry(**options)
    assert "hunter2" not in str(caught.value)


def test_incompatible_schema_error_has_reasons(registry: Registry, client: SchemaRegistry) -> None:
    client.check("orders-value", BROKEN)
    client.register("orders-value", FIRST)
    client.check("orders-value", SECOND)
    with pytest.raises(SchemaIncompatibleError, match="price") as checked:
        client.check("orders-value", BROKEN)
    with pytest.raises(SchemaIncompatibleError, match="price") as registered:
        client.register("orders-value", BROKEN)
    assert list(checked.value.reasons) == list(registered.value.reasons)
    assert len(checked.value.reasons) == 1
    registry.set_compatibility("NONE", "orders-value")
    assert client.compatibility("orders-value") == "NONE"
    client.register("orders-value", BROKEN)
    registry.judge("t", ["one", "two"])
    with pytest.raises(SchemaIncompatibleError) as judged:
        client.check("t", '"long"')
    assert judged.value.reasons == ["one", "two"]


def test_invalid_schema_is_rejected(client: SchemaRegistry) -> None:
    with pytest.raises(RegistryError, match="42201") as caught:
        client.register("s", "{")
    assert caught.value.status == 422


def test_references_are_resolved(registry: Registry, client: SchemaRegistry) -> None:
    client.register("user", USER)
    refers = [SchemaReference("app.User", "user", 1)]
    number = client.register("login-value", LOGIN, references=refers)
    outer = {"type": "array", "items": "app.Login"}
    third = client.register("all", outer, references=[SchemaReference("app.Login", "login-value", 1), *refers])
    result = client.schema(id=third)
    assert [json.loads(text)["name"] for text in result.needed] == ["app.User", "app.Login"]
    assert result.references == (SchemaReference("app.Login", "login-value", 1), *refers)
    assert client.schema(subject="login-value").needed == client.schema(id=number).needed
    # The client requests a version only once.
    assert registry.requests("GET /subjects/user/versions/1") == 1
    values = pa.array([framed(third, b"\x02\x06ann\x00")])
    assert decode_values(values, Avro(client, subject="all")).to_pylist() == [[{"user": {"name": "ann"}}]]


def test_unresolvable_references_are_data_errors(registry: Registry, client: SchemaRegistry) -> None:
    registry.put(1, '"long"', references=[("b", "b", 1)])
    registry.put(2, '"int"', references=[("a", "a", 1)])
    registry.put_version("a", 1, 1)
    registry.put_version("b", 1, 2)
    with pytest.raises(SchemaNotFoundError, match="a circle: b version 1 → a version 1 → b version 1"):
        client.schema(id=1)
    registry.put(3, '"int"', references=[("x", "nowhere", 1)])
    with pytest.raises(SchemaNotFoundError, match="subject nowhere"):
        client.schema(id=3)
    for at in range(300):
        registry.put(100 + at, '"int"', references=[("next", f"s{at + 1}", 1)] if at < 299 else [])
        registry.put_version(f"s{at}", 1, 100 + at)
    with pytest.raises(SchemaNotFoundError, match="more than 256 others"):
        client.schema(id=100)
    assert len(client.schema(id=100 + 299 - 256).needed) == 256


def test_references_to_a_deleted_subject_are_read(registry: Registry, client: SchemaRegistry) -> None:
    client.register("user", USER)
    number = client.register("login-value", LOGIN, references=[SchemaReference("app.User", "user", 1)])
    assert registry.delete("user") == [1]
    result = decode_values(pa.array([framed(number, b"\x06ann")]), Avro(client), topic="login")
    assert result.to_pylist() == [{"user": {"name": "ann"}}]
    with pytest.raises(SchemaNotFoundError):
        client.schema(subject="user", version=1)


def test_references_of_json_schemas(client: SchemaRegistry) -> None:
    client.register("person", {"type": "string"}, schema_type="JSON")
    client.register("address", {"type": "integer"}, schema_type="JSON")
    names = [SchemaReference(f"{name}.json", name, 1) for name in ("person", "address")]
    pair = {"type": "object", "properties": {"p": {"$ref": "person.json"}, "a": {"$ref": "address.json"}}}
    client.register("pair", pair, schema_type="JSON", references=names)
    whole = {"type": "array", "items": {"$ref": "pair.json"}}
    # In the other context, the name refers to a different schema.
    refers = [SchemaReference("pair.json", "pair", 1), SchemaReference("person.json", "address", 1)]
    client.register("all-value", whole, schema_type="JSON", references=refers)
    got = decode_values(pa.array([b'[{"p": "ann", "a": 7}]']), Json(client), topic="all")
    assert got.to_pylist() == [[{"p": "ann", "a": 7}]]


def test_ids_of_another_context_are_separate(registry: Registry) -> None:
    registry.put(7, '"long"')
    registry.put(7, '"string"', context=":.other:")
    registry.put(8, '["long", "U"]', context=":.other:", references=[("U", "u", 1)])
    registry.put(9, '{"type": "fixed", "name": "U", "size": 2}', context=":.other:")
    registry.put(10, '{"type": "fixed", "name": "U", "size": 3}')
    registry.put_version(":.other:s", 1, 7)
    registry.put_version(":.other:r", 1, 8)
    registry.put_version(":.other:u", 1, 9)
    registry.put_version("u", 1, 10)
    with SchemaRegistry(registry.url, **QUICK) as client:
        assert client.schema(subject=":.other:s").schema == '"string"'
        assert client.schema(id=7).schema == '"long"'
        # The client does not request the referenced subjects again either.
        assert client.schema(subject=":.other:r").needed == ('{"type": "fixed", "name": "U", "size": 2}',)
    with SchemaRegistry(registry.url, context=".other", **QUICK) as client:
        assert client.schema(subject=":.other:s").schema == client.schema(id=7).schema == '"string"'


def test_contexts(registry: Registry) -> None:
    registry.register("s", '"long"')
    registry.register(":.staging:s", '"string"')
    with SchemaRegistry(registry.url, context=".staging", **QUICK) as client:
        assert client.subjects() == ["s"]
        assert client.schema(subject="s").schema == '"string"'
        assert client.schema(subject="s").subject == "s"
        assert client.schema(id=1).schema == '"string"'
    with SchemaRegistry(registry.url, **QUICK) as client:
        assert client.subjects() == ["s"]
        assert client.schema(id=1).schema == '"long"'
        assert client.schema(subject=":.staging:s").schema == '"string"'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b" " * ((16 << 20) + 1), "more than 16777216 bytes"),
        (b"<html>", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[]", "is this its url"),
        (b'{"schema": 1}', "is this its url"),
        (b'{"schema": "x", "references": [{"name": "n"}]}', "is this its url"),
        (b"", "not JSON"),
    ],
    ids=["huge", "html", "deep", "list", "number", "reference", "empty"],
)
def test_invalid_responses(registry: Registry, client: SchemaRegistry, body: bytes, expected: str) -> None:
    registry.fail(200, times=None, body=body)
    with pytest.raises(RegistryError, match=expected) as caught:
        client.schema(id=1)
    assert not caught.value.retriable
    assert len(str(caught.value)) < 500
    assert registry.requests() == 1


def test_response_of_a_megabyte(registry: Registry, client: SchemaRegistry) -> None:
    fields = [{"name": f"f{at}", "type": "long", "doc": "x" * 900} for at in range(2000)]
    text = json.dumps({"type": "record", "name": "R", "fields": fields})
    number = registry.register("s", text)
    assert json.loads(client.schema(id=number).schema) == json.loads(text)


def test_async_client(registry: Registry) -> None:
    async def main() -> None:
        async with AsyncSchemaRegistry(registry.url, **QUICK) as client:
            number = await client.register("s", FIRST)
            result = await asyncio.gather(*(client.schema(id=number) for _ in range(8)))
            assert {item.id for item in result} == {number}
            assert await client.versions("s") == [1]
            assert await client.subjects() == ["s"]
            assert await client.compatibility() == "BACKWARD"
            with pytest.raises(SchemaIncompatibleError):
                await client.check("s", BROKEN)
            with pytest.raises(SchemaNotFoundError):
                await client.schema(id=9)
        with pytest.raises(ClosedError):
            await client.subjects()

    asyncio.run(main())
    assert registry.requests("GET /schemas/ids/1") == 1


def test_values_are_decoded_with_registered_schemas(registry: Registry, client: SchemaRegistry) -> None:
    first, second = registry.register("orders-value", FIRST), registry.register("orders-value", SECOND)
    values = pa.array([framed(first, b"\x02"), None, framed(second, b"\x06Ulm\x04"), framed(first, b"\x06")])
    orders = Avro(client)
    expected = [{"city": "Rome", "id": 1}, None, {"city": "Ulm", "id": 2}, {"city": "Rome", "id": 3}]
    assert decode_values(values, orders, topic="orders").to_pylist() == expected
    before = registry.requests()
    assert decode_values(pa.chunked_array([values, values]), orders, topic="orders").to_pylist() == expected * 2
    assert registry.requests() == before == 2
    # Decodes with an explicit reader schema, and with a selection of fields.
    mine = Avro(FIRST, registry=client)
    assert decode_values(values, mine, on_decode_error="null").to_pylist()[0] == {"id": 1}
    some = Avro(client, subject="orders-value", fields=["id"])
    assert decode_values(values, some).to_pylist() == [{"id": 1}, None, {"id": 2}, {"id": 3}]
    old = Avro(client, subject="orders-value", version=1)
    with pytest.raises(BadValueError, match="row 2"):
        decode_values(values, old)
    copy = pickle.loads(pickle.dumps(orders))
    assert decode_values(values, copy, topic="orders").to_pylist() == expected
    assert "Avro(registry=SchemaRegistry('http://127" in repr(orders)


def test_keys_have_their_own_subject(registry: Registry, client: SchemaRegistry) -> None:
    number = registry.register("orders-key", '"long"')
    got = decode_values(pa.array([framed(number, b"\x02")]), Avro(client), topic="orders", key=True)
    assert got.to_pylist() == [1]


def test_guids_in_headers(registry: Registry, client: SchemaRegistry) -> None:
    number = registry.register("s", '"long"')
    guid = UUID(registry.guid(number)).bytes
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": "__value_schema_id", "value": b"\x01" + guid}]] * 2, kind)
    got = decode_values(pa.array([b"\x02", b"\x04"]), Avro(client, subject="s"), headers=headers)
    assert got.to_pylist() == [1, 2]
    assert registry.requests("/schemas/guids/") == 1


def test_missing_schema_is_a_bad_value_until_registered(registry: Registry) -> None:
    number = registry.register("s", '"long"')
    values = pa.array([framed(number, b"\x02"), framed(77, b"\x04"), framed(number, b"\x06")])
    with SchemaRegistry(registry.url, **QUICK, missing_id_cache_ttl_sec=1) as client:
        numbers = Avro(client, subject="s")
        with pytest.raises(BadValueError, match=r"schema id 77.*40403") as caught:
            decode_values(values, numbers)
        assert (caught.value.row, caught.value.schema_id) == (1, 77)
        assert decode_values(values, numbers, on_decode_error="null").to_pylist() == [1, None, 3]
        assert registry.requests("GET /schemas/ids/77") == 3
        registry.put(77, '"long"')
        time.sleep(1.05)
        assert decode_values(values, numbers).to_pylist() == [1, 2, 3]


def test_outage_is_raised_regardless_of_on_decode_error(registry: Registry, client: SchemaRegistry) -> None:
    number = registry.register("s", '"long"')
    other = registry.register("t", '"int"')
    numbers = Avro(client, subject="s")
    known, unknown = pa.array([framed(number, b"\x02")]), pa.array([framed(other, b"\x02")])
    assert decode_values(known, numbers).to_pylist() == [1]
    registry.down()
    assert decode_values(known, numbers).to_pylist() == [1]
    with pytest.raises(RegistryError):
        decode_values(unknown, numbers, on_decode_error="null")
    registry.up()
    assert decode_values(unknown, numbers).to_pylist() == [1]


def test_unusable_schemas_make_values_bad(registry: Registry, client: SchemaRegistry) -> None:
    number = registry.register("s", '"long"')
    other = registry.register("p", 'syntax = "proto3";', schema_type="PROTOBUF")
    registry.put(50, '{"type": "recor"}')
    rules = {"domainRules": [{"name": "secret", "type": "ENCRYPT"}]}
    ruled = registry.register("ruled", '"long"', rules=rules)
    for bad, expected in [(other, "type PROTOBUF"), (50, "recor"), (ruled, "has rules")]:
        values = pa.array([framed(number, b"\x02"), framed(bad, b"\x04")])
        with pytest.raises(BadValueError, match=expected):
            decode_values(values, Avro(client, subject="s"))
    assert decode_values(values, Avro(client, subject="s", ignore_rules=True)).to_pylist() == [1, 2]
    with pytest.raises(ConfigurationError, match="type PROTOBUF"):
        decode_values(values, Avro(client, subject="p"))
    with pytest.raises(SchemaNotFoundError):
        decode_values(values, Avro(client), topic="nothing")
    with pytest.raises(ConfigurationError, match="pass schema, subject or topic"):
        decode_values(values, Avro(client))


def test_unknown_ids_are_requested_concurrently(registry: Registry) -> None:
    with SchemaRegistry(registry.url, **{**QUICK, "missing_id_retries_wait_ms": 200}) as client:
        values = pa.array([framed(1000 + at, b"\x02") for at in range(100)])
        started = time.monotonic()
        got = decode_values(values, Avro("long", registry=client), on_decode_error="null")
        assert got.null_count == 100
        assert registry.requests() == 300
        assert time.monotonic() - started < 10


def test_confluent_client_works_with_test_registry(registry: Registry, client: SchemaRegistry) -> None:
    theirs = pytest.importorskip("confluent_kafka.schema_registry", reason="confluent-kafka[schemaregistry] is missing")
    peer = theirs.SchemaRegistryClient({"url": registry.url})
    number = peer.register_schema("orders-value", theirs.Schema(json.dumps(FIRST), "AVRO"))
    assert client.register("orders-value", FIRST) == number
    assert client.register("orders-value", SECOND) == number + 1
    assert json.loads(peer.get_schema(number + 1).schema_str) == SECOND
    assert peer.get_versions("orders-value") == client.versions("orders-value")
    assert peer.get_subjects() == client.subjects()
    assert not peer.test_compatibility("orders-value", theirs.Schema(json.dumps(BROKEN), "AVRO"))
    latest = peer.get_latest_version("orders-value")
    ours = client.schema(subject="orders-value")
    assert (latest.schema_id, latest.version) == (ours.id, ours.version)
    assert peer.get_schema_by_guid(str(ours.guid)).schema_str == ours.schema
    client.register("user", USER)
    refers = [theirs.SchemaReference("app.User", "user", 1)]
    login = peer.register_schema("login", theirs.Schema(json.dumps(LOGIN), "AVRO", refers))
    assert client.schema(id=login).references == (SchemaReference("app.User", "user", 1),)
    with pytest.raises(theirs.error.SchemaRegistryError, match="40403"):
        peer.get_schema(999)


def until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)
