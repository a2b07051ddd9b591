"""Options of writes, and what a DataFrame must look like to be written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from samsarrow.exceptions import ConfigurationError
from samsarrow.spark.options import kafka_options, refuse_misspelt
from samsarrow.spark.values import boolean

_REFUSED_KAFKA = {
    "key.serializer": "the column key is sent as it is, binary or string",
    "value.serializer": "the column value is sent as it is, binary or string",
    "partitioner.class": "partitioners are Java classes; give the column partition, or kafka.partitioner",
    "transactional.id": "use exactlyOnce=true, which names its transactions itself",
}
_KNOWN = ("topic", "exactlyOnce", "transactionalIdPrefix")
_BYTES = "binary or string"


@dataclass(frozen=True)
class WriteOptions:
    """Checked options of a write.

    Attributes:
        kafka: options of the producer, the prefix `kafka.` taken off.
        topic: for all rows, whatever the column `topic` says; None lets the column decide.
        exactly_once: whether a streaming query writes each micro-batch in transactions.
        prefix: of the names of those transactions, if it was given.
        columns: that are sent, of those that there are.
    """

    kafka: dict[str, str]
    topic: str | None
    exactly_once: bool
    prefix: str | None
    columns: tuple[str, ...]

    @classmethod
    def parse(cls, options: Mapping[str, str], schema: StructType) -> WriteOptions:
        """Checks options and columns, before anything is sent.

        Raises:
            ConfigurationError: an option is missing or has a value that cannot be; a column is missing or has a type
                that cannot be sent.
        """
        given = {name.lower(): value for name, value in options.items()}
        refuse_misspelt(given, _KNOWN)
        kafka = kafka_options(given, _REFUSED_KAFKA)
        kafka.setdefault("client.id", "samsarrow-spark")
        topic = given.get("topic", "").strip() or None
        return cls(
            kafka=kafka,
            topic=topic,
            exactly_once=boolean(given, "exactlyOnce"),
            prefix=given.get("transactionalidprefix"),
            columns=_columns(schema, topic),
        )


def _columns(schema: StructType, topic: str | None) -> tuple[str, ...]:
    types = {field.name: field.dataType for field in schema.fields}
    if "value" not in types:
        raise ConfigurationError(
            f"there is no column value to be written, only {', '.join(types) or 'none'}: "
            "select(to_json(struct('*')).alias('value')) makes one of all"
        )
    if topic is None and "topic" not in types:
        raise ConfigurationError("it is not said which topic to write to: give the option topic or a column topic")
    for name, (good, text) in _EXPECTED.items():
        if name in types and not good(types[name]):
            raise ConfigurationError(f"column {name} must be {text} to be written, not {types[name].simpleString()}")
    return tuple(name for name in _EXPECTED if name in types and (name != "topic" or topic is None))


def _is_bytes(given: DataType) -> bool:
    return isinstance(given, BinaryType | StringType)


def _is_headers(given: DataType) -> bool:
    if not isinstance(given, ArrayType) or not isinstance(given.elementType, StructType):
        return False
    fields = given.elementType.fields
    return [f.name for f in fields] == ["key", "value"] and isinstance(fields[0].dataType, StringType) and (
        isinstance(fields[1].dataType, BinaryType)
    )  # fmt: skip


_EXPECTED = {
    "key": (_is_bytes, _BYTES),
    "value": (_is_bytes, _BYTES),
    "headers": (_is_headers, "array<struct<key:string,value:binary>>"),
    "topic": (lambda given: isinstance(given, StringType), "string"),
    "partition": (lambda given: isinstance(given, IntegerType), "int"),
    "timestamp": (lambda given: isinstance(given, TimestampType | TimestampNTZType), "timestamp"),
}
