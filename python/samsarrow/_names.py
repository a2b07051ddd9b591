"""Names of classes and methods: messages for unknown names, and names of inherited methods in errors of Python."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from difflib import get_close_matches
from types import FunctionType

# Public modules with classes that are not attributes of `samsarrow`.
_MODULES = ("exceptions", "admin_types", "cluster_types", "group_types", "config", "offsets", "testing", "tracing")

# Names of classes in confluent-kafka, kafka-python and aiokafka that do not exist here, with their names here.
CLASSES = {
    "AIOConsumer": "AsyncConsumer",
    "AIOKafkaAdminClient": "AsyncAdmin",
    "AIOKafkaConsumer": "AsyncConsumer",
    "AIOKafkaProducer": "AsyncProducer",
    "AIOProducer": "AsyncProducer",
    "AdminClient": "Admin",
    "AsyncSchemaRegistryClient": "AsyncSchemaRegistry",
    "AvroDeserializer": "Avro",
    "AvroSerializer": "Avro",
    "ConsumerRebalanceListener": "RebalanceListener",
    "DeserializingConsumer": "Consumer",
    "JSONDeserializer": "Json",
    "JSONSerializer": "Json",
    "KafkaAdminClient": "Admin",
    "KafkaConsumer": "Consumer",
    "KafkaException": "KafkaError",
    "KafkaProducer": "Producer",
    "ProtobufDeserializer": "Protobuf",
    "ProtobufSerializer": "Protobuf",
    "SchemaRegistryClient": "SchemaRegistry",
    "SerializingProducer": "Producer",
}
# Methods of these clients that do not exist here, with their replacements. Producers have no such table, because a
# method `__getattr__` would double the duration of attribute lookups in `send`.
METHODS = {
    "Consumer": {
        "bootstrap_connected": "clients connect on the first call",
        "consume": "use poll(max_records=…), which returns a batch of rows, or records()",
        "get_watermark_offsets": "use beginning_offsets() and end_offsets()",
        "getmany": "use poll(), which returns a batch of rows",
        "getone": "use records()",
        "highwater": "use end_offsets(), or lag()",
        "incremental_assign": "use assign() with all partitions",
        "incremental_unassign": "use assign() with the remaining partitions",
        "list_topics": "use topics()",
        "memberid": "use group_metadata()",
        "partitions_for_topic": "use partitions_for()",
        "start": "leave it out: clients connect on the first call",
        "stop": "use close()",
        "unassign": "use assign([])",
    },
    "Admin": {
        "alter_consumer_group_offsets": "use commit_offsets()",
        "delete_consumer_groups": "use delete_groups()",
        "describe_consumer_groups": "use describe_groups()",
        "describe_log_dirs": "use log_dirs()",
        "describe_user_scram_credentials": "use describe_users()",
        "alter_user_scram_credentials": "use alter_users()",
        "incremental_alter_configs": "use alter_configs()",
        "list_consumer_group_offsets": "use fetch_offsets()",
        "list_consumer_groups": "use list_groups()",
        "start": "leave it out: clients connect on the first call",
        "stop": "use close()",
    },
}


def unknown_name(name: str, known: Iterable[str]) -> AttributeError:
    """Returns the error for an unknown attribute of `samsarrow`.

    Its message has the module that defines the name, the name of another client's class here, or the nearest name.
    """
    text = f"module 'samsarrow' has no attribute {name!r}"
    if name in CLASSES:
        return AttributeError(f"{text}: use samsarrow.{CLASSES[name]}", name=name)
    for module in _MODULES if name[:1].isupper() else ():
        home = f"samsarrow.{module}"
        found = getattr(importlib.import_module(home), name, None)
        if isinstance(found, type) and found.__module__.startswith("samsarrow."):
            return AttributeError(f"{text}: import it from {home}", name=name)
    near = get_close_matches(name, list(known), 1)
    return AttributeError(f"{text}{f'; did you mean {near[0]}?' if near else ''}", name=name)


def unknown_method(client: object, name: str) -> AttributeError:
    """Returns the error for an unknown attribute of a client, with the name of another client's method here."""
    kind = type(client)
    remedies = next(
        (METHODS[of] for base in kind.__mro__ if (of := base.__name__.removeprefix("Async")) in METHODS), {}
    )
    text = f"{kind.__name__!r} object has no attribute {name!r}"
    return AttributeError(f"{text}: {remedies[name]}" if name in remedies else text, name=name, obj=client)


def rename_methods(cls: type) -> None:
    """Copies public methods that a public class inherits from private modules, so that they have its name.

    A TypeError of Python for wrong arguments then names `Consumer.subscribe()` and not the method of the base class.
    """
    if not cls.__module__.startswith("samsarrow.") or "._" in cls.__module__:
        return
    for base in cls.__mro__[1:]:
        if "._" not in base.__module__:
            continue
        for name, member in vars(base).items():
            if isinstance(member, FunctionType) and (name == "__init__" or name[0] != "_") and name not in vars(cls):
                copy = FunctionType(member.__code__, member.__globals__, name, member.__defaults__, member.__closure__)
                copy.__dict__.update(member.__dict__)
                copy.__kwdefaults__, copy.__annotations__ = member.__kwdefaults__, member.__annotations__
                copy.__doc__, copy.__module__ = member.__doc__, member.__module__
                copy.__qualname__ = f"{cls.__qualname__}.{name}"
                setattr(cls, name, copy)
