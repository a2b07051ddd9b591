"""Smoke test of an installed wheel with only its dependencies. Prints the number of checks.

The test is small, because it also runs under emulation; `make test` is the complete test.
"""

import asyncio
import importlib
import importlib.metadata
import platform
import sys
import threading

import pyarrow as pa
from click.testing import CliRunner

import samsarrow
from samsarrow import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Avro,
    Consumer,
    Json,
    KafkaError,
    NewTopic,
    Producer,
    Protobuf,
    decode_batches,
    decode_values,
    encode_batches,
    encode_values,
)
from samsarrow.testing import Broker, Registry

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
PATIENCE = 60.0
done: list[str] = []


def check(name: str, holds: object) -> None:
    """Counts the check if it succeeded; otherwise exits."""
    if not holds:
        sys.exit(f"smoke: {name} does not hold on Python {platform.python_version()}, {platform.machine()}")
    done.append(name)


def package() -> None:
    """All public names and the command exist, and the checkout is not imported."""
    for name in samsarrow.__all__:
        check(f"samsarrow.{name}", getattr(samsarrow, name) is not None)
    for name in ("cli", "metrics", "offsets", "testing", "tracing", "values"):
        check(f"samsarrow.{name} is imported", importlib.import_module(f"samsarrow.{name}"))
    files = {str(file) for file in importlib.metadata.files("samsarrow") or ()}
    for name in ("samsarrow/py.typed", "samsarrow/_core.pyi", "pyspark_samsarrow/__init__.py"):
        check(f"{name} is in the wheel", name in files)
    for name in ("LICENSE", "THIRD-PARTY-NOTICES"):
        check(f"{name} is in the wheel", any(file.endswith(f"licenses/{name}") for file in files))
    check("no tests are in the wheel", not any(file.startswith("tests/") for file in files))
    ran = CliRunner().invoke(importlib.import_module("samsarrow.cli").cli, ["--version"])
    check("the command line says the version", importlib.metadata.version("samsarrow") in ran.output)


def codecs(rows: pa.RecordBatch) -> None:
    """Encodes and decodes each codec in both layouts, and decodes damaged bytes."""
    for codec in CODECS:
        data = encode_batches(rows, compression=codec)
        for layout in ("binary", "view"):
            back = decode_batches(data, layout=layout)
            check(f"{codec}, {layout}", back["value"].to_pylist() == rows["value"].to_pylist())
        damaged = bytearray(data)
        damaged[len(data) // 2] ^= 0x20
        try:
            decode_batches(bytes(damaged))
        except KafkaError:
            check(f"{codec} damaged", True)
        else:
            check(f"{codec} damaged", False)


def typed() -> None:
    """Encodes and decodes each format."""
    rows = pa.table({"id": pa.array([7, 8], pa.int64()), "city": ["Rome", "Ulm"]})
    record = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "id", "type": "long"}, {"name": "city", "type": "string"}],
    }
    text = 'syntax = "proto3"; message R { int64 id = 1; string city = 2; }'
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "city": {"type": "string"}}}
    formats = {
        "Avro": Avro(record, framing="none"),
        "Json": Json(schema, framing="none"),
        "Protobuf": Protobuf(text, framing="none"),
    }
    for name, one in formats.items():
        check(name, decode_values(encode_values(rows, one), one).to_pylist() == rows.to_pylist())
    with Registry() as server, samsarrow.SchemaRegistry(server.url) as registry:
        values = encode_values(rows, Avro(registry, name="R"), topic="t")
        check("a registry", decode_values(values, Avro(registry), topic="t").to_pylist() == rows.to_pylist())


def read(servers: str, topic: str, count: int, **options: object) -> pa.Table:
    """Reads a topic in a group, and commits."""
    batches: list[pa.RecordBatch] = []
    with Consumer(bootstrap_servers=servers, auto_offset_reset="earliest", **options) as consumer:
        consumer.subscribe([topic])
        while sum(batch.num_rows for batch in batches) < count:
            batch = consumer.poll(timeout=PATIENCE)
            check("a poll brings rows", batch.num_rows)
            batches.append(batch)
        consumer.commit()
        check("no lag is left", sum(consumer.lag().values()) == 0)
    return pa.Table.from_batches(batches)


def clients(rows: pa.RecordBatch) -> None:
    """Tests producers, groups, transactions and admin, in plaintext and with TLS."""
    with Broker() as broker:
        servers = broker.bootstrap_servers
        with Admin(bootstrap_servers=servers) as admin:
            admin.create_topics([NewTopic("t", num_partitions=3), NewTopic("x", num_partitions=1)])
            check("topics are listed", {"t", "x"} <= set(admin.list_topics()))
        with Producer(bootstrap_servers=servers, compression_type="zstd") as producer:
            producer.send_batch("t", rows, key="key", value="value").result(PATIENCE)
            check("a record has an offset", producer.send("t", b"v", partition=0).result(PATIENCE).offset >= 0)
        for protocol in ("classic", "consumer"):
            table = read(servers, "t", rows.num_rows + 1, group_id=f"g-{protocol}", group_protocol=protocol)
            check(f"all rows, group.protocol={protocol}", table.num_rows == rows.num_rows + 1)
        with Producer(bootstrap_servers=servers, transactional_id="one") as producer:
            with producer.transaction():
                producer.send("x", b"kept")
            producer.begin_transaction()
            producer.send("x", b"dropped")
            producer.abort_transaction()
        table = read(servers, "x", 1, group_id="x", isolation_level="read_committed")
        check("what was aborted is not read", table["value"].to_pylist() == [b"kept"])
        asyncio.run(loop(servers))
    with Broker(topics={"t": 1}, security="SASL_SSL", users={"alice": "secret"}) as broker:
        with Producer(broker.client_options("alice")) as producer:
            check("TLS and a login", producer.send("t", b"v").result(PATIENCE).offset == 0)
        try:
            with Producer({**broker.client_options("alice"), "sasl.password": "wrong"}, max_block_ms=5000) as producer:
                producer.send("t", b"v").result(PATIENCE)
        except KafkaError as error:
            check("a wrong password is an error", "secret" not in str(error))
        else:
            check("a wrong password is an error", False)


async def loop(servers: str) -> None:
    """Tests a producer and a consumer on an event loop."""
    async with AsyncProducer(bootstrap_servers=servers) as producer:
        check("awaited", (await producer.send_and_wait("t", b"v")).offset >= 0)
    async with AsyncConsumer(bootstrap_servers=servers, group_id="loop", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["t"])
        check("polled on a loop", (await consumer.poll(PATIENCE)).num_rows)


def main() -> None:
    """Runs all checks."""
    rows = pa.record_batch(
        {"key": [b"k%d" % (i % 50) for i in range(2000)], "value": [b"value %d" % i * (i % 9) for i in range(2000)]}
    )
    package()
    codecs(rows)
    typed()
    clients(rows)
    # Waits, because another thread writes the log lines of the Rust client.
    left = {thread.name for thread in threading.enumerate()} - {"MainThread", "samsarrow-log"}
    check(f"no thread is left: {left}", not left)
    print(len(done))


main()
