"""Columns of the DataFrame, which have the order and the types of Spark's own Kafka connector."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
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
from samsarrow.spark.types import arrow_type, converted

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_ARROW_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

# Spark and Arrow types of columns, by the names of the types in the Rust client.
_KINDS: dict[str, tuple[DataType, pa.DataType]] = {
    "binary": (BinaryType(), pa.binary()),
    "string": (StringType(), pa.string()),
    "int": (IntegerType(), pa.int32()),
    "long": (LongType(), pa.int64()),
    "timestamp": (TimestampType(), pa.timestamp("us", "UTC")),
    "headers": (ArrayType(_HEADER), pa.list_(pa.field("element", _ARROW_HEADER))),
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
    known = {
        **{name: spark for name, (spark, _) in _TYPES.items()},
        **dict.fromkeys(text, StringType()),
        **(types or {}),
    }
    return StructType([StructField(name, known[name]) for name in columns])


def arrow_schema(
    columns: Sequence[str], text: Iterable[str] = (), types: Mapping[str, DataType] | None = None
) -> pa.Schema:
    """Returns the Arrow schema for Spark, which accepts no views or dictionaries, and only times in microseconds."""
    known = {name: arrow for name, (_, arrow) in _TYPES.items()} | dict.fromkeys(text, pa.string())
    known |= {name: arrow_type(kind) for name, kind in (types or {}).items()}
    return pa.schema([pa.field(name, known[name]) for name in columns])


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
        if field.name not in _TYPES or not (is_text or field.dataType == _TYPES[field.name][0]):
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


class ToSpark:
    """Converts a consumer's batches of one partition to the columns and types of `schema`, almost without copying.

    Args:
        schema: schema of the batches for Spark.
        topic: topic of all rows.
        decoded: names of decoded columns.
    """

    def __init__(self, schema: pa.Schema, topic: str, decoded: Iterable[str] = ()) -> None:
        self._schema = schema
        self._decoded = frozenset(decoded)
        self._topic = topic
        # The name of the topic, repeated for the longest batch so far. Shorter batches use a slice.
        self._topics = pa.nulls(0, pa.string())

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Converts a batch to the columns and types of the schema."""
        columns = [self._column(batch, field) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name == "topic":
            if len(self._topics) < batch.num_rows:
                self._topics = _repeated(self._topic, batch.num_rows)
            return self._topics.slice(0, batch.num_rows)
        column = batch.column("timestamp_type" if field.name == "timestampType" else field.name)
        if field.name == "headers":
            return _null_where_empty(column)
        if field.name in self._decoded:
            return converted(column, field.type, field.name)
        if column.type == field.type:
            return column
        if field.name in ("key", "value"):
            # Imported here because planning does not need the module, and its import takes as long as all other imports
            # together.
            import pyarrow.compute as pc

            # Keeps invalid UTF-8, like Spark's own cast of binary to string.
            return pc.cast(column, options=pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True))
        return column.cast(field.type)


def _repeated(text: str, count: int) -> pa.Array:
    """Returns a text `count` times.

    `pa.scalar` and `pa.array` import pandas, which would take longer than all other imports of a worker together.
    """
    data = text.encode()
    ends = array("i", range(0, (count + 1) * len(data), len(data)))
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def _null_where_empty(headers: pa.Array) -> pa.Array:
    """Replaces empty lists of headers by null, as Spark's own connector does."""
    import pyarrow.compute as pc

    empty = pc.equal(pc.list_value_length(headers), 0)
    return pc.if_else(empty, pa.scalar(None, headers.type), headers).cast(_TYPES["headers"][1])
