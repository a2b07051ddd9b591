"""Conversion of typed columns to one JSON text per row, as in `Producer.send_batch(value_format="json")`."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from samsarrow._core import TextWriter

# Characters that must be escaped in JSON strings.
ESCAPED = '["\\\\\x00-\x1f]'
# Pattern of groups of three zeros at the end of a fraction, and pattern of a remaining decimal point.
ZEROS, POINT = r"(\.\d*?)(?:000)+$", r"\.$"


def text_column(column: pa.Array) -> pa.Array:
    """Returns a column as text in bytes. Strings are unchanged, other values become JSON, nulls stay null."""
    text = column.cast(pa.string()) if _is_text(column.type) else json_column(column)
    if not pa.types.is_nested(column.type) and not _is_text(column.type):
        text = pc.utf8_trim(text, '"')
    return pc.if_else(column.is_null(), pa.scalar(None, pa.string()), text).cast(pa.binary())


def json_column(column: pa.Array) -> pa.Array:
    """Returns a column as JSON texts; nulls become `null`."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return json_column(column.dictionary_decode())
    if pa.types.is_struct(kind):
        text = _object(column)
    elif pa.types.is_map(kind):
        text = _map(column)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        text = _joined(column, json_column(_items(column, column.values)), "[", "]")
    elif _is_text(kind):
        text = _quoted(column.cast(pa.string()))
    elif pa.types.is_floating(kind):
        text = _number(column)
    elif pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
        text = column.cast(pa.string())
    elif pa.types.is_timestamp(kind):
        text = _time(column)
    elif pa.types.is_date(kind) or pa.types.is_time(kind):
        text = _fraction(column.cast(pa.string()), "")
    else:
        text = pa.array([None if value is None else _other(value) for value in column.to_pylist()], pa.string())
    return pc.fill_null(pc.if_else(column.is_null(), pa.scalar(None, pa.string()), text), "null")


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _object(column: Any) -> pa.Array:
    parts: list[Any] = []
    for index, member in enumerate(column.type):
        parts += ["{" if index == 0 else ",", f"{json.dumps(member.name, ensure_ascii=False)}:"]
        parts.append(json_column(pc.struct_field(column, [index])))
    if not parts:
        return pa.array(["{}"] * len(column), pa.string())
    return pc.binary_join_element_wise(*parts, "}", "")


def _map(column: Any) -> pa.Array:
    keys, items = json_column(_items(column, column.keys)), json_column(_items(column, column.items))
    if not _is_text(column.type.key_type):
        keys = pc.binary_join_element_wise('"', keys, '"', "")
    return _joined(column, pc.binary_join_element_wise(keys, ":", items, ""), "{", "}")


def _items(column: Any, values: pa.Array) -> pa.Array:
    """Returns the items of the lists in a column, which may be a slice."""
    first, last = column.offsets[0].as_py(), column.offsets[-1].as_py()
    return values.slice(first, last - first)


def _joined(column: Any, texts: pa.Array, before: str, after: str) -> pa.Array:
    offsets = pc.subtract(column.offsets, column.offsets[0])
    lists = (pa.LargeListArray if pa.types.is_large_list(column.type) else pa.ListArray).from_arrays(offsets, texts)
    return pc.binary_join_element_wise(before, pc.binary_join(lists, ","), after, "")


def _quoted(column: pa.Array) -> pa.Array:
    text = pc.binary_join_element_wise('"', column, '"', "")
    special = pc.fill_null(pc.match_substring_regex(column, ESCAPED), False)
    if special.true_count:
        written = [json.dumps(value, ensure_ascii=False) for value in column.filter(special).to_pylist()]
        text = pc.replace_with_mask(text, special, pa.array(written, pa.string()))
    return text


def _number(column: pa.Array) -> pa.Array:
    """Returns floats as JSON numbers. NaN and infinities, which JSON does not support, become null."""
    whole = pc.replace_substring_regex(column.cast(pa.string()), r"^(-?\d+)$", r"\1.0")
    return pc.if_else(pc.is_finite(column), whole, pa.scalar(None, pa.string()))


def _time(column: pa.Array) -> pa.Array:
    zone = column.type.tz is not None
    bare = column.cast(pa.timestamp(column.type.unit))
    return _fraction(pc.replace_substring(bare.cast(pa.string()), " ", "T"), "Z" if zone else "")


def _fraction(text: pa.Array, after: str) -> pa.Array:
    """Returns times in quotes. Trailing zeros of the fraction are removed in groups of three."""
    text = pc.replace_substring_regex(pc.replace_substring_regex(text, ZEROS, r"\1"), POINT, "")
    return pc.binary_join_element_wise('"', text, after, '"', "")


def _other(value: Any) -> str:
    if isinstance(value, bytes):
        return f'"{value.hex()}"'
    if isinstance(value, pa.MonthDayNano):
        return f'"P{value.months}M{value.days}DT{value.nanoseconds / 1e9:g}S"'
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=str)


def with_texts(batch: pa.RecordBatch, names: Iterable[str]) -> pa.RecordBatch:
    """Returns the batch with the named columns as text in bytes."""
    for name in names:
        batch = batch.set_column(batch.schema.get_field_index(name), name, text_column(batch.column(name)))
    return batch


class TypedTextWriter:
    """Renderer of rows with decoded keys or values, which are written as JSON.

    Args:
        lines: renderer of rows whose keys and values are bytes.
        typed: names of the decoded columns, `key` or `value` or both.
        objects: whether each row is a JSON object, to which decode errors and undecoded bytes are added.
        items: whether the objects are items of one JSON array.
    """

    def __init__(self, lines: TextWriter, typed: frozenset[str], objects: bool, items: bool) -> None:
        self._lines, self._typed = lines, typed
        self._objects, self._items = objects, items

    @property
    def wants_headers(self) -> bool:
        """True if headers are written."""
        return self._lines.wants_headers

    def render(self, batch: pa.RecordBatch) -> Iterable[bytes]:
        """Returns the text of all rows of a batch, in parts."""
        if not self._objects:
            return self._lines.render(with_texts(batch, self._typed))
        bare = batch
        # Renders nulls for decoded keys and values, then replaces them. The value is replaced first. The key comes
        # before the value, so its placeholder is the first match even if the decoded value contains the same text.
        members = {name: _members(batch, name) for name in ("value", "key") if name in self._typed}
        for name in members:
            bare = bare.set_column(bare.schema.get_field_index(name), name, pa.nulls(len(bare), pa.binary()))
        written = []
        for row, line in enumerate(b"".join(self._lines.render(bare)).split(b"\n")[:-1]):
            for name, texts in members.items():
                line = line.replace(b',"%s":null' % name.encode(), texts[row], 1)
            written.append(line)
        return (b"".join(b",\n" + line if self._items else line + b"\n" for line in written),)


def _members(batch: pa.RecordBatch, name: str) -> list[bytes]:
    parts: list[Any] = [f',"{name}":', json_column(batch.column(name))]
    if f"{name}_error" in batch.schema.names:
        errors, raw = batch.column(f"{name}_error"), batch.column(f"raw_{name}")
        pairs = zip(errors.to_pylist(), raw.to_pylist(), strict=True)
        encoded = [None if error is None else base64.b64encode(data).decode() for error, data in pairs]
        bad = [f',"{name}_error":', _quoted(errors), f',"{name}_base64":', _quoted(pa.array(encoded, pa.string()))]
        parts.append(pc.fill_null(pc.binary_join_element_wise(*bad, ""), ""))
    texts: list[bytes] = pc.binary_join_element_wise(*parts, "").cast(pa.binary()).to_pylist()
    return texts
