"""Names of classes and methods: messages for unknown names, and names of inherited methods in errors of Python."""

from __future__ import annotations

import dis
import importlib
from collections.abc import Iterable
from difflib import get_close_matches
from types import FrameType, FunctionType
from typing import Any

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
    "AvroConsumer": "Consumer",
    "AvroDeserializer": "Avro",
    "AvroProducer": "Producer",
    "AvroSerializer": "Avro",
    "ConsumerRebalanceListener": "RebalanceListener",
    "DeserializingConsumer": "Consumer",
    "JSONDeserializer": "Json",
    "JSONSerializer": "Json",
    "KafkaAdminClient": "Admin",
    "KafkaConsumer": "Consumer",
    "KafkaException": "KafkaError",
    "KafkaProducer": "Producer",
    "Message": "ConsumerRecord",
    "ProtobufDeserializer": "Protobuf",
    "ProtobufSerializer": "Protobuf",
    "SchemaRegistryClient": "SchemaRegistry",
    "SerializingProducer": "Producer",
}
# Constants of these clients that do not exist here, with their replacements.
CONSTANTS = {
    "OFFSET_BEGINNING": "use Consumer.seek_to_beginning()",
    "OFFSET_END": "use Consumer.seek_to_end()",
    "OFFSET_INVALID": "offsets that do not exist are None",
    "OFFSET_STORED": "use Consumer.seek_to_committed()",
}
# Methods of these clients that do not exist here, with their replacements.
METHODS = {
    "Producer": {
        "bootstrap_connected": "clients connect on the first call",
        "create_batch": "use send_batch(), which takes a table",
        "list_topics": "use partitions_for(), or Admin.list_topics()",
        "poll": "leave it out: callbacks need no poll, and close() and flush() wait for them",
        "produce": "use send(topic, value, key=…), whose callback on_delivery(metadata, error) has the error last",
        "produce_batch": "use send_batch(), which takes a table",
        "start": "leave it out: clients connect on the first call",
        "stop": "use close()",
    },
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
    "ShareConsumer": {
        "assign": "use subscribe(): the group assigns partitions",
        "commit_sync": "use commit()",
        "committed": "use Admin.list_share_offsets(): share groups have start offsets",
        "consume": "use poll(), which returns a batch of rows, or records()",
        "lag": "use Admin.list_share_offsets(), whose results have the lag",
        "pause": "leave out poll() and the rows stay with the group",
        "position": "use Admin.list_share_offsets(): share groups have start offsets",
        "reader": "use poll(), or iterate over the consumer",
        "seek": "use Admin.alter_share_offsets() while the group has no members",
        "set_acknowledgement_commit_callback": "use commit_async(callback)",
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


class OtherClientsMethod:
    """A method of another client's producer, whose lookup raises AttributeError with the replacement.

    Producers have these instead of a method `__getattr__`, which would double the duration of attribute lookups in
    `send`.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        # `help()` shows it.
        self.__doc__ = f"A method of other clients: {METHODS['Producer'][name]}."

    def __get__(self, client: object, kind: type) -> Any:
        raise _unknown_method(client, kind, self._name)


def unknown_name(
    name: str, known: Iterable[str], module: str, caller: FrameType | None
) -> AttributeError | ImportError:
    """Returns the error for an unknown attribute of a module.

    Its message has the module that defines the name, the name of another client's class here, or the nearest name.

    Args:
        name: the unknown name.
        known: names that exist.
        module: name of the module.
        caller: frame that looks up the attribute. For `from samsarrow import name` the error is an ImportError, because
            Python would replace an AttributeError by an ImportError without the message.
    """
    remedy = _remedy_for_name(name, known)
    # The import statement first calls `hasattr`, which must get an AttributeError.
    if remedy and caller is not None and dis.opname[caller.f_code.co_code[caller.f_lasti]] == "IMPORT_FROM":
        return ImportError(f"cannot import name {name!r} from {module!r}{remedy}", name=module)
    return AttributeError(f"module {module!r} has no attribute {name!r}{remedy}", name=name)


def _remedy_for_name(name: str, known: Iterable[str]) -> str:
    if name in CLASSES:
        return f": use samsarrow.{CLASSES[name]}"
    if name in CONSTANTS:
        return f": {CONSTANTS[name]}"
    if name in importlib.import_module("samsarrow").__all__:
        return ": import it from samsarrow"
    for module in _MODULES if name[:1].isupper() else ():
        home = f"samsarrow.{module}"
        found = getattr(importlib.import_module(home), name, None)
        if isinstance(found, type) and found.__module__.startswith("samsarrow."):
            return f": import it from {home}"
    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def unknown_method(client: object, name: str) -> AttributeError:
    """Returns the error for an unknown attribute of a client, with the name of another client's method here."""
    return _unknown_method(client, type(client), name)


def _unknown_method(client: object | None, kind: type, name: str) -> AttributeError:
    remedies = next(
        (METHODS[of] for base in kind.__mro__ if (of := base.__name__.removeprefix("Async")) in METHODS), {}
    )
    subject = f"type object {kind.__name__!r}" if client is None else f"{kind.__name__!r} object"
    text = f"{subject} has no attribute {name!r}"
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
