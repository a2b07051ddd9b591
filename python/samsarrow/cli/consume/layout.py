"""Layout of columnar output: converts keys and values to text, and members of JSON values to columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from samsarrow.cli.consume.json_text import text_column
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.values import Json, decode_values, infer_schema

if TYPE_CHECKING:
    from samsarrow.cli.consume.outputs import OutputFormat

METADATA = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
# The column that rows of share groups have in addition.
DELIVERIES = "delivery_count"
# Columns with the errors and the bytes of keys and values that could not be read.
BAD = ("key_error", "raw_key", "value_error", "raw_value")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = (
    pa.dictionary(pa.int32(), pa.string()), pa.int32(), pa.int64(), pa.timestamp("ms", "UTC"), pa.int8(), pa.binary(),
    pa.binary(), HEADERS,
)  # fmt: skip


class Layout:
    """Converts batches to the columns of an output format. All converted batches have the same schema."""

    def __init__(self, output_format: OutputFormat) -> None:
        self._output_format = output_format
        self._unpacked: pa.Schema | None = None
        # Schema of decoded batches; None until it is known.
        self.schema: pa.Schema | None = None

    def empty(self) -> pa.RecordBatch:
        """Returns an empty batch with the columns of the output."""
        if self.schema is not None:
            return self.convert(pa.record_batch([pa.array([], field.type) for field in self.schema], self.schema))
        names = [name for name in METADATA if name != "headers" or self._output_format.wants_headers]
        columns = {name: pa.array([], kind) for name, kind in zip(METADATA, TYPES, strict=True) if name in names}
        return self.convert(pa.record_batch(columns))

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Converts a batch to the columns of the output format.

        Raises:
            click.ClickException: the output format needs text or JSON, and a key or value is neither.
        """
        output_format = self._output_format
        if output_format.lines is not None:
            return batch
        named = {name: batch.column(name) for name in (*METADATA, DELIVERIES, *BAD) if name in batch.schema.names}
        if output_format.form == "csv":
            named["topic"] = named["topic"].cast(pa.string())
            for name in ("headers", "raw_key", "raw_value"):
                named.pop(name, None)
        if "key" in output_format.typed:
            named["key"] = _cells(named["key"]) if output_format.form == "csv" else named["key"]
        elif output_format.text or output_format.form == "csv":
            named["key"] = _text(batch, "key")
        if output_format.unpack:
            value = named.pop("value")
            used = set(named)
            named.update(self.fields(value, used) if "value" in output_format.typed else self.members(batch, used))
        elif "value" in output_format.typed:
            named["value"] = _cells(named["value"]) if output_format.form == "csv" else named["value"]
        elif output_format.text or output_format.form == "csv":
            named["value"] = _text(batch, "value")
        if output_format.typed and output_format.form == "parquet":
            named = {name: column.cast(_nullable(column.type)) for name, column in named.items()}
        return pa.record_batch(named)

    def fields(self, column: Any, used: set[str]) -> dict[str, pa.Array]:
        """Returns the fields of a struct as columns. A name that is in `used` gets the prefix `value.`."""
        if not pa.types.is_struct(column.type):
            raise click.UsageError(f"--unpack makes columns of fields, and values are {column.type}, which has none")
        columns: dict[str, pa.Array] = {}
        for index, field in enumerate(column.type):
            label = f"value.{field.name}" if field.name in used else field.name
            member = pc.struct_field(column, [index])
            columns.update(_flattened(label, member) if self._output_format.form == "csv" else {label: member})
        return columns

    def members(self, batch: pa.RecordBatch, used: set[str]) -> dict[str, pa.Array]:
        """Returns the members of JSON objects as columns. Their types are inferred from the first batch."""
        if not batch.num_rows and self._unpacked is None:
            return {}
        inferred = _inferred(batch)
        if self._unpacked is None:
            self._unpacked = inferred
        elif (path := _missing_member(pa.struct(list(inferred)), pa.struct(list(self._unpacked)))) is not None:
            raise _not_columns(_location(batch, 0, "from "), f"the first rows have no member {path}")
        if not len(self._unpacked):
            return {}
        try:
            rows = decode_values(batch.column("value"), Json(schema=self._unpacked))
        except BadValueError as error:
            location = _location(batch, error.row or 0)
            raise _not_columns(location, f"{error.field}: {error.reason}" if error.field else error.reason) from None
        return self.fields(rows, used)


def _inferred(batch: pa.RecordBatch) -> pa.Schema:
    """Infers a schema from the JSON values of a batch."""
    values = batch.column("value")
    try:
        return infer_schema(values)
    except BadValueError as error:
        raise _not_columns(_location(batch, error.row or 0), error.reason) from None
    except ConfigurationError as error:
        # If all values are null or objects without members, no columns are added.
        if pc.all(pc.match_substring_regex(pc.fill_null(values, b"{}"), r"^\s*\{\s*\}\s*$")).as_py() is not False:
            return pa.schema([])
        raise _not_columns(_location(batch, 0, "from "), str(error)) from None


def _missing_member(found: pa.DataType, first: pa.DataType, path: str = "") -> str | None:
    """Returns the path of a member that is in `found` but not in `first`, the type of the first rows; or None."""
    if pa.types.is_list(found) and pa.types.is_list(first):
        return _missing_member(found.value_type, first.value_type, path)
    if not pa.types.is_struct(found) or not pa.types.is_struct(first):
        # Differences of other types are found when values are decoded.
        return None
    for field in found:
        name = f"{path}.{field.name}" if path else field.name
        index = first.get_field_index(field.name)
        missing = name if index < 0 else _missing_member(field.type, first.field(index).type, name)
        if missing is not None:
            return missing
    return None


def _location(batch: pa.RecordBatch, row: int, prefix: str = "") -> str:
    topic, partition, offset = (batch.column(name)[row] for name in ("topic", "partition", "offset"))
    return f"{prefix}{topic}-{partition}@{offset}"


def _not_columns(location: str, reason: str) -> click.ClickException:
    values = f"values {location} on" if location.startswith("from ") else f"the value of {location}"
    return click.ClickException(
        f"{values} cannot become columns: {reason}. All values must be JSON objects, with members of the same types as "
        "the first rows; `samsarrow schema infer` finds a schema for all, which --value json --value-schema FILE "
        "takes, and without --unpack values stay unchanged"
    )


def _flattened(name: str, column: Any) -> dict[str, pa.Array]:
    """Returns one CSV column per member of a struct, or a single CSV column for any other type."""
    if pa.types.is_struct(column.type):
        parts: dict[str, pa.Array] = {}
        for index, member in enumerate(column.type):
            parts.update(_flattened(f"{name}.{member.name}", pc.struct_field(column, [index])))
        return parts
    return {name: column.cast(pa.string()) if pa.types.is_null(column.type) else _cells(column)}


def _nullable(kind: pa.DataType) -> pa.DataType:
    """Returns the type with nullable fields, because Parquet's writer rejects null structs with non-nullable fields."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _nullable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _nullable(kind.item_type))
    return kind


def _cells(column: Any) -> pa.Array:
    """Returns the column in a type that CSV supports. Nested types become JSON texts."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        return column
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return column
    return text_column(column).cast(pa.string())


def _text(batch: pa.RecordBatch, name: str) -> pa.Array:
    column = batch.column(name)
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        pass
    for row, value in enumerate(column.to_pylist()):
        try:
            value is None or value.decode()
        except UnicodeDecodeError:
            raise click.ClickException(
                f"the {name} of {_location(batch, row)} is not text (UTF-8): -o envelope, arrow and parquet keep bytes"
            ) from None
    raise AssertionError("Arrow and Python agree on what UTF-8 is")
