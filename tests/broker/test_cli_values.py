"""`samsarrow consume --value …`: decoded keys and values in each output format, and decode errors."""

import base64
import csv
import io
import json
import struct
from datetime import UTC, datetime
from decimal import Decimal

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from samsarrow import Producer
from samsarrow.testing import Registry

SECRET = "hunter2"
USER = {"type": "record", "name": "User", "fields": [{"name": "city", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "user", "type": ["null", USER]},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "more", "type": {"type": "map", "values": "double"}},
        {"name": "offset", "type": "bytes"},
    ],
}
NOON = datetime(2024, 2, 29, 12, 0, 0, 250_000, UTC)
FIRST = {"id": 1, "user": {"city": 'Ro"me'}, "amount": Decimal("12.50"), "at": NOON, "tags": ["a", "b"],
         "more": {"x": 1.0, "y": float("nan")}, "offset": b"\xff"}  # fmt: skip
LAST = {"id": 2**60, "user": None, "amount": Decimal("-0.01"), "at": NOON, "tags": [], "more": {}, "offset": b""}
# The orders above in JSON output.
SHOWN = [
    {"id": 1, "user": {"city": 'Ro"me'}, "amount": 12.5, "at": "2024-02-29T12:00:00.250Z", "tags": ["a", "b"],
     "more": {"x": 1.0, "y": None}, "offset": "ff"},
    None,
    {"id": 2**60, "user": None, "amount": -0.01, "at": "2024-02-29T12:00:00.250Z", "tags": [], "more": {},
     "offset": ""},
]  # fmt: skip


def bare(value, schema=ORDER):
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.setenv("SAMSARROW_SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO", f"ann:{SECRET}")
    with Registry(auth=("ann", SECRET)) as registry:
        monkeypatch.setenv("SAMSARROW_SCHEMA_REGISTRY_URL", registry.url)
        yield registry


@pytest.fixture
def orders(registry, servers):
    """Sends an order, a tombstone and another order to topic `t`, with 64-bit keys. Returns the bytes that precede each
    value.
    """
    frame = b"\0" + registry.register("t-value", ORDER).to_bytes(4, "big")
    with Producer(bootstrap_servers=servers) as producer:
        for key, value in ((7, FIRST), (8, None), (None, LAST)):
            data = None if value is None else frame + bare(value)
            producer.send("t", data, key=None if key is None else struct.pack(">q", key), headers=[("value", None)])
    return frame


@pytest.fixture
def bad(orders, servers):
    """Appends an order that is cut off, and a valid order."""
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", orders + b"\x02\x02\x08Ro")
        producer.send("t", orders + bare(LAST))


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.usefixtures("orders")
def test_line_formats_show_decoded_values(command):
    avro = ("consume", "t", "--value", "avro")
    printed = command(*avro).out.splitlines()
    assert [json.loads(line) if line else None for line in printed] == SHOWN
    assert '"amount":12.50,' in printed[0], "a decimal keeps its digits"
    found = lines(command(*avro, "--key", "long", "--format", "ndjson").out)
    assert [row["value"] for row in found] == SHOWN
    assert [row["key"] for row in found] == [7, 8, None]
    assert list(found[0]) == ["topic", "partition", "offset", "timestamp", "headers", "key", "value"]
    assert found[0]["headers"] == [["value", None]]
    assert json.loads(command(*avro, "--key", "long", "--format", "json").out) == found
    some = command(*avro, "--fields", "id,user.city", "--template", "{offset} {value}").out.splitlines()
    assert some == ['0 {"id":1,"user":{"city":"Ro\\"me"}}', "1 ", '2 {"id":1152921504606846976,"user":null}']
    assert [row["key"] for row in lines(command("consume", "t", "--key", "long", "--format", "ndjson").out)] == [
        7, 8, None,
    ]  # fmt: skip


@pytest.mark.usefixtures("orders")
def test_unpack_of_decoded_columns(command, tmp_path):
    avro = ("consume", "t", "--value", "avro", "--key", "long")
    command(*avro, "-O", tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert pa.types.is_struct(table.schema.field("value").type)
    first, none, last = table["value"].to_pylist()
    assert (first["user"], first["amount"], first["at"]) == (FIRST["user"], FIRST["amount"], NOON)
    assert (none, last["id"], table["key"].to_pylist()) == (None, 2**60, [7, 8, None])
    command(*avro, "-O", tmp_path / "b.arrow", "--unpack", "--fields", "id,user.city,offset")
    with pa.ipc.open_file(tmp_path / "b.arrow") as file:
        unpacked = file.read_all()
    assert unpacked["id"].to_pylist() == [1, None, 2**60]
    assert unpacked["user"].to_pylist() == [{"city": 'Ro"me'}, None, None]
    assert unpacked["value.offset"].to_pylist() == [b"\xff", None, b""], "a name that a column of Kafka's has"
    rows = list(csv.DictReader(io.StringIO(command(*avro, "--format", "csv").out)))
    assert [json.loads(row["value"]) if row["value"] else None for row in rows] == SHOWN
    [row, *_] = csv.DictReader(io.StringIO(command(*avro, "--format", "csv", "--unpack").out))
    assert (row["key"], row["id"], row["user.city"], row["amount"]) == ("7", "1", 'Ro"me', "12.50")
    assert (row["tags"], row["value.offset"]) == ('["a","b"]', "ff")


@pytest.mark.usefixtures("orders")
def test_empty_topic_has_the_decoded_columns(command, tmp_path):
    of = ("consume", "four", "--value", "avro", "--value-subject", "t-value:1")
    command(*of, "-O", tmp_path / "a.parquet")
    assert pq.read_schema(tmp_path / "a.parquet").field("value").type.field("id").type == pa.int64()
    command(*of, "-O", tmp_path / "b.parquet", "--unpack", "--tail", "3")
    assert "amount" in pq.read_schema(tmp_path / "b.parquet").names


@pytest.mark.usefixtures("orders")
@pytest.mark.parametrize(
    ("filters", "ids"),
    [
        (["--where", "value.user.city == 'Ro\"me'"], [1]),
        (["--where", "value.amount > 12 and value.tags[1] == 'b'"], [1]),
        (["--where", "value.at < '2024-03-01T00:00:00Z' and value.id > 1"], [2**60]),
        (["--where", "key > 6 and key <= 7"], [1]),
        (["--grep", '"tags":\\[\\]'], [2**60]),
        (["--tail", "1"], [2**60]),
        (["-n", "1", "--header", "value"], [1]),
    ],
)
def test_filters_on_decoded_values(command, filters, ids):
    found = lines(command("consume", "t", "--value", "avro", "--key", "long", "--format", "ndjson", *filters).out)
    assert [row["value"]["id"] for row in found] == ids


def test_primitive_formats_need_no_registry(command, servers):
    with Producer(bootstrap_servers=servers) as producer:
        for number in (1, 2**60 + 1, -5):
            producer.send("t", struct.pack(">q", number), key=b"k")
    assert command("consume", "t", "--value", "long", "--key", "string").out == f"1\n{2**60 + 1}\n-5\n"
    exact = ("consume", "t", "--value", "long", "--where", f"value == {2**60 + 1}", "--format", "ndjson")
    assert [row["value"] for row in lines(command(*exact).out)] == [2**60 + 1]
    assert command("consume", "t", "--value", "long", "--grep", "^-").out == "-5\n"
    assert "value is a number" in command("consume", "t", "--value", "long", "--where", "value.a > 1", code=2).err


@pytest.mark.usefixtures("bad")
def test_bad_value_ends_the_command(command, tmp_path):
    avro = ("consume", "t", "--value", "avro", "--fields", "id")
    done = command(*avro, code=1)
    assert done.out == f'{{"id":1}}\n\n{{"id":{2**60}}}\n'
    assert done.err.startswith("samsarrow: t-0, offset 3, schema id 1, field ")
    assert "--on-decode-error null continues after it" in done.err
    command(*avro, "-O", tmp_path / "a.parquet", code=1)
    assert list(tmp_path.glob("*.parquet*")) == []
    # In a group the command commits the rows that it has written, so the next run starts at the invalid value.
    assert command(*avro, "-g", "g", code=1).out.count("\n") == 3
    assert json.loads(command("groups", "lag", "g").out)["lag"] == 2
    assert command(*avro, "-g", "g", code=1).out == ""
    assert command(*avro, "-g", "g", "--on-decode-error", "null").out == f'\n{{"id":{2**60}}}\n'


@pytest.mark.usefixtures("bad")
def test_bad_value_as_null_with_its_bytes(command, tmp_path):
    avro = ("consume", "t", "--value", "avro", "--fields", "id", "--on-decode-error", "null")
    done = command(*avro, "--format", "ndjson")
    rows = lines(done.out)
    assert [row["value"] and row["value"]["id"] for row in rows] == [1, None, 2**60, None, 2**60]
    assert [list(row)[7:] for row in rows] == [[], [], [], ["value_error", "value_base64"], []]
    assert base64.b64decode(rows[3]["value_base64"]).endswith(b"\x08Ro")
    assert "1 key or value could not be read, the first of t-0, offset 3: schema id 1, " in done.err
    command(*avro, "-O", tmp_path / "a.parquet")
    table = pq.read_table(tmp_path / "a.parquet")
    assert table["raw_value"][3].as_py().endswith(b"\x08Ro")
    assert table["value_error"].null_count == 4
    assert "value_error" in command(*avro, "--format", "csv").out.splitlines()[0]


def test_schema_file_for_values_without_framing(command, servers, tmp_path):
    (tmp_path / "user.avsc").write_text(json.dumps(USER))
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", bare({"city": "Ulm"}, USER))
    avro = ("consume", "t", "--value", "avro")
    assert command(*avro, "--value-schema", tmp_path / "user.avsc").out == '{"city":"Ulm"}\n'
    assert "needs schemas: give --registry URL, or --value-schema FILE" in command(*avro, code=2).err
    file = ("--value-schema", tmp_path / "user.avsc")
    assert "needs a --registry" in command(*avro, *file, "--framing", "confluent", code=2).err
    (tmp_path / "user.avsc").write_text("{")
    assert command(*avro, *file, code=2).err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--fields", "id"], "--fields is for --value avro"),
        (["--value", "long", "--value-subject", "x"], "--value-subject is for --value avro"),
        (["--key-subject", "x", "--value", "avro"], "--key-subject is for --key avro"),
        (["--framing", "none"], "--framing is for --value avro"),
        (["--on-decode-error", "null"], "bytes are always valid"),
        (["--value", "string", "--format", "envelope"], "-o envelope writes undecoded bytes"),
        (["--value", "long", "--unpack", "--format", "csv"], "--value long has none"),
        (["--value", "avro", "--fields", "id,"], "a name is empty"),
        (["--value", "avro", "--fields", "nope"], "nope"),
        (["four", "--value", "avro"], "--value-subject SUBJECT or --value-schema FILE"),
        (["--value", "avro", "-X", "schema.registry.max.retry=1"], "did you mean max.retries?"),
        (["--value", "avro", "--registry", "https://h", "-X", "schema.registry.ssl.ca.location=/nowhere"], "/nowhere"),
    ],
)
@pytest.mark.usefixtures("orders")
def test_invalid_command_lines(command, options, why):
    assert why in " ".join(command("consume", "t", *options, code=2).err.split())


@pytest.mark.usefixtures("orders")
def test_registry_error_is_one_line(command, registry):
    quick = ("-X", "schema.registry.max.retries=0", "-X", "schema.registry.missing.id.retries.wait.ms=0")
    avro = ("consume", "t", "--value", "avro", *quick)
    missing = command(*avro, "--value-subject", "nope", code=1).err
    assert missing.startswith("samsarrow: ")
    assert "--value-subject or --value-schema" in missing
    wrong = command(*avro, "--registry-auth", "ann:wrong-one", code=1).err
    assert "--registry-auth: other users can see command lines" in wrong
    assert "401" in wrong
    assert "wrong-one" not in wrong
    assert command(*avro, "--registry-auth", f"ann:{SECRET}", "-n", "1", "--fields", "id").out == '{"id":1}\n'
    registry.down()
    down = command(*avro, code=1)
    assert down.out == ""
    assert registry.url in down.err
    assert SECRET not in down.err


@pytest.mark.parametrize("form", ["avro", "json", "protobuf"])
def test_value_formats_round_trip(command, servers, registry, tmp_path, form):
    rows = pa.table({"number": pa.array([7, 8], pa.int64()), "id": [1, 2], "city": ["Rome", None]})
    pq.write_table(rows, tmp_path / "orders.parquet")
    schema = {
        "json": '{"type": "object", "properties": {"id": {"type": "integer"}, "city": {"type": ["null", "string"]}}}',
        "protobuf": 'syntax = "proto3"; message None {} message Order { int64 id = 1; optional string city = 2; }',
    }.get(form)
    options = ["--value", form, "--key", "long", "--key-column", "number"]
    if schema is not None:
        (tmp_path / "order").write_text(schema)
        options += ["--value-schema", tmp_path / "order"]
    options += ["--message", "Order"] if form == "protobuf" else []
    command("produce", "t", tmp_path / "orders.parquet", *options)
    assert registry.requests("POST /subjects/t-value") == 1
    read = ["consume", "t", "--key", "long", "--value", form, "--format", "ndjson"]
    read += ["--message", "Order"] if form == "protobuf" else []
    found = lines(command(*read).out)
    assert [row["value"] for row in found] == [{"id": 1, "city": "Rome"}, {"id": 2, "city": None}]
    assert [row["key"] for row in found] == [7, 8]


def test_protobuf_imports_and_recursive_types(command, registry, tmp_path):
    (tmp_path / "tree.proto").write_text(
        'syntax = "proto3"; import "c.proto"; message Tree { c.User user = 1; Tree next = 2; }'
    )
    (tmp_path / "c.proto").write_text('syntax = "proto3"; package c; message User { string city = 1; }')
    registry.register("t-value", (tmp_path / "tree.proto").read_text(), schema_type="PROTOBUF")
    rows = [{"user": {"city": "Rome"}, "next": {"user": None, "next": {"user": {"city": "Ulm"}}}}]
    pq.write_table(pa.table(rows_of(rows)), tmp_path / "t.parquet")
    options = ["--value", "protobuf", "--import", tmp_path / "c.proto"]
    command("produce", "t", tmp_path / "t.parquet", *options)
    read = ["consume", "t", *options, "--format", "ndjson"]
    [found] = lines(command(*read, "--recursion", "2").out)
    rows[0]["next"]["next"]["next"] = None
    assert found["value"] == rows[0]
    assert "recursion" in command(*read, code=2).err
    assert "nor in the imports" in command("consume", "t", "--value", "protobuf", code=2).err
    assert "--import is for" in command("consume", "t", "--value", "avro", *options[2:], code=2).err
    assert "--recursion is for" in command("consume", "t", "--value", "json", "--recursion", "1", code=2).err


def rows_of(rows):
    return {name: [row[name] for row in rows] for name in rows[0]}


def test_unsupported_values_are_rejected(command, registry, tmp_path):
    (tmp_path / "rows.csv").write_text("id\n1\n")
    for options, why in (
        (["--value-schema", tmp_path / "rows.csv"], "--value-schema is for --value avro or json or protobuf"),
        (["--value", "avro", "--message", "M"], "--message is for --value protobuf"),
        (["--value", "avro", "--format", "ndjson"], "need csv, arrow or parquet"),
    ):
        assert why in command("produce", "t", tmp_path / "rows.csv", *options, code=2).err
    registry.down()
    result = command(
        "produce", "t", tmp_path / "rows.csv", "--value", "avro", "-X", "schema.registry.max.retries=0", code=1
    )
    assert registry.url.removeprefix("http://") in result.err


def test_schema_is_inferred_from_the_first_values(command, servers, registry, tmp_path):
    texts = [
        '{"id": 7, "user": {"city": "Ulm"}, "tags": ["a"]}',
        None,
        '{"id": 8, "sum": 1.5, "any": 1}',
        '{"any": "x"}',
    ]
    with Producer(bootstrap_servers=servers) as producer:
        for text in texts:
            producer.send("t", None if text is None else text.encode())
    infer = ("schema", "infer", "t")
    assert command(*infer).out.splitlines() == [
        "id: int64",
        "user: struct<city: string>",
        "tags: list<item: string>",
        "sum: double",
        "any: extension<arrow.json>",
    ]
    assert command(*infer, "--limit", "1").out.splitlines()[-1] == "tags: list<item: string>"
    for form, kind, suffix in (("avro", "avro", "avsc"), ("json-schema", "json", "json")):
        file = tmp_path / f"schema.{suffix}"
        file.write_text(command(*infer, "--as", form).out)
        command("schema", "register", f"{kind}-value", file, "--type", kind)
        rows = command("consume", "t", "--value", "json", "--value-schema", file) if kind == "json" else None
        if rows is not None:
            found = [json.loads(line) if line else None for line in rows.out.splitlines()]
            assert found[2] == {"id": 8, "user": None, "tags": None, "sum": 1.5, "any": "1"}
    found = json.loads(command(*infer, "--as", "avro").out)
    assert (found["name"], found["fields"][0]["type"]) == ("t_value", ["null", "long"])
    found = json.loads(command(*infer, "--as", "json-schema").out)
    assert found["properties"]["user"] == {
        "type": ["object", "null"],
        "properties": {"city": {"type": ["string", "null"]}},
    }
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", b"{")
    assert "t-0, offset 4: the value ends too early" in command(*infer, code=1).err
    assert "there is no topic nope" in command("schema", "infer", "nope", code=1).err


@pytest.mark.usefixtures("orders")
def test_schemas_of_other_formats_come_from_the_registry(command, registry):
    shown = command("schema", "infer", "t", "--value", "avro").out.splitlines()
    assert shown[:2] == ["id: int64 not null", "user: struct<city: string not null>"]
    assert shown[5] == "more: map<string, double> not null"
    assert (
        "there is no JSON Schema"
        in command("schema", "infer", "t", "--value", "avro", "--as", "json-schema", code=2).err
    )


@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
def test_empty_records_are_written_or_rejected(command, servers, registry, tmp_path, form):
    schema = {
        "type": "record",
        "name": "Event",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "none", "type": {"type": "record", "name": "Empty", "fields": []}},
        ],
    }
    frame = b"\0" + registry.register("t-value", schema).to_bytes(4, "big")
    with Producer(bootstrap_servers=servers) as producer:
        producer.send("t", frame + b"\x02", key=b"\x00\x00\x00\x00\x01\xff")
    path = tmp_path / f"x.{form}"
    read = ["consume", "t", "-O", path, "--value", "avro"]
    if form == "csv":
        assert "is not text" in command(*read, code=1).err
        return
    for options in ([], ["--unpack"]):
        done = command(*read, *options, code=1 if form == "parquet" else 0)
        if form == "parquet":
            assert "these rows cannot be written as parquet" in done.err
            assert len(done.err.splitlines()) == 1
            assert list(tmp_path.iterdir()) == []
    command(*read, "--unpack", "--fields", "id")
    table = pq.read_table(path) if form == "parquet" else pa.ipc.open_file(path).read_all()
    assert (table["key"].to_pylist(), table["id"].to_pylist()) == ([b"\x00\x00\x00\x00\x01\xff"], [1])
