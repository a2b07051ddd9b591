"""Typed columns as JSON, a text for each row, as `Producer.send_batch(value_format="json")` has it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from samsarrow._core import Lines

# What a string must not have in JSON as it is.
ESCAPED = '["\\\\\x00-\x1f]'
# Zeros in threes at the end of a fraction, and the point that is left over.
ZEROS, POINT = r"(\.\d*?)(?:000)+$", r"\.$"


def texts_of(column: pa.Array) -> pa.Array:
    """Rows as bytes of text, null where they are: text as it is, all else as JSON."""
    text = column.cast(pa.string()) if _is_text(column.type) else json_of(column)
    if not pa.types.is_nested(column.type) and not _is_text(column.type):
        text = pc.utf8_trim(text, '"')
    return pc.if_else(column.is_null(), pa.scalar(None, pa.string()), text).cast(pa.binary())


def json_of(column: pa.Array) -> pa.Array:
    """Rows as JSON, `null` where they are."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return json_of(column.dictionary_decode())
    if pa.types.is_struct(kind):
        text = _object(column)
    elif pa.types.is_map(kind):
        text = _map(column)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        text = _joined(column, json_of(_items(column, column.values)), "[", "]")
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
        text = pa.array([None if one is None else _other(one) for one in column.to_pylist()], pa.string())
    return pc.fill_null(pc.if_else(column.is_null(), pa.scalar(None, pa.string()), text), "null")


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.large_string(), pa.string_view())


def _object(column: Any) -> pa.Array:
    parts: list[Any] = []
    for at, member in enumerate(column.type):
        parts += ["{" if at == 0 else ",", f"{json.dumps(member.name, ensure_ascii=False)}:"]
        parts.append(json_of(pc.struct_field(column, [at])))
    if not parts:
        return pa.array(["{}"] * len(column), pa.string())
    return pc.binary_join_element_wise(*parts, "}", "")


def _map(column: Any) -> pa.Array:
    keys, items = json_of(_items(column, column.keys)), json_of(_items(column, column.items))
    if not _is_text(column.type.key_type):
        keys = pc.binary_join_element_wise('"', keys, '"', "")
    return _joined(column, pc.binary_join_element_wise(keys, ":", items, ""), "{", "}")


def _items(column: Any, values: pa.Array) -> pa.Array:
    """The items of a slice's lists."""
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
        written = [json.dumps(one, ensure_ascii=False) for one in column.filter(special).to_pylist()]
        text = pc.replace_with_mask(text, special, pa.array(written, pa.string()))
    return text


def _number(column: pa.Array) -> pa.Array:
    """Floats; what is none in JSON, such as NaN, is null."""
    whole = pc.replace_substring_regex(column.cast(pa.string()), r"^(-?\d+)$", r"\1.0")
    return pc.if_else(pc.is_finite(column), whole, pa.scalar(None, pa.string()))


def _time(column: pa.Array) -> pa.Array:
    zone = column.type.tz is not None
    bare = column.cast(pa.timestamp(column.type.unit))
    return _fraction(pc.replace_substring(bare.cast(pa.string()), " ", "T"), "Z" if zone else "")


def _fraction(text: pa.Array, after: str) -> pa.Array:
    """Without the digits that say nothing."""
    text = pc.replace_substring_regex(pc.replace_substring_regex(text, ZEROS, r"\1"), POINT, "")
    return pc.binary_join_element_wise('"', text, after, '"', "")


def _other(one: Any) -> str:
    if isinstance(one, bytes):
        return f'"{one.hex()}"'
    if isinstance(one, pa.MonthDayNano):
        return f'"P{one.months}M{one.days}DT{one.nanoseconds / 1e9:g}S"'
    return json.dumps(one, ensure_ascii=False, separators=(",", ":"), default=str)


def with_texts(batch: pa.RecordBatch, names: Iterable[str]) -> pa.RecordBatch:
    """The rows with some columns as bytes of text."""
    for name in names:
        batch = batch.set_column(batch.schema.get_field_index(name), name, texts_of(batch.column(name)))
    return batch


class TypedLines:
    """Lines of rows of which keys or values came decoded; they are what they are in JSON.

    Args:
        lines: writes rows of bytes.
        typed: which of `key` and `value` came decoded.
        objects: whether a line is an object, to which reasons and bytes of what could not be read are added.
        items: whether these are items of an array.
    """

    def __init__(self, lines: Lines, typed: frozenset[str], objects: bool, items: bool) -> None:
        self._lines, self._typed = lines, typed
        self._objects, self._items = objects, items

    @property
    def wants_headers(self) -> bool:
        """Whether it shows headers."""
        return self._lines.wants_headers

    def render(self, batch: pa.RecordBatch) -> bytes:
        """The text of all rows of a batch."""
        if not self._objects:
            return self._lines.render(with_texts(batch, self._typed))
        bare = batch
        # The value is the last member, and the key is before it: a null that stands for one is the first of its name.
        members = {name: _members(batch, name) for name in ("value", "key") if name in self._typed}
        for name in members:
            bare = bare.set_column(bare.schema.get_field_index(name), name, pa.nulls(len(bare), pa.binary()))
        written = []
        for row, line in enumerate(self._lines.render(bare).split(b"\n")[:-1]):
            for name, texts in members.items():
                line = line.replace(b',"%s":null' % name.encode(), texts[row], 1)
            written.append(line)
        return b"".join(b",\n" + line if self._items else line + b"\n" for line in written)


def _members(batch: pa.RecordBatch, name: str) -> list[bytes]:
    parts: list[Any] = [f',"{name}":', json_of(batch.column(name))]
    if f"{name}_error" in batch.schema.names:
        errors, raw = batch.column(f"{name}_error"), batch.column(f"raw_{name}")
        pairs = zip(errors.to_pylist(), raw.to_pylist(), strict=True)
        encoded = [None if error is None else base64.b64encode(data).decode() for error, data in pairs]
        bad = [f',"{name}_error":', _quoted(errors), f',"{name}_base64":', _quoted(pa.array(encoded, pa.string()))]
        parts.append(pc.fill_null(pc.binary_join_element_wise(*bad, ""), ""))
    texts: list[bytes] = pc.binary_join_element_wise(*parts, "").cast(pa.binary()).to_pylist()
    return texts
