"""Values with schemas in AWS Glue Schema Registry, on moto's server, and against the serializers of AWS."""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from uuid import UUID

import pyarrow as pa
import pytest

from samsarrow import (
    AsyncConsumer,
    AsyncGlueSchemaRegistry,
    Avro,
    Consumer,
    GlueSchemaRegistry,
    Json,
    Producer,
    Protobuf,
    SchemaRegistry,
    decode_values,
    encode_values,
)
from samsarrow.exceptions import (
    AuthenticationError,
    BadValueError,
    ClosedError,
    ConfigurationError,
    RegistryError,
    SchemaIncompatibleError,
    SchemaNotFoundError,
)
from samsarrow.testing import Broker
from support.glue import GlueSerdes, Moto

QUICK: dict[str, Any] = {"retries_wait_ms": 5, "retries_max_wait_ms": 20, "missing_id_retries_wait_ms": 10}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}],
}
ROWS = pa.table({"id": [1, 2], "city": ["Rome", "Oslo"]})
FRAME = 18


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")
    for name in ("AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    with Moto() as moto:
        yield moto


@pytest.fixture
def client(moto: Moto) -> Iterator[GlueSchemaRegistry]:
    with GlueSchemaRegistry(endpoint_url=moto.url, **QUICK) as client:
        yield client


@pytest.fixture(scope="module")
def java(moto: Moto) -> Iterator[GlueSerdes]:
    with GlueSerdes(moto.url) as java:
        yield java


def test_registers_and_looks_up_schemas(client: GlueSchemaRegistry) -> None:
    first = client.register("registered", ORDER)
    assert client.register("registered", ORDER) == first == client.lookup("registered", ORDER)
    grown = {**ORDER, "fields": [*ORDER["fields"], {"name": "paid", "type": "boolean", "default": False}]}
    second = client.register("registered", grown)
    assert second != first
    for found in (client.schema(uuid=first), client.schema(name="registered", version=1)):
        assert (json.loads(found.schema), found.guid, found.version) == (ORDER, first, 1)
        assert (found.id, found.subject, found.schema_type) == (None, "registered", "AVRO")
    assert client.schema(name="registered").guid == second
    assert client.compatibility("registered") == "BACKWARD"
    with pytest.raises(SchemaNotFoundError, match="a version of schema missing"):
        client.lookup("missing", ORDER)
    with pytest.raises(SchemaNotFoundError, match="schema missing"):
        client.schema(name="missing")
    with pytest.raises(SchemaNotFoundError, match=str(UUID(int=7))):
        client.schema(uuid=UUID(int=7))


def test_asynchronous_client_has_the_same_calls(moto: Moto) -> None:
    async def run() -> None:
        async with AsyncGlueSchemaRegistry(endpoint_url=moto.url, **QUICK) as client:
            uuid = await client.register("asynchronous", ORDER)
            assert await client.lookup("asynchronous", ORDER) == uuid
            by_uuid, by_name = await asyncio.gather(client.schema(uuid=uuid), client.schema(name="asynchronous"))
            assert by_uuid.guid == by_name.guid == uuid
            assert await client.compatibility("asynchronous") == "BACKWARD"
            assert (
                repr(client) == f"AsyncGlueSchemaRegistry(registry_name='default-registry', endpoint_url='{moto.url}')"
            )
            with pytest.raises(TypeError, match="exactly one of uuid and name, not none"):
                await client.schema()
            with pytest.raises(SchemaNotFoundError, match="schema missing"):
                await client.schema(name="missing")
        assert client.closed
        with pytest.raises(ClosedError):
            await client.versions("asynchronous")

    asyncio.run(run())


@pytest.mark.parametrize("form", ["avro", "json", "protobuf"])
def test_values_round_trip(client: GlueSchemaRegistry, form: str) -> None:
    made: Any = {
        "avro": lambda **more: Avro(client, **more),
        "json": lambda **more: Json(client, **more),
        "protobuf": lambda **more: Protobuf(client, **more),
    }[form]
    schemas: dict[str, Any] = {
        "avro": ORDER,
        "json": {"type": "object", "properties": {"id": {"type": "integer"}, "city": {"type": "string"}}},
        "protobuf": 'syntax = "proto3"; message Order { int64 id = 1; string city = 2; }',
    }
    topic = f"round-{form}"
    written = encode_values(ROWS, made(schema=schemas[form]), topic=topic)
    frames = {value.as_py()[:FRAME] for value in written}
    assert len(frames) == 1
    frame = frames.pop()
    assert frame[:2] == b"\x03\x00"
    registered = client.schema(name=topic)
    assert registered.guid == UUID(bytes=frame[2:])
    assert registered.schema_type == form.upper()
    for reader in (made(), pickle.loads(pickle.dumps(made()))):
        assert decode_values(written, reader, topic=topic).combine_chunks().to_pylist() == ROWS.to_pylist()
    # Compressed values, which the serializers of AWS write with compression=ZLIB.
    packed = [b"\x03\x05" + value.as_py()[2:FRAME] + zlib.compress(value.as_py()[FRAME:]) for value in written]
    assert decode_values(pa.array(packed), made(), topic=topic).to_pylist() == ROWS.to_pylist()
    with pytest.raises(BadValueError, match="not valid zlib data"):
        decode_values(pa.array([packed[0][:-6]]), made(), topic=topic)
    # Keys have a schema of their own.
    encode_values(ROWS, made(schema=schemas[form]), topic=topic, key=True)
    assert client.schema(name=f"{topic}-key").version == 1


def test_writers_of_several_versions_are_resolved(client: GlueSchemaRegistry) -> None:
    old = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
    new = {**old, "fields": [{"name": "city", "type": "string", "default": "Rome"}, {"name": "id", "type": "long"}]}
    first = encode_values(pa.table({"id": pa.array([1], pa.int32())}), Avro(client, schema=old), topic="several")
    second = encode_values(ROWS, Avro(client, schema=new), topic="several")
    values = pa.chunked_array([*first.chunks, *second.chunks, pa.array([None], pa.binary())])
    rows = decode_values(values, Avro(client), topic="several").to_pylist()
    assert rows == [{"city": "Rome", "id": 1}, {"city": "Rome", "id": 1}, {"city": "Oslo", "id": 2}, None]
    # Without a registry, schemas may be passed by UUID.
    versions = {client.register("several", schema): schema for schema in (old, new)}
    bare = Avro(new, writers=versions, framing="glue")
    assert decode_values(values, bare).to_pylist() == rows
    uuid = client.register("several", new)
    again = encode_values(ROWS, Avro(new, writers={uuid: new}, framing="glue"))
    assert again.to_pylist() == second.to_pylist()


def test_bad_values_name_the_frame(client: GlueSchemaRegistry) -> None:
    client.register("bad", ORDER)
    form = Avro(client)
    for value, reason in [
        (b"\x00\x00\x00\x00\x01\x02", "does not begin with byte 3, byte 0 or 5, and a UUID"),
        (b"\x03\x00" + UUID(int=9).bytes + b"\x02", f"schema {UUID(int=9)}"),
        (b"\x03\x07" + bytes(16), "does not begin with"),
        (b"", "does not begin with"),
    ]:
        with pytest.raises(BadValueError, match=reason):
            decode_values(pa.array([value]), form, topic="bad")
    with pytest.raises(BadValueError, match='read it with framing "glue", or with a GlueSchemaRegistry'):
        decode_values(pa.array([b"\x03\x00" + bytes(16)]), Avro(ORDER))


def test_consumers_and_producers_use_the_registry(client: GlueSchemaRegistry) -> None:
    with Broker() as broker, Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        broker.create_topic("orders")
        delivery = producer.send_batch("orders", ROWS, value=["id", "city"], value_format=Avro(client, schema=ORDER))
        assert delivery.result()[0].count == 2
        options = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
        with Consumer(value_format=Avro(client), **options) as consumer:
            consumer.assign([("orders", 0)])
            batch = consumer.poll(timeout=10)
            assert batch is not None
            assert batch.column("value").to_pylist() == ROWS.to_pylist()

        async def read() -> Any:
            async with AsyncConsumer(value_format=Avro(client), **options) as consumer:
                consumer.assign([("orders", 0)])
                return await consumer.poll(timeout=10)

        assert asyncio.run(read()).column("value").to_pylist() == ROWS.to_pylist()


@pytest.mark.parametrize("compression", ["NONE", "ZLIB"])
def test_reads_values_of_aws_serializers(client: GlueSchemaRegistry, java: GlueSerdes, compression: str) -> None:
    topic = f"java-avro-{compression}"
    plain = [value.as_py() for value in encode_values(ROWS, Avro(ORDER, framing="none"))]
    written = java.write(plain, format="AVRO", topic=topic, schema=json.dumps(ORDER), compression=compression)
    assert {value[:2] for value in written} == {b"\x03\x05" if compression == "ZLIB" else b"\x03\x00"}
    assert decode_values(pa.array(written), Avro(client), topic=topic).to_pylist() == ROWS.to_pylist()
    topic = f"java-json-{compression}"
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"id": {"type": "integer"}, "city": {"type": "string"}},
    }
    texts = [json.dumps(row).encode() for row in ROWS.to_pylist()]
    written = java.write(texts, format="JSON", topic=topic, schema=json.dumps(schema), compression=compression)
    assert decode_values(pa.array(written), Json(client), topic=topic).to_pylist() == ROWS.to_pylist()


NESTED = """syntax = "proto3"; package shop;
message B {
  map<string, int32> item_counts = 1;
  message C {}
  message A { message D { int64 id = 1; string city = 2; } }
}
message Z { int64 id = 1; string city = 2; }
"""


@pytest.mark.parametrize("compression", ["NONE", "ZLIB"])
@pytest.mark.parametrize("message", ["B.A.D", "Z"])
def test_reads_protobuf_of_aws_serializers(
    client: GlueSchemaRegistry, java: GlueSerdes, message: str, compression: str
) -> None:
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2", reason="google's protobuf is not installed")
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")

    def fields(of: Any) -> None:
        of.field.add(name="id", number=1, type=3, label=1)
        of.field.add(name="city", number=2, type=9, label=1)

    b = file.message_type.add(name="B")
    b.field.add(name="item_counts", number=1, type=11, label=3, type_name=".shop.B.ItemCountsEntry")
    entry = b.nested_type.add(name="ItemCountsEntry")
    entry.field.add(name="key", number=1, type=9, label=1)
    entry.field.add(name="value", number=2, type=5, label=1)
    entry.options.map_entry = True
    b.nested_type.add(name="C")
    fields(b.nested_type.add(name="A").nested_type.add(name="D"))
    fields(file.message_type.add(name="Z"))
    topic = f"java-protobuf-{message}-{compression}"
    name = f"shop.{message}"
    plain = [value.as_py() for value in encode_values(ROWS, Protobuf(NESTED, message=name, framing="none"))]
    written = java.write(
        plain, format="PROTOBUF", topic=topic, message=message, compression=compression,
        file=base64.b64encode(file.SerializeToString()).decode(),
    )  # fmt: skip
    form = Protobuf(client, message=name)
    assert decode_values(pa.array(written), form, topic=topic).to_pylist() == ROWS.to_pylist()
    ours = encode_values(ROWS, Protobuf(client, schema=NESTED, message=name), topic=f"{topic}-ours")
    assert java.read(ours.to_pylist(), format="PROTOBUF", topic=topic) == plain


def test_aws_deserializers_read_our_values(client: GlueSchemaRegistry, java: GlueSerdes) -> None:
    ours = encode_values(ROWS, Avro(client, schema=ORDER), topic="ours-avro").to_pylist()
    plain = encode_values(ROWS, Avro(ORDER, framing="none")).to_pylist()
    assert java.read(ours, format="AVRO", topic="ours-avro") == plain
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "city": {"type": "string"}}}
    ours = encode_values(ROWS, Json(client, schema=schema), topic="ours-json").to_pylist()
    assert [json.loads(text) for text in java.read(ours, format="JSON", topic="ours-json")] == ROWS.to_pylist()


class Scripted(BaseHTTPRequestHandler):
    """AWS Glue with scripted responses: a list of pairs of status and body for each operation."""

    responses: ClassVar[dict[str, list[tuple[int, Any]]]] = {}
    requests: ClassVar[list[tuple[str, Any, Any]]] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        operation = self.headers["X-Amz-Target"].removeprefix("AWSGlue.")
        self.requests.append((operation, json.loads(body), self.headers))
        script = self.responses[operation]
        status, response = script.pop(0) if len(script) > 1 else script[0]
        text = json.dumps(response).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.1")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        pass


@pytest.fixture
def scripted() -> Iterator[str]:
    Scripted.responses, Scripted.requests = {}, []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def error(kind: str, status: int = 400) -> tuple[int, dict[str, str]]:
    return status, {"__type": kind, "Message": "the reason"}


VERSION = {"SchemaVersionId": str(UUID(int=3)), "SchemaDefinition": '"long"', "DataFormat": "AVRO", "VersionNumber": 1}


def test_lists_have_pages(scripted: str) -> None:
    Scripted.responses = {
        "ListSchemas": [
            (200, {"Schemas": [{"SchemaName": "a"}], "NextToken": "t"}),
            (200, {"Schemas": [{"SchemaName": "b"}]}),
        ],
        "ListSchemaVersions": [
            (
                200,
                {
                    "Schemas": [{"VersionNumber": 2, "Status": "AVAILABLE"}, {"VersionNumber": 3, "Status": "FAILURE"}],
                    "NextToken": "u",
                },
            ),
            (200, {"Schemas": [{"VersionNumber": 1, "Status": "AVAILABLE"}]}),
        ],
    }
    with GlueSchemaRegistry(endpoint_url=scripted, registry_name="mine") as client:
        assert client.schemas() == ["a", "b"]
        assert client.versions("a") == [1, 2]
    assert [request.get("NextToken") for _, request, _ in Scripted.requests] == [None, "t", None, "u"]
    assert Scripted.requests[0][1]["RegistryId"] == {"RegistryName": "mine"}
    assert Scripted.requests[2][1]["SchemaId"] == {"RegistryName": "mine", "SchemaName": "a"}


def test_throttled_requests_are_repeated(scripted: str) -> None:
    Scripted.responses["GetSchemaVersion"] = [
        error("ThrottlingException"),
        error("InternalServiceException", 500),
        (200, VERSION),
    ]
    with GlueSchemaRegistry(endpoint_url=scripted, **QUICK) as client:
        assert client.schema(uuid=UUID(int=3)).schema == '"long"'
        assert client.schema(uuid=str(UUID(int=3))).version == 1
    assert len(Scripted.requests) == 3


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("UnrecognizedClientException", "rejects the AWS credentials"),
        ("com.amazon.coral.service#ExpiredTokenException", "rejects the AWS credentials"),
        ("AccessDeniedException", "need more rights"),
        ("InvalidInputException", "InvalidInputException the reason"),
    ],
)
def test_errors_of_aws_are_reported(scripted: str, kind: str, text: str) -> None:
    Scripted.responses["GetSchemaVersion"] = [error(kind)]
    with (
        GlueSchemaRegistry(endpoint_url=scripted, **QUICK) as client,
        pytest.raises(RegistryError, match=text) as caught,
    ):
        client.schema(uuid=UUID(int=3))
    assert "hunter2" not in str(caught.value)
    assert len(Scripted.requests) == 1


def test_rejected_version_is_incompatible(scripted: str) -> None:
    Scripted.responses = {
        "GetSchemaByDefinition": [error("EntityNotFoundException")],
        "CreateSchema": [error("AlreadyExistsException")],
        "RegisterSchemaVersion": [(200, {"SchemaVersionId": str(UUID(int=3)), "Status": "PENDING"})],
        "GetSchemaVersion": [(200, {**VERSION, "Status": "FAILURE"})],
        "GetSchema": [(200, {"Compatibility": "FULL"})],
    }
    with GlueSchemaRegistry(endpoint_url=scripted, **QUICK) as client:
        with pytest.raises(SchemaIncompatibleError) as caught:
            client.register("orders", ORDER)
        assert caught.value.reasons == ["the compatibility of the schema is FULL; AWS Glue reports no other reason"]
        Scripted.responses["GetSchemaByDefinition"] = [
            (200, {"SchemaVersionId": str(UUID(int=3)), "Status": "FAILURE"})
        ]
        with pytest.raises(SchemaIncompatibleError):
            client.register("orders", ORDER)
        Scripted.responses["GetSchemaByDefinition"] = [
            (200, {"SchemaVersionId": str(UUID(int=3)), "Status": "DELETING"})
        ]
        with pytest.raises(RegistryError, match="has the status DELETING"):
            client.register("orders", ORDER)


def test_requests_are_signed(scripted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", "session")
    Scripted.responses["GetSchemaVersion"] = [(200, VERSION)]
    with GlueSchemaRegistry("us-west-2", endpoint_url=scripted) as client:
        client.schema(name="orders")
    headers = Scripted.requests[0][2]
    assert headers["Authorization"].startswith("AWS4-HMAC-SHA256 Credential=id/")
    assert (
        "/us-west-2/glue/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-amz-target"
        in (headers["Authorization"])
    )
    assert headers["X-Amz-Security-Token"] == "session"
    auth = pytest.importorskip("botocore.auth", reason="botocore is not installed")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    signer = auth.SigV4Auth(Credentials("id", "hunter2", "session"), "glue", "us-west-2")
    names = ("Content-Type", "Host", "X-Amz-Date", "X-Amz-Security-Token", "X-Amz-Target")
    body = json.dumps(Scripted.requests[0][1], separators=(",", ":"), sort_keys=True).encode()
    request = AWSRequest(
        "POST", f"http://{headers['Host']}/", headers={name: headers[name] for name in names}, data=body
    )
    request.context["timestamp"] = headers["X-Amz-Date"]
    text = signer.string_to_sign(request, signer.canonical_request(request))
    assert headers["Authorization"].endswith(f"Signature={signer.signature(text, request)}")


def test_invalid_arguments_are_errors(client: GlueSchemaRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments, text in [
        ({"region": "Frankfurt"}, "region must be a name such as eu-central-1"),
        ({"compatibility": "SOME"}, "compatibility must be one of NONE"),
        ({"registry_name": ""}, "registry_name must not be empty"),
        ({"max_retry": 1}, "did you mean max.retries"),
        ({"basic_auth_user_info": "a:b"}, "accepts AWS credentials only"),
        ({"endpoint_url": "glue"}, "option endpoint_url must begin with https://"),
    ]:
        with pytest.raises(ConfigurationError, match=text):
            GlueSchemaRegistry(**arguments)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="framing 'confluent' has an id that AWS Glue"):
        Avro(client, framing="confluent")
    with (
        SchemaRegistry("http://127.0.0.1:1") as other,
        pytest.raises(ConfigurationError, match="the registry must be AWS Glue Schema Registry"),
    ):
        Avro(other, framing="glue")
    assert repr(client).startswith("GlueSchemaRegistry(registry_name='default-registry'")
    with pytest.raises(TypeError, match="exactly one of uuid and name, not none"):
        client.schema()
    with pytest.raises(TypeError, match="exactly one of uuid and name, not uuid and name"):
        client.schema(uuid=UUID(int=1), name="orders")
    with pytest.raises(TypeError, match="version must be int, not bool"):
        client.schema(name="orders", version=True)
    with pytest.raises(ConfigurationError, match=r"uuid must be a UUID, such as .*, not 'seven'"):
        client.schema(uuid="seven")
    with pytest.raises(ConfigurationError, match=r"a key of writers must be a UUID, such as .*, not 'seven'"):
        Avro(ORDER, writers={"seven": ORDER}, framing="glue")
    closed = GlueSchemaRegistry(endpoint_url="http://127.0.0.1:1")
    closed.close()
    closed.close()
    assert closed.closed
    with pytest.raises(ClosedError):
        closed.versions("a")
    monkeypatch.delenv("AWS_REGION")
    with pytest.raises(ConfigurationError, match="pass region, or set AWS_REGION"):
        GlueSchemaRegistry()


def test_missing_credentials_are_an_error(moto: Moto, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
    with (
        GlueSchemaRegistry(endpoint_url=moto.url) as client,
        pytest.raises(AuthenticationError, match="none in any of these sources"),
    ):
        client.schema(name="orders")


def test_profile_supplies_credentials(moto: Moto, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "credentials"
    file.write_text("[work]\naws_access_key_id = other\naws_secret_access_key = secret\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    with GlueSchemaRegistry(endpoint_url=moto.url, profile="work") as client:
        assert isinstance(client.register("profile", ORDER), UUID)
    absent = GlueSchemaRegistry(endpoint_url=moto.url, profile="absent")
    with absent as client, pytest.raises(AuthenticationError, match="profile absent does not exist"):
        client.register("profile", ORDER)


def test_module_is_imported_on_demand() -> None:
    program = "import sys, samsarrow; assert 'samsarrow.glue' not in sys.modules; samsarrow.GlueSchemaRegistry"
    subprocess.run([sys.executable, "-c", program], check=True)
