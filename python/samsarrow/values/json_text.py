"""Encoding of columns as JSON texts."""

from __future__ import annotations

import pyarrow as pa

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError

# Number of bytes that 32-bit offsets can address.
_MAX_OFFSET32 = 1 << 31
_Bad = tuple[int, int | bytes | None, str, str, str | None]


class JsonTextEncoder:
    """Encoder that writes rows as JSON after a frame, as `send_batch(value_format="json")` does.

    Unlike `send_batch`, the encoder omits a null member if the schema allows the member to be missing, but not to be
    null.

    Args:
        like: batch with the types of the columns, which are checked against the schema.
        frame: bytes before each value.
        reader: decoder of framed values with the target schema. If the types of the columns do not guarantee that
            values fit the schema, encoded values are decoded again as a check.
    """

    def __init__(self, like: pa.RecordBatch, frame: bytes, reader: _core.ValueDecoder) -> None:
        self._frame, self._reader = frame, reader
        kind = like.schema.field("value").type
        if (path := _bytes_in(kind, "")) is not None:
            column = f"column {path}" if path else "the column"
            raise ConfigurationError(f"{column} has bytes, which JSON does not support: convert them to text (base64)")
        decoded, _ = reader.decode(pa.record_batch({"value": pa.nulls(0)}), False, False)
        target = decoded.schema.field("value").type
        if pa.types.is_struct(kind):
            names = {field.name for field in target} if pa.types.is_struct(target) else set()
            for field in kind:
                if field.name not in names:
                    raise ConfigurationError(f"the schema has no field for column {field.name!r}: drop the column")
        self._fits, self._required = _always_fits(kind, target), _required(kind, target)

    def encode(self, batch: pa.RecordBatch) -> tuple[list[pa.RecordBatch] | None, _Bad | None]:
        """Returns the texts, in several batches if they are large, or the error of the first row that does not fit."""
        if (bad := _core.json_non_finite(batch)) is not None:
            return None, bad
        done: list[pa.RecordBatch] = []
        start, column = 0, batch.column("value")
        fits = self._fits and not any(column.field(name).null_count for name in self._required)
        while start < batch.num_rows or not done:
            written, bad_text = _core.write_values(batch.slice(start), "value", "json", self._reader)
            if written is None:
                assert bad_text is not None
                return None, (start + bad_text[0], *bad_text[1:])
            [texts] = written.columns
            if self._frame:
                # Imported here because the import is slow, and few users of this module write JSON.
                import pyarrow.compute as pc

                frame, end = (pa.scalar(part, texts.type) for part in (self._frame, b""))
                texts = pc.binary_join_element_wise(frame, texts, end)
            if not fits:
                _, unread = self._reader.decode(pa.record_batch({"value": texts}), False, True)
                if unread is not None:
                    return None, (start + unread[0], *unread[1:])
            if texts.nbytes < _MAX_OFFSET32:
                texts = texts.cast(pa.binary())
            done.append(pa.record_batch({"value": texts}))
            start += len(texts)
        return done, None


def _always_fits(kind: pa.DataType, target: pa.DataType) -> bool:
    """Returns true if every JSON text of type `kind` can be read as `target`, except for nulls of top-level fields."""
    if not pa.types.is_struct(kind) or not pa.types.is_struct(target):
        return _field_fits(pa.field("", kind), pa.field("", target))
    fields = {field.name: field for field in kind}
    return len(fields) == len(kind) and all(
        _field_fits(fields[field.name].with_nullable(field.nullable), field) if field.name in fields else field.nullable
        for field in target
    )


def _required(kind: pa.DataType, target: pa.DataType) -> list[str]:
    """Returns the nullable top-level fields of `kind` that are not nullable in `target`."""
    if not pa.types.is_struct(kind) or not pa.types.is_struct(target):
        return []
    needed = {field.name for field in target if not field.nullable}
    return [field.name for field in kind if field.nullable and field.name in needed]


def _field_fits(field: pa.Field, target: pa.Field) -> bool:
    """Returns true if every value of `field` can be read as `target`, false if this depends on the value."""
    kind, into = field.type, target.type
    if field.nullable and not target.nullable:
        return False
    if pa.types.is_struct(kind) and pa.types.is_struct(into):
        return _always_fits(kind, into) and not _required(kind, into)
    if _is_list(kind) and pa.types.is_list(into):
        return _field_fits(kind.value_field, into.value_field)
    if pa.types.is_map(kind) and pa.types.is_map(into):
        return kind.key_type == pa.string() and _field_fits(kind.item_field, into.item_field)
    if pa.types.is_integer(kind) and pa.types.is_integer(into):
        signed = pa.types.is_signed_integer(kind), pa.types.is_signed_integer(into)
        return kind == into or (kind.bit_width < into.bit_width and signed != (True, False))
    if pa.types.is_string(into):
        return kind in (pa.string(), pa.large_string(), pa.string_view())
    if pa.types.is_float64(into):
        return kind in (pa.float32(), pa.float64()) or bool(pa.types.is_integer(kind))
    return bool(kind == into and kind in (pa.bool_(), pa.float32()))


def _is_list(kind: pa.DataType) -> bool:
    lists = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    return any(matches(kind) for matches in (*lists, pa.types.is_list_view, pa.types.is_large_list_view))


def _bytes_in(kind: pa.DataType, path: str) -> str | None:
    """Returns the path of a column of bytes, which would be written as hexadecimal but decoded as base64; or None."""
    if pa.types.is_struct(kind):
        below = [(field.type, f"{path}.{field.name}".lstrip(".")) for field in kind]
    elif pa.types.is_map(kind):
        below = [(kind.key_type, path), (kind.item_type, path)]
    elif _is_list(kind):
        below = [(kind.value_type, f"{path}[]")]
    elif pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        below = [(kind.value_type, path)]
    elif pa.types.is_union(kind):
        below = [(field.type, path) for field in kind]
    else:
        kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
        return path if any(matches(kind) for matches in kinds) else None
    return next((found for nested, at in below if (found := _bytes_in(nested, at)) is not None), None)
