"""Decodes typed values of a topic into Arrow columns: `python -m clients.typed CLIENT FORMAT SERVERS TOPIC COUNT
REGISTRY`.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import confluent_kafka as ck
import orjson
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from samsarrow import Avro, Consumer, Json, Protobuf, SchemaRegistry

from . import events
from .watch import Watch

Decode = Callable[[bytes], Any]
FORMATS: dict[str, Any] = {"avro": Avro, "json": Json, "protobuf": Protobuf}


def ours(form: str, servers: str, topic: str, count: int, registry: str) -> Iterator[pa.Array]:
    """Decodes into columns in the consumer."""
    with SchemaRegistry(registry) as client:
        yield from _ours(servers, topic, count, FORMATS[form](client))


def two(form: str, servers: str, topic: str, count: int, registry: str) -> Iterator[pa.Array]:
    """Decodes two of eight fields."""
    with SchemaRegistry(registry) as client:
        yield from _ours(servers, topic, count, FORMATS[form](client, fields=["id", "price"]))


def bytes_alone(form: str, servers: str, topic: str, count: int, registry: str) -> Iterator[pa.Array]:
    """Fetches without decoding."""
    yield from _ours(servers, topic, count, None)


def _ours(servers: str, topic: str, count: int, value_format: Any) -> Iterator[pa.Array]:
    options: dict[str, Any] = {"bootstrap_servers": servers, "auto_offset_reset": "earliest"}
    with Consumer(**options, value_format=value_format) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        rows = 0
        while rows < count:
            batch = consumer.poll(5.0)
            if batch.num_rows == 0:
                raise RuntimeError(f"nothing came after {rows} of {count} records")
            rows += batch.num_rows
            yield batch.column("value")


def confluent(form: str, servers: str, topic: str, count: int, registry: str) -> Iterator[pa.Array]:
    """Uses confluent-kafka's deserializer, and builds a table of the dicts."""
    client = SchemaRegistryClient({"url": registry})
    context = SerializationContext(topic, MessageField.VALUE)
    if form == "avro":
        deserializer: Any = AvroDeserializer(client)
    elif form == "json":
        deserializer = JSONDeserializer(json.dumps(events.JSON), schema_registry_client=client)
    else:
        deserializer = ProtobufDeserializer(events.message_class(), {"use.deprecated.format": False}, client)
    row = to_row if form == "protobuf" else lambda value: value
    yield from _confluent(servers, topic, count, lambda value: row(deserializer(value, context)))


def parsed(form: str, servers: str, topic: str, count: int, registry: str) -> Iterator[pa.Array]:
    """Uses confluent-kafka's messages and the fastest parser for Python: orjson, or upb."""
    if form == "json":
        yield from _confluent(servers, topic, count, lambda value: orjson.loads(value[5:]))
    else:
        parse = events.message_class().FromString
        yield from _confluent(servers, topic, count, lambda value: to_row(parse(value[6:])))


def to_row(message: Any) -> tuple[Any, ...]:
    """Returns the fields of a message in the order of the columns."""
    currency = message.currency if message.HasField("currency") else None
    return (
        message.id, message.user, message.event, message.page, message.session, message.price, currency, message.member,
    )  # fmt: skip


def _confluent(servers: str, topic: str, count: int, decode: Decode) -> Iterator[pa.Array]:
    consumer = ck.Consumer({"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([ck.TopicPartition(topic, 0, ck.OFFSET_BEGINNING)])
    rows = 0
    while rows < count:
        messages = consumer.consume(min(10_000, count - rows), 5.0)
        if not messages:
            raise RuntimeError(f"nothing came after {rows} of {count} records")
        decoded = [decode(message.value()) for message in messages]
        rows += len(decoded)
        yield pa.array(decoded, events.TYPE)
    consumer.close()


def main() -> None:
    client, form, servers, topic, count, registry = sys.argv[1:7]
    read = {"ours": ours, "two": two, "bytes": bytes_alone, "confluent": confluent, "parsed": parsed}[client]
    watch, rows, sums = Watch(), 0, {"id": 0, "price": 0}
    for array in read(form, servers, topic, int(count), registry):
        rows += len(array)
        if pa.types.is_struct(array.type):
            for name in sums:
                sums[name] += pc.sum(array.field(name)).as_py()
    print(json.dumps({**watch.found(rows), "sums": sums}))


if __name__ == "__main__":
    main()
