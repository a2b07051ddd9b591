"""Columns as files of columns have them: text, and JSON values taken apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa
import pyarrow.compute as pc

from samsarrow._core import Lines
from samsarrow.cli.consume.texts import texts_of

if TYPE_CHECKING:
    from samsarrow.cli.consume.sinks import Shape

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
        elif shape.text or shape.unpack or shape.form == "csv":
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
        """The members of JSON objects as columns, of the types that the first rows have."""
        if not batch.num_rows and self._unpacked is None:
            return {}
        rows = _rows_of(batch, self._unpacked)
        if self._unpacked is None:
            self._unpacked = rows.schema
        found: dict[str, pa.Array] = {}
        for name in rows.schema.names:
            column = rows[name].combine_chunks()
            label = f"value.{name}" if name in taken else name
            found.update(_flattened(label, column) if self._shape.form == "csv" else {label: column})
        return found


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


def _rows_of(batch: pa.RecordBatch, schema: pa.Schema | None) -> pa.Table:
    """Values as a table, one row each; null where a value is."""
    import pyarrow.json

    values = batch.column("value")
    filled = batch.set_column(batch.schema.get_field_index("value"), "value", pc.fill_null(values, b"{}"))
    text = Lines("value", "{value}").render(filled)
    options = pyarrow.json.ParseOptions(
        explicit_schema=schema,
        newlines_in_values=True,
        unexpected_field_behavior="infer" if schema is None else "error",
    )
    read = pyarrow.json.ReadOptions(use_threads=True, block_size=max(len(text), 1))
    try:
        rows = pyarrow.json.read_json(pa.BufferReader(text), read_options=read, parse_options=options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        place = f"{batch.column('topic')[0]}-{batch.column('partition')[0]} from offset {batch.column('offset')[0]} on"
        raise click.ClickException(
            f"values of {place} cannot become columns: {error}. All values must be JSON objects, with members of the "
            "same types as at first; without --unpack they stay unchanged"
        ) from None
    if rows.num_rows != batch.num_rows:
        raise click.ClickException("values cannot become columns: not each is one JSON object")
    return rows


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
