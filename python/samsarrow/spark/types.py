"""Conversion of types and columns of typed keys and values between Arrow and Spark."""

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
# Types of unsigned integers and times of day, as in Spark's from_avro and from_protobuf.
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
    """Returns the Spark type of an Arrow type; all nested fields are nullable.

    Args:
        arrow: type of a decoded column.
        path: path of the type for errors, such as `value.user.city`.

    Raises:
        ConfigurationError: Spark has no corresponding type.
    """
    found = _SAME.get(arrow) or _WIDER.get(arrow)
    if found is not None:
        return found
    if pa.types.is_struct(arrow):
        fields = ((field, f"{path}.{part(field.name)}") for field in arrow)
        return StructType([StructField(field.name, spark_type(field.type, below)) for field, below in fields])
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
        f"{path} has the type {arrow}, which Spark does not support: name the other fields in the option "
        f"{column}.fields"
    )


def arrow_type(spark: DataType) -> pa.DataType:
    """Returns the Arrow type that columns must have so that Spark accepts them as a type from `spark_type`."""
    if isinstance(spark, StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in spark.fields])
    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("element", arrow_type(spark.elementType)))
    if isinstance(spark, MapType):
        return pa.map_(arrow_type(spark.keyType), arrow_type(spark.valueType))
    if isinstance(spark, DecimalType):
        return pa.decimal128(spark.precision, spark.scale)
    return _ARROW[spark]


def written_type(spark: DataType, path: str) -> pa.DataType:
    """Returns the Arrow type of a column to encode, with the nullability of the Spark type.

    Args:
        spark: type of a column in the DataFrame.
        path: path of the type for errors, such as `value.user.city`.

    Raises:
        ConfigurationError: no format supports the type.
    """
    if isinstance(spark, StructType):
        fields = ((field, f"{path}.{part(field.name)}") for field in spark.fields)
        return pa.struct(
            [pa.field(field.name, written_type(field.dataType, below), field.nullable) for field, below in fields]
        )
    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("element", written_type(spark.elementType, path), spark.containsNull))
    if isinstance(spark, MapType):
        item = pa.field("value", written_type(spark.valueType, path), spark.valueContainsNull)
        return pa.map_(written_type(spark.keyType, path), item)
    if isinstance(spark, DecimalType):
        return pa.decimal128(spark.precision, spark.scale)
    # Matches strings with any collation.
    found = pa.string() if isinstance(spark, StringType) else _ARROW.get(spark)
    if found is None:
        raise ConfigurationError(f"column {path} is {spark.simpleString()}, which no format writes: cast it")
    return found


def selected(full: DataType, requested: DataType, path: str) -> list[str]:
    """Returns the paths of the fields of a type that `.schema(...)` selects, without the column's name.

    Args:
        full: type to which the format decodes.
        requested: the type with fewer fields, in any order.
        path: path within the column, for nested types.

    Raises:
        ConfigurationError: `requested` is not a selection of the fields of `full`.
    """
    # The types are compared before their fields, because a struct may have no fields.
    if requested == full:
        return [path.partition(".")[2]]
    if isinstance(requested, StructType) and isinstance(full, StructType):
        if not requested.names or len(set(requested.names)) < len(requested.names):
            raise ConfigurationError(
                f"{path} in .schema(...) needs fields, each exactly once: {requested.simpleString()}"
            )
        known = {field.name: field.dataType for field in full.fields}
        paths = []
        for field in requested.fields:
            below = f"{path}.{part(field.name)}"
            if field.name not in known:
                raise ConfigurationError(f"there is no field {below}, only {', '.join(map(part, known)) or 'none'}")
            if not field.nullable:
                raise ConfigurationError(f"{below} cannot be NOT NULL in .schema(...): all fields are nullable")
            paths += selected(known[field.name], field.dataType, below)
        return paths
    if isinstance(requested, ArrayType) and isinstance(full, ArrayType) and requested.containsNull:
        return selected(full.elementType, requested.elementType, path)
    if (
        isinstance(requested, MapType)
        and isinstance(full, MapType)
        and requested.valueContainsNull
        and requested.keyType == full.keyType
    ):
        return selected(full.valueType, requested.valueType, path)
    raise ConfigurationError(
        f"{path} is {full.simpleString()}, not {requested.simpleString()}: .schema(...) may choose fields; cast others "
        "in the DataFrame"
    )


def part(name: str) -> str:
    """Returns a name as a path element, in back-quotes if the name contains a dot, a comma or a back-quote."""
    return "`" + name.replace("`", "``") + "`" if not name or set(name) & set(".,`") else name


def converted(column: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    """Converts a decoded column to a type that Spark accepts, almost without copying.

    Args:
        column: decoded column.
        target: type from `arrow_type`, which may have fewer fields.
        path: path of the column, for errors.

    Raises:
        BadValueError: a time is outside Spark's range.
    """
    kind = column.type
    if kind == target:
        return column
    if pa.types.is_struct(kind):
        fields = [converted(column.field(field.name), field.type, f"{path}.{part(field.name)}") for field in target]
        nulls = column.is_null() if column.null_count else None
        return pa.StructArray.from_arrays(fields, fields=list(target), mask=nulls)
    if pa.types.is_map(kind):
        entries = column.values
        kinds = (target.key_type, target.item_type)
        parts = [converted(entries.field(i), part_type, path) for i, part_type in enumerate(kinds)]
        children = pa.StructArray.from_arrays(parts, fields=[target.key_field, target.item_field])
    elif pa.types.is_list(kind):
        children = converted(column.values, target.value_type, path)
    else:
        return _cast(column, target, path)
    # The converted items keep the offsets of the lists, even if the column is a slice.
    buffers = column.buffers()[:2]
    return pa.Array.from_buffers(target, len(column), buffers, column.null_count, column.offset, [children])


def _cast(column: pa.Array, target: pa.DataType, path: str) -> pa.Array:
    if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
        # Imported here because the import is slow, and few columns need the module.
        import pyarrow.compute as pc

        column = pc.floor_temporal(column, unit="microsecond")
    try:
        return column.cast(target)
    except pa.ArrowInvalid as error:
        raise BadValueError(f"field {path}: {error}") from error
