"""Types of typed keys and values: Arrow's as Spark's, and columns as Spark takes them."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from samsarrow.exceptions import BadValueError, ConfigurationError

_SAME: dict[pa.DataType, DataType] = {
    pa.null(): NullType(),
    pa.bool_(): BooleanType(),
    pa.int8(): ByteType(),
    pa.int16(): ShortType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.string(): StringType(),
    pa.binary(): BinaryType(),
    pa.date32(): DateType(),
    pa.timestamp("us", "UTC"): TimestampType(),
    pa.timestamp("us"): TimestampNTZType(),
}
# Numbers without a sign, and times of day, as Spark's from_avro and from_protobuf have them.
_WIDER: dict[pa.DataType, DataType] = {
    pa.uint8(): ShortType(),
    pa.uint16(): IntegerType(),
    pa.uint32(): LongType(),
    pa.uint64(): DecimalType(20, 0),
    pa.time32("ms"): IntegerType(),
    pa.time64("us"): LongType(),
}
_ARROW = {spark: arrow for arrow, spark in _SAME.items()}


def spark_type(arrow: pa.DataType, path: str) -> DataType:
    """The type as Spark's, all that is in it nullable.

    Args:
        arrow: of a column that a format decodes.
        path: for errors: `value.user.city`.

    Raises:
        ConfigurationError: Spark has no such type.
    """
    found = _SAME.get(arrow) or _WIDER.get(arrow)
    if found is not None:
        return found
    if pa.types.is_struct(arrow):
        return StructType([StructField(one.name, spark_type(one.type, f"{path}.{part(one.name)}")) for one in arrow])
    if pa.types.is_list(arrow):
        return ArrayType(spark_type(arrow.value_type, path))
    if pa.types.is_map(arrow):
        return MapType(spark_type(arrow.key_type, path), spark_type(arrow.item_type, path))
    if pa.types.is_timestamp(arrow):
        return TimestampNTZType() if arrow.tz is None else TimestampType()
    if pa.types.is_decimal128(arrow) and 0 <= arrow.scale <= arrow.precision:
        return DecimalType(arrow.precision, arrow.scale)
    if pa.types.is_fixed_size_binary(arrow):
        return BinaryType()
    column = path.split(".", 1)[0]
    raise ConfigurationError(
        f"{path} is of type {arrow}, which Spark does not have: select the other fields with the option {column}.fields"
    )


def arrow_type(spark: DataType) -> pa.DataType:
    """A type that `spark_type` gives, as Spark takes it in Arrow."""
    if isinstance(spark, StructType):
        return pa.struct([pa.field(one.name, arrow_type(one.dataType)) for one in spark.fields])
    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("element", arrow_type(spark.elementType)))
    if isinstance(spark, MapType):
        return pa.map_(arrow_type(spark.keyType), arrow_type(spark.valueType))
    if isinstance(spark, DecimalType):
        return pa.decimal128(spark.precision, spark.scale)
    return _ARROW[spark]


def written_type(spark: DataType, path: str) -> pa.DataType:
    """The type of a column that is encoded, as Arrow's: what may be null in Spark may be null there.

    Args:
        spark: of a DataFrame's column.
        path: for errors: `value.user.city`.

    Raises:
        ConfigurationError: no format has such a type.
    """
    if isinstance(spark, StructType):
        fields = ((one, f"{path}.{part(one.name)}") for one in spark.fields)
        return pa.struct([pa.field(one.name, written_type(one.dataType, at), one.nullable) for one, at in fields])
    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("element", written_type(spark.elementType, path), spark.containsNull))
    if isinstance(spark, MapType):
        item = pa.field("value", written_type(spark.valueType, path), spark.valueContainsNull)
        return pa.map_(written_type(spark.keyType, path), item)
    if isinstance(spark, DecimalType):
        return pa.decimal128(spark.precision, spark.scale)
    # Whatever its collation.
    found = pa.string() if isinstance(spark, StringType) else _ARROW.get(spark)
    if found is None:
        raise ConfigurationError(f"column {path} is {spark.simpleString()}, which no format writes: cast it")
    return found


def selected(there: DataType, wanted: DataType, path: str) -> list[str]:
    """The paths of the fields that `.schema(...)` chooses of a type, each without the column's name.

    Args:
        there: what the format gives.
        wanted: the same with fewer fields, in any order.
        path: from the column on.

    Raises:
        ConfigurationError: it is no choice of what is there.
    """
    # Before fields are looked at: a struct may have none.
    if wanted == there:
        return [path.partition(".")[2]]
    if isinstance(wanted, StructType) and isinstance(there, StructType):
        if not wanted.names or len(set(wanted.names)) < len(wanted.names):
            raise ConfigurationError(f"{path} in .schema(...) needs fields, each exactly once: {wanted.simpleString()}")
        known = {one.name: one.dataType for one in there.fields}
        paths = []
        for one in wanted.fields:
            own = f"{path}.{part(one.name)}"
            if one.name not in known:
                raise ConfigurationError(f"there is no field {own}, only {', '.join(map(part, known)) or 'none'}")
            if not one.nullable:
                raise ConfigurationError(f"{own} cannot be NOT NULL in .schema(...): all fields are nullable")
            paths += selected(known[one.name], one.dataType, own)
        return paths
    if isinstance(wanted, ArrayType) and isinstance(there, ArrayType) and wanted.containsNull:
        return selected(there.elementType, wanted.elementType, path)
    if (
        isinstance(wanted, MapType)
        and isinstance(there, MapType)
        and wanted.valueContainsNull
        and wanted.keyType == there.keyType
    ):
        return selected(there.valueType, wanted.valueType, path)
    raise ConfigurationError(
        f"{path} is {there.simpleString()}, not {wanted.simpleString()}: .schema(...) may choose fields; cast others "
        "in the DataFrame"
    )


def part(name: str) -> str:
    """A name as a part of a path: in back-quotes where it contains a dot, a comma or a back-quote."""
    return "`" + name.replace("`", "``") + "`" if not name or set(name) & set(".,`") else name


def converted(column: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
    """The column in the type that Spark takes, almost without copying.

    Args:
        column: as a format decodes it.
        wanted: the type of `arrow_type`, maybe with fewer fields.
        path: for errors.

    Raises:
        BadValueError: a time is outside of those that Spark has.
    """
    kind = column.type
    if kind == wanted:
        return column
    if pa.types.is_struct(kind):
        fields = [converted(column.field(one.name), one.type, f"{path}.{part(one.name)}") for one in wanted]
        nulls = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(wanted), mask=nulls)
    if pa.types.is_map(kind):
        entries = column.values
        made = [converted(entries.field(i), one, path) for i, one in enumerate((wanted.key_type, wanted.item_type))]
        children = pa.StructArray.from_arrays(made, fields=[wanted.key_field, wanted.item_field])
    elif pa.types.is_list(kind):
        children = converted(column.values, wanted.value_type, path)
    else:
        return _cast(column, wanted, path)
    # The same offsets over other items: what is sliced stays so.
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(wanted, len(column), buffers, column.null_count, column.offset, [children])


def _cast(column: pa.Array, wanted: pa.DataType, path: str) -> pa.Array:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # Its import takes longer than that of everything else here, and few values need it.
        import pyarrow.compute as pc

        column = pc.floor_temporal(column, unit="microsecond")
    try:
        return column.cast(wanted)
    except pa.ArrowInvalid as error:
        raise BadValueError(f"field {path}: {error}") from error
