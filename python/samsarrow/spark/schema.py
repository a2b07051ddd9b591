"""The columns that Spark sees: those of Spark's own Kafka connector, in its order and with its types."""

from __future__ import annotations

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

# What the core calls types.
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
    """Schema of the DataFrame, every column nullable.

    Args:
        columns: names, in order.
        text: of key and value those that are strings.
        types: of columns that are decoded.
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
    """The same as Arrow types. Spark's Python source takes exactly these: no views, no dictionaries, microseconds."""
    known = {name: arrow for name, (_, arrow) in _TYPES.items()} | dict.fromkeys(text, pa.string())
    known |= {name: arrow_type(one) for name, one in (types or {}).items()}
    return pa.schema([pa.field(name, known[name]) for name in columns])


def chosen_columns(
    wanted: StructType, columns: tuple[str, ...], text: frozenset[str], types: Mapping[str, DataType] | None = None
) -> tuple[tuple[str, ...], frozenset[str]]:
    """What `.schema(...)` asks for: a choice of the columns in any order, key and value as binary or string.

    Args:
        wanted: the schema that Spark passes: the user's, or the source's own.
        columns: of the options.
        text: of the options.
        types: of columns that are decoded; which fields are chosen of them is not looked at.

    Raises:
        ConfigurationError: a column does not exist or has another type.
    """
    types = types or {}
    if wanted == spark_schema(columns, text, types):
        return columns, text
    everything = spark_schema((*COLUMNS, *(name for name in types if name not in COLUMNS)), (), types)
    as_text = set()
    for field in wanted.fields:
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
    if not wanted.names or len(set(wanted.names)) < len(wanted.names):
        raise ConfigurationError(f"a schema needs columns, each exactly once, not {wanted.simpleString()}")
    return tuple(wanted.names), frozenset(as_text)


class ToSpark:
    """Gives a consumer's batches of one partition the columns and types of `schema`, almost without copying.

    Args:
        schema: of the batches that Spark gets.
        topic: of all rows.
        decoded: the columns that are.
    """

    def __init__(self, schema: pa.Schema, topic: str, decoded: Iterable[str] = ()) -> None:
        self._schema = schema
        self._decoded = frozenset(decoded)
        self._topic = topic
        # The topic's name over and over: as long as the longest batch so far, and cut to size.
        self._topics = pa.array([], pa.string())

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows as Spark takes them."""
        columns = [self._column(batch, field) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
        if field.name == "topic":
            if len(self._topics) < batch.num_rows:
                self._topics = pa.repeat(pa.scalar(self._topic, pa.string()), batch.num_rows)
            return self._topics.slice(0, batch.num_rows)
        column = batch.column("timestamp_type" if field.name == "timestampType" else field.name)
        if field.name == "headers":
            return _null_where_empty(column)
        if field.name in self._decoded:
            return converted(column, field.type, field.name)
        if column.type == field.type:
            return column
        if field.name in ("key", "value"):
            # Here, where rows are: planning needs none of it, and its import takes as long as that of the rest.
            import pyarrow.compute as pc

            # As Spark's own cast of binary to string: bytes stay what they are.
            return pc.cast(column, options=pc.CastOptions(target_type=pa.string(), allow_invalid_utf8=True))
        return column.cast(field.type)


def _null_where_empty(headers: pa.Array) -> pa.Array:
    """A record without headers has null there, as with Spark's own connector."""
    import pyarrow.compute as pc

    empty = pc.equal(pc.list_value_length(headers), 0)
    return pc.if_else(empty, pa.scalar(None, headers.type), headers).cast(_TYPES["headers"][1])
