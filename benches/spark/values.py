"""Reads Avro and JSON of eight fields: through Spark's connector with `from_avro` and `from_json`, and through our
sources.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from shapes import JVM, KAFKA, PARTITIONS, PYTHON, noop

from samsarrow import Admin, Avro, Json, NewTopic, Producer, SchemaRegistry

# Minimum speed of our decoding relative to the connector with Spark's functions.
FLOORS = {"avro": 3.0, "json": 8.0}
AVRO = """{"type": "record", "name": "Event", "fields": [
    {"name": "id", "type": "long"}, {"name": "user", "type": "string"},
    {"name": "event", "type": "string"}, {"name": "page", "type": "string"}, {"name": "session", "type": "long"},
    {"name": "price", "type": "int"}, {"name": "currency", "type": ["null", "string"], "default": null},
    {"name": "member", "type": "boolean"}]}"""
JSON = """{"type": "object", "properties": {"id": {"type": "integer"}, "user": {"type": "string"},
    "event": {"type": "string"}, "page": {"type": "string"}, "session": {"type": "integer"},
    "price": {"type": "integer"}, "currency": {"type": ["null", "string"]}, "member": {"type": "boolean"}}}"""
DDL = "id bigint, user string, event string, page string, session bigint, price bigint, currency string, member boolean"


def events(records: int) -> pa.Table:
    numbers = range(records)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "user": [f"u{i * 7919 % 1_000_000}" for i in numbers],
            "event": [("view", "click", "buy", "search")[i % 4] for i in numbers],
            "page": [f"/shop/{i % 5000}" for i in numbers],
            "session": pa.array([i * 2_654_435_761 % (1 << 40) for i in numbers], pa.int64()),
            "price": pa.array([i % 90_000 for i in numbers], pa.int32()),
            "currency": [None if i % 3 == 0 else "EUR" for i in numbers],
            "member": [i % 3 == 2 for i in numbers],
        }
    )


def fill(servers: str, registry: str, records: int) -> None:
    """Writes topics of the same events, framed with schema ids of the registry."""
    rows = events(records)
    with Admin(bootstrap_servers=servers) as admin:
        admin.create_topics([NewTopic(f"bench-{form}", PARTITIONS, 1) for form in FLOORS])
    with SchemaRegistry(registry) as client:
        for form, value_format in (("avro", Avro(client, schema=AVRO)), ("json", Json(client, schema=JSON))):
            with Producer(bootstrap_servers=servers, batch_size=131_072) as producer:
                producer.send_batch(f"bench-{form}", rows, value=rows.column_names, value_format=value_format).result(
                    600
                )


def runs(spark: Any, servers: str, registry: str, form: str, records: int) -> dict[str, Callable[[], object]]:
    """Decodes all fields of all events and discards them; first checks the sum of ids."""
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import col, expr, from_json

    options = {"kafka.bootstrap.servers": servers, "subscribe": f"bench-{form}"}

    def connector() -> Any:
        bare = expr("substring(value, 6)")
        typed = from_avro(bare, AVRO) if form == "avro" else from_json(bare.cast("string"), DDL)
        return spark.read.format(KAFKA).options(**options).load().select(typed.alias("value"))

    def ours(source: str) -> Any:
        more = {"value.format": form, "schema.registry.url": registry, "columns": "value"}
        return spark.read.format(source).options(**options, **more).load()

    made = {KAFKA: connector, PYTHON: lambda: ours(PYTHON), JVM: lambda: ours(JVM)}
    for read in made.values():
        [(total, members)] = read().select(expr("sum(value.id)"), expr("count_if(value.member)")).collect()
        assert (total, members) == (records * (records - 1) // 2, len(range(2, records, 3))), (total, members)
    return {source: lambda read=read: noop(read().select(col("value"))) for source, read in made.items()}
