"""`samsarrow schema`: subjects, schemas, compatibility checks and registrations."""

import json

import pytest

from samsarrow.testing import Registry
from support.commands import runner

SECRET = "hunter2"
USER = {"type": "record", "name": "User", "fields": [{"name": "city", "type": "string"}]}
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "user", "type": "User"}]}
WORSE = {"type": "record", "name": "User", "fields": [{"name": "street", "type": "string"}]}
BETTER = {"type": "record", "name": "User", "fields": [*USER["fields"], {"name": "zip", "type": "int", "default": 0}]}


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setenv("SAMSARROW_SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", f"ann:{SECRET}")
    with Registry(auth=("ann", SECRET)) as registry:
        monkeypatch.setenv("SAMSARROW_SCHEMA_REGISTRY_URL", registry.url)
        registry.register("users-value", USER)
        registry.register("orders-value", ORDER, references=[("User", "users-value", 1)])
        yield registry


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    run = runner("", monkeypatch, capsys, tmp_path)

    def run_schema_command(*arguments, **more):
        done = run("schema", *arguments, **more)
        assert SECRET not in done.out + done.err
        return done

    return run_schema_command


@pytest.fixture
def file(tmp_path):
    def write(schema, name="x.avsc"):
        (tmp_path / name).write_text(schema if isinstance(schema, str) else json.dumps(schema))
        return tmp_path / name

    return write


def test_subjects_are_listed_with_versions_type_and_id(command, registry):
    registry.register("users-value", BETTER)
    registry.register("lines-value", 'syntax = "proto3"; message L {}', schema_type="PROTOBUF")
    rows = [json.loads(line) for line in command("list").out.splitlines()]
    assert rows == [
        {"subject": "lines-value", "versions": [1], "type": "PROTOBUF", "id": 4},
        {"subject": "orders-value", "versions": [1], "type": "AVRO", "id": 2},
        {"subject": "users-value", "versions": [1, 2], "type": "AVRO", "id": 3},
    ]
    assert command("list", "o*", "users-value", "-o", "csv").out.splitlines() == [
        "subject,versions,type,id", "orders-value,1,AVRO,2", 'users-value,"1,2",AVRO,3',
    ]  # fmt: skip
    assert "there is no subject nope" in command("list", "nope", code=1).err
    registry.fail(500, path="/subjects/orders-value")
    some = command("list", "-X", "schema.registry.max.retries=0", code=3)
    assert len(some.out.splitlines()) == 2
    assert "subject orders-value: " in some.err


def test_schema_show_by_subject_id_and_guid(command, registry):
    shown = command("show", "orders-value")
    assert json.loads(shown.out) == ORDER
    assert shown.err == f"orders-value, version 1, id 2, GUID {registry.guid(2)}, AVRO\nuses User=users-value:1\n"
    assert json.loads(command("show", "--id", "1").out) == USER
    assert json.loads(command("show", "--guid", registry.guid(1)).out) == USER
    registry.register("users-value", BETTER)
    assert json.loads(command("show", "users-value").out) == BETTER
    assert json.loads(command("show", "users-value", "--version", "1").out) == USER
    for form in ("json", "ndjson"):
        found = json.loads(command("show", "orders-value", "-o", form).out)
        assert json.loads(found.pop("schema")) == ORDER
        assert found == {"subject": "orders-value", "version": 1, "id": 2, "guid": registry.guid(2), "type": "AVRO",
                         "references": ["User=users-value:1"]}  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "code", "why"),
    [
        (["nope"], 1, "nope"),
        (["users-value", "--version", "9"], 1, "9"),
        (["--id", "9", "-X", "schema.registry.missing.id.retries.wait.ms=0"], 1, "9"),
        ([], 2, "one of SUBJECT, --id and --guid"),
        (["users-value", "--id", "1"], 2, "one of SUBJECT, --id and --guid"),
        (["--id", "1", "--version", "1"], 2, "--version is for a SUBJECT"),
        (["users-value", "--version", "0"], 2, "is not a version"),
        (["--guid", "x"], 2, "is not a GUID"),
        (["users-value", "-X", "max.retries=1"], 2, "whose options are schema.registry.NAME"),
        (["users-value", "-X", "schema.registry.max.retry=1"], 2, "did you mean max.retries?"),
        (["users-value", "--registry", "h:8081"], 2, "schema.registry.url must begin with"),
        (["users-value", "--registry-auth", "token"], 1, "401"),
    ],
)
@pytest.mark.usefixtures("registry")
def test_schema_show_errors(command, arguments, code, why):
    assert why in " ".join(command("show", *arguments, code=code).err.split())


def test_missing_or_unreachable_registry_is_an_error(command, registry, monkeypatch):
    registry.down()
    down = command("list", "-X", "schema.registry.max.retries=0", code=1).err
    assert down.startswith("samsarrow: ")
    assert registry.url in down
    monkeypatch.delenv("SAMSARROW_SCHEMA_REGISTRY_URL")
    assert "no schema registry: pass --registry URL" in command("list", code=2).err


def test_a_schema_is_checked_without_being_registered(command, registry, file):
    assert command("check", "users-value", file(BETTER)).out == "users-value: it may be the next (BACKWARD)\n"
    assert command("check", "new-value", file(USER)).out == "new-value: it may be the next (BACKWARD)\n"
    errors = command("check", "users-value", file(WORSE), code=1).err
    assert errors.startswith("samsarrow: a schema for subject users-value is incompatible with earlier versions\n  ")
    assert "street" in errors
    assert json.loads(command("list", "users-value").out)["versions"] == [1]
    assert command("check", "users-value", file("{"), code=1).err.startswith("samsarrow: ")


@pytest.mark.usefixtures("registry")
def test_a_schema_is_registered_from_files_and_standard_input(command, file):
    registered = command("register", "users-value", file(BETTER))
    assert json.loads(registered.out) == {"subject": "users-value", "type": "AVRO", "id": 3}
    assert json.loads(command("register", "users-value", file(BETTER)).out)["id"] == 3
    other = {**ORDER, "name": "Other"}
    refers = ("--reference", "User=users-value:2", "--type", "avro")
    assert json.loads(command("register", "other-value", "-", *refers, stdin=json.dumps(other).encode()).out)["id"] == 4
    assert command("show", "other-value").err.endswith("uses User=users-value:2\n")
    text = 'syntax = "proto3"; message L {}'
    assert json.loads(command("register", "lines-value", file(text, "l.proto")).out)["type"] == "PROTOBUF"
    assert command("show", "lines-value").out == f"{text}\n"
    assert "street" in command("register", "users-value", file(WORSE), code=1).err


@pytest.mark.parametrize(
    ("name", "more", "why"),
    [
        ("x.json", [], "pass --type, or a file with a suffix of .avsc, .proto"),
        ("x.avsc", ["--reference", "User=users-value"], "is not NAME=SUBJECT:VERSION"),
        ("x.avsc", ["--reference", "users-value:1"], "is not NAME=SUBJECT:VERSION"),
    ],
)
@pytest.mark.usefixtures("registry")
def test_schema_register_rejects_invalid_arguments(command, file, name, more, why):
    assert why in " ".join(command("register", "users-value", file(USER, name), *more, code=2).err.split())
