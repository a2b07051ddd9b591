"""Conversion of typed keys and values to the Arrow types that Spark accepts."""

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
    StructType,
    TimestampNTZType,
    TimestampType,
)

from samsarrow.exceptions import BadValueError

# Arrow types without parameters that Spark accepts.
_ARROW: dict[DataType, pa.DataType] = {
    NullType(): pa.null(),
    BooleanType(): pa.bool_(),
    ByteType(): pa.int8(),
    ShortType(): pa.int16(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    FloatType(): pa.float32(),
    DoubleType(): pa.float64(),
    StringType(): pa.string(),
    BinaryType(): pa.binary(),
    DateType(): pa.date32(),
    TimestampType(): pa.timestamp("us", "UTC"),
    TimestampNTZType(): pa.timestamp("us"),
}


def arrow_type(spark: DataType) -> pa.DataType:
    """Returns the Arrow type that columns must have so that Spark accepts them as this type of a decoded column."""
    if isinstance(spark, StructType):
        return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in spark.fields])
    if isinstance(spark, ArrayType):
        return pa.list_(pa.field("element", arrow_type(spark.elementType)))
    if isinstance(spark, MapType):
        return pa.map_(arrow_type(spark.keyType), arrow_type(spark.valueType))
    if isinstance(spark, DecimalType):
        return pa.decimal128(spark.precision, spark.scale)
    return _ARROW[spark]


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
