"""Decodes typed values of a topic into Arrow columns, with schemas from a registry."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from clients import events
from harness import RECORDS, cpu_us, create_topic, medians, record, run_module, sections
from samsarrow import Producer, SchemaRegistry
from samsarrow.testing import Registry
from support.kafka import KafkaServer

# Clients that create an object per record are slow, so they read only a part of the topic.
FEW = RECORDS // 50
COUNTS = {"bytes": RECORDS, "ours": RECORDS, "two": RECORDS, "confluent": FEW, "parsed": FEW}
NAMES = {"bytes": "ours, bytes alone", "two": "ours, two fields", "parsed": "confluent, orjson or upb"}
CLIENTS = {
    "avro": ["bytes", "ours", "two", "confluent"],
    "json": ["bytes", "ours", "two", "confluent", "parsed"],
    "protobuf": ["bytes", "ours", "two", "confluent", "parsed"],
}
ROUNDS = 3


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry() as server:
        yield server


def write(kafka: KafkaServer, registry: Registry, form: str) -> str:
    """Writes a topic of events."""
    topic = create_topic(kafka, f"values-{form}")
    with SchemaRegistry(registry.url) as client:
        schema, kind = events.SCHEMAS[form]
        number = client.register(f"{topic}-value", schema, schema_type=kind)
    values = pa.array(events.framed(form, number), pa.binary())
    with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        for start in range(0, RECORDS, len(values)):
            producer.send_batch(topic, pa.record_batch({"value": values.slice(0, RECORDS - start)}))
        producer.flush(120)
    return topic


@pytest.mark.timeout(900)
@pytest.mark.parametrize("form", CLIENTS)
def test_values(benchmark: Any, kafka: KafkaServer, registry: Registry, form: str) -> None:
    topic, title = write(kafka, registry, form), f"{form} values into columns"

    def once() -> None:
        for client in CLIENTS[form]:
            count = COUNTS[client]
            result = run_module("clients.typed", client, form, kafka.bootstrap_servers, topic, count, registry.url)
            # Batches may exceed the requested count.
            assert result["rows"] >= count
            if client != "bytes":
                assert result.pop("sums") == events.sums(result["rows"])
            record(title, NAMES.get(client, client), result)

    benchmark.pedantic(once, rounds=ROUNDS)
    cpu = {name: cpu_us(result) for name, result in medians(title).items()}
    decoding = cpu["ours"] - cpu["ours, bytes alone"]
    peers = [f"{name} {cpu[name]:.2f} us, {cpu[name] / cpu['ours']:.0f} x" for name in cpu if "confluent" in name]
    sections["CPU of values"].append(
        f"{form}: {cpu['ours']:.3f} us a record, {decoding:.3f} of them for decoding; {'; '.join(peers)}; two fields "
        f"{(cpu['ours, two fields'] - cpu['ours, bytes alone']) / decoding:.2f} of all"
    )
