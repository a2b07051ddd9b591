"""Columns as files of columns have them: text, and JSON values taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from samsarrow.cli.consume.json_text import texts_of
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.values import Json, decode_values, infer_schema

if TYPE_CHECKING:
    from samsarrow.cli.consume.outputs import Shape

METADATA = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
# Of keys and values that could not be read.
BAD = ("key_error", "raw_key", "value_error", "raw_value")
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES = (
    pa.dictionary(pa.int32(), pa.string()), pa.int32(), pa.int64(), pa.timestamp("ms", "UTC"), pa.int8(), pa.binary(),
    pa.binary(), HEADERS,
)  # fmt: skip


class Shaper:
    """Makes batches what a format wants; all of them alike."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._unpacked: pa.Schema | None = None
        # Of what comes decoded, when it is known.
        self.schema: pa.Schema | None = None

    def empty(self) -> pa.RecordBatch:
        """No rows, with the columns that rows would have."""
        if self.schema is not None:
            return self.shaped(pa.record_batch([pa.array([], one.type) for one in self.schema], self.schema))
        names = [name for name in METADATA if name != "headers" or self._shape.wants_headers]
        columns = {name: pa.array([], kind) for name, kind in zip(METADATA, TYPES, strict=True) if name in names}
        return self.shaped(pa.record_batch(columns))

    def shaped(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows with the columns of the format.

        Raises:
            click.ClickException: a key or value is no text, or no JSON, where that is needed.
        """
        shape = self._shape
        if shape.lines is not None:
            return batch
        named = {name: batch.column(name) for name in (*METADATA, *BAD) if name in batch.schema.names}
        if shape.form == "csv":
            named["topic"] = named["topic"].cast(pa.string())
            for name in ("headers", "raw_key", "raw_value"):
                named.pop(name, None)
        if "key" in shape.typed:
            named["key"] = _cells(named["key"]) if shape.form == "csv" else named["key"]
        elif shape.text or shape.form == "csv":
            named["key"] = _text(batch, "key")
        if shape.unpack:
            value = named.pop("value")
            taken = set(named)
            named.update(self._fields(value, taken) if "value" in shape.typed else self._members(batch, taken))
        elif "value" in shape.typed:
            named["value"] = _cells(named["value"]) if shape.form == "csv" else named["value"]
        elif shape.text or shape.form == "csv":
            named["value"] = _text(batch, "value")
        if shape.typed and shape.form == "parquet":
            named = {name: column.cast(_nullable(column.type)) for name, column in named.items()}
        return pa.record_batch(named)

    def _fields(self, column: Any, taken: set[str]) -> dict[str, pa.Array]:
        """The fields of a record as columns."""
        if not pa.types.is_struct(column.type):
            raise click.UsageError(f"--unpack makes columns of fields, and values are {column.type}, which has none")
        found: dict[str, pa.Array] = {}
        for at, field in enumerate(column.type):
            label = f"value.{field.name}" if field.name in taken else field.name
            part = pc.struct_field(column, [at])
            found.update(_flattened(label, part) if self._shape.form == "csv" else {label: part})
        return found

    def _members(self, batch: pa.RecordBatch, taken: set[str]) -> dict[str, pa.Array]:
        """The members of JSON objects as columns, of the types that `infer_schema` finds in the first rows."""
        if not batch.num_rows and self._unpacked is None:
            return {}
        found = _inferred(batch)
        if self._unpacked is None:
            self._unpacked = found
        elif (path := _unknown(pa.struct(list(found)), pa.struct(list(self._unpacked)))) is not None:
            raise _not_columns(_place(batch, 0, "from "), f"the first rows have no member {path}")
        if not len(self._unpacked):
            return {}
        try:
            rows = decode_values(batch.column("value"), Json(schema=self._unpacked))
        except BadValueError as error:
            place = _place(batch, error.row or 0)
            raise _not_columns(place, f"{error.field}: {error.reason}" if error.field else error.reason) from None
        return self._fields(rows, taken)


def _inferred(batch: pa.RecordBatch) -> pa.Schema:
    """The members of a batch's values."""
    values = batch.column("value")
    try:
        return infer_schema(values)
    except BadValueError as error:
        raise _not_columns(_place(batch, error.row or 0), error.reason) from None
    except ConfigurationError as error:
        # Nulls and objects without members have no columns of their own.
        if pc.all(pc.match_substring_regex(pc.fill_null(values, b"{}"), r"^\s*\{\s*\}\s*$")).as_py() is not False:
            return pa.schema([])
        raise _not_columns(_place(batch, 0, "from "), str(error)) from None


def _unknown(found: pa.DataType, first: pa.DataType, path: str = "") -> str | None:
    """The path of a member that the first rows do not have."""
    if pa.types.is_list(found) and pa.types.is_list(first):
        return _unknown(found.value_type, first.value_type, path)
    if not pa.types.is_struct(found) or not pa.types.is_struct(first):
        # Other types are compared where values are decoded.
        return None
    for field in found:
        name = f"{path}.{field.name}" if path else field.name
        at = first.get_field_index(field.name)
        below = name if at < 0 else _unknown(field.type, first.field(at).type, name)
        if below is not None:
            return below
    return None


def _place(batch: pa.RecordBatch, row: int, before: str = "") -> str:
    topic, partition, offset = (batch.column(name)[row] for name in ("topic", "partition", "offset"))
    return f"{before}{topic}-{partition}@{offset}"


def _not_columns(place: str, why: str) -> click.ClickException:
    what = f"values {place} on" if place.startswith("from ") else f"the value of {place}"
    return click.ClickException(
        f"{what} cannot become columns: {why}. All values must be JSON objects, with members of the same types as the "
        "first rows; `samsarrow schema infer` finds a schema for all, which --value json --value-schema FILE takes, "
        "and without --unpack values stay unchanged"
    )


def _flattened(name: str, column: Any) -> dict[str, pa.Array]:
    """A struct as its members, which CSV can hold; a list as JSON."""
    if pa.types.is_struct(column.type):
        parts: dict[str, pa.Array] = {}
        for at, member in enumerate(column.type):
            parts.update(_flattened(f"{name}.{member.name}", pc.struct_field(column, [at])))
        return parts
    return {name: column.cast(pa.string()) if pa.types.is_null(column.type) else _cells(column)}


def _nullable(kind: pa.DataType) -> pa.DataType:
    """With fields that may be null: where a record is, Parquet's writer sees nulls in fields that may not be."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(field.name, _nullable(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(pa.field(kind.value_field.name, _nullable(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _nullable(kind.item_type))
    return kind


def _cells(column: Any) -> pa.Array:
    """As CSV can hold it: what has parts is JSON."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_floating(kind):
        return column
    if pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        return column
    return texts_of(column).cast(pa.string())


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
            where = f"{batch.column('topic')[row]}-{batch.column('partition')[row]}@{batch.column('offset')[row]}"
            raise click.ClickException(
                f"the {name} of {where} is not text (UTF-8): --format envelope, arrow and parquet keep bytes"
            ) from None
    raise AssertionError("Arrow and Python agree on what UTF-8 is")
