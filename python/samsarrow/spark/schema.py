"""Columns of the DataFrame, which have the order and the types of Spark's own Kafka connector."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])

# Types of columns, by the names of the types in the Rust client.
_KINDS: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "timestamp": TimestampType(),
    "headers": ArrayType(_HEADER),
}
_TYPES = {name: _KINDS[kind] for name, kind in _core.spark_columns()}
COLUMNS = tuple(_TYPES)


def spark_schema(
    columns: Sequence[str], text: Iterable[str] = (), types: Mapping[str, DataType] | None = None
) -> StructType:
    """Returns the schema of the DataFrame; all columns are nullable.

    Args:
        columns: names of the columns, in order.
        text: names of the columns that are strings, `key` or `value` or both.
        types: types of decoded columns.
    """
    known = {**_TYPES, **dict.fromkeys(text, StringType()), **(types or {})}
    return StructType([StructField(name, known[name]) for name in columns])


def chosen_columns(
    requested: StructType, columns: tuple[str, ...], text: frozenset[str], types: Mapping[str, DataType] | None = None
) -> tuple[tuple[str, ...], frozenset[str]]:
    """Returns the columns that `.schema(...)` selects, and the names of key and value if they are strings.

    Args:
        requested: the schema that Spark passes, which is the user's schema or the schema of the source.
        columns: columns that the options select.
        text: columns that are text according to the options.
        types: types of decoded columns. A selection of their fields is not checked here.

    Raises:
        ConfigurationError: a column does not exist or has another type.
    """
    types = types or {}
    if requested == spark_schema(columns, text, types):
        return columns, text
    everything = spark_schema((*COLUMNS, *(name for name in types if name not in COLUMNS)), (), types)
    as_text = set()
    for field in requested.fields:
        if field.name in types:
            continue
        is_text = field.name in ("key", "value") and field.dataType == StringType()
        if field.name not in _TYPES or not (is_text or field.dataType == _TYPES[field.name]):
            raise ConfigurationError(
                f"column {field.name} {field.dataType.simpleString()} cannot be read: this source has "
                f"{everything.simpleString()}, of which .schema(...) may choose, key and value as binary "
                "or string; cast other columns in the DataFrame"
            )
        if is_text:
            as_text.add(field.name)
    if not requested.names or len(set(requested.names)) < len(requested.names):
        raise ConfigurationError(f"a schema needs columns, each exactly once, not {requested.simpleString()}")
    return tuple(requested.names), frozenset(as_text)
