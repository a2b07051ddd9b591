"""AWS Glue Schema Registry on the command line, on moto's server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import UUID

import pytest

from samsarrow.testing import Broker
from support.commands import Ended, runner
from support.glue import Moto

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": ["null", "string"], "default": None}],
}


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    with Moto() as moto:
        yield moto


@pytest.fixture
def command(
    moto: Moto, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Callable[..., Ended]]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("SAMSARROW_SCHEMA_REGISTRY_URL", "glue://eu-central-1")
    monkeypatch.setenv("SAMSARROW_SCHEMA_REGISTRY_AWS_ENDPOINT_URL", moto.url)
    with Broker() as broker:
        broker.create_topic("orders")
        yield runner(broker.bootstrap_servers, monkeypatch, capsys, tmp_path)


def test_values_and_schemas_of_glue(command: Callable[..., Ended], tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    [row] = [
        json.loads(line) for line in command("schema", "register", "orders", file, "-o", "ndjson").out.splitlines()
    ]
    uuid = UUID(row["id"])
    for choice in (["orders"], ["orders", "--version", "1"], ["--guid", str(uuid)]):
        shown = command("schema", "show", *choice, "-o", "json").out
        assert (json.loads(shown)["guid"], json.loads(shown)["type"]) == (str(uuid), "AVRO")
    command("produce", "orders", "-", "--value", "avro", "--format", "csv", stdin=b"id,city\n1,Rome\n2,Oslo\n")
    read = ["consume", "orders", "--format", "ndjson"]
    found = command(*read, "--value", "avro").out.splitlines()
    assert [json.loads(line)["value"] for line in found] == [{"id": 1, "city": "Rome"}, {"id": 2, "city": "Oslo"}]
    command(
        "produce", "orders", "-", "--key", "avro", "--key-column", "id", "--format", "csv", stdin=b"id,value\n7,x\n"
    )
    assert json.loads(command("schema", "show", "orders-key", "-o", "json").out)["version"] == 1
    assert "city: string" in command("schema", "infer", "orders", "--value", "avro").out


def test_unsupported_requests_are_errors(command: Callable[..., Ended], tmp_path: Path) -> None:
    file = tmp_path / "order.avsc"
    file.write_text(json.dumps(ORDER))
    for arguments, text in [
        (["show", "--id", "1"], "schemas in AWS Glue have no ids"),
        (["check", "orders", file], "only when it is registered"),
        (["register", "orders", file, "--normalize"], "--normalize has no effect with AWS Glue"),
        (["register", "orders", file, "--reference", "a=b:1"], "AWS Glue stores no references"),
        (["show", "orders", "--registry", "glue://eu-central-1/a/b"], "is glue://REGION/REGISTRY"),
        (["show", "orders", "--registry", "glue://Frankfurt"], "region must be a name such as eu-central-1"),
        (["show", "orders", "-X", "schema.registry.context=x"], "has no contexts"),
        (["show", "orders", "--registry", "http://localhost:1"], "schema.registry.aws.endpoint.url is for AWS Glue"),
    ]:
        assert text in command("schema", *arguments, code=2).err, arguments
    assert "schema missing" in command("schema", "show", "missing", code=1).err
    bad = command("consume", "orders", "--value", "avro", "--framing", "confluent", code=2).err
    assert "has an id that AWS Glue Schema Registry does not have" in bad
