"""Columns as JSON texts."""

from __future__ import annotations

import pyarrow as pa

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError

# What offsets of 32 bits count.
_NARROW = 1 << 31
_Bad = tuple[int, int | bytes | None, str, str, str | None]


class JsonTexts:
    """Writes rows as JSON, as `send_batch(value_format="json")` does, behind what frames them.

    Unlike there, members that are null are left out if the schema allows that, and not null.

    Args:
        like: rows of the columns, to be checked before any is written.
        frame: what is before each value.
        reader: of values in frames, as the schema has them: where the columns' types leave it open whether they fit,
            what is written is read again.
    """

    def __init__(self, like: pa.RecordBatch, frame: bytes, reader: _core.ValueDecoder) -> None:
        self._frame, self._reader = frame, reader
        kind = like.schema.field("value").type
        if (path := _bytes_in(kind, "")) is not None:
            what = f"column {path}" if path else "the column"
            raise ConfigurationError(f"{what} has bytes, which JSON does not support: convert them to text (base64)")
        read, _ = reader.decode(pa.record_batch({"value": pa.nulls(0)}), False, False)
        wanted = read.schema.field("value").type
        if pa.types.is_struct(kind):
            names = {field.name for field in wanted} if pa.types.is_struct(wanted) else set()
            for field in kind:
                if field.name not in names:
                    raise ConfigurationError(f"the schema has no field for column {field.name!r}: drop the column")
        self._fits, self._required = _fits(kind, wanted), _required(kind, wanted)

    def encode(self, batch: pa.RecordBatch) -> tuple[list[pa.RecordBatch] | None, _Bad | None]:
        """The texts, in several batches if they are large; or the first row that does not fit the schema."""
        if (bad := _core.json_refusal(batch)) is not None:
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
                # All typed values import this module, few write JSON, and this import takes long.
                import pyarrow.compute as pc

                frame, end = (pa.scalar(one, texts.type) for one in (self._frame, b""))
                texts = pc.binary_join_element_wise(frame, texts, end)
            if not fits:
                _, unread = self._reader.decode(pa.record_batch({"value": texts}), False, True)
                if unread is not None:
                    return None, (start + unread[0], *unread[1:])
            if texts.nbytes < _NARROW:
                texts = texts.cast(pa.binary())
            done.append(pa.record_batch({"value": texts}))
            start += len(texts)
        return done, None


def _fits(kind: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether all that is written of one type can be read as another, but for nulls of fields in the first struct."""
    if not pa.types.is_struct(kind) or not pa.types.is_struct(wanted):
        return _reads(pa.field("", kind), pa.field("", wanted))
    there = {field.name: field for field in kind}
    return len(there) == len(kind) and all(
        _reads(there[field.name].with_nullable(field.nullable), field) if field.name in there else field.nullable
        for field in wanted
    )


def _required(kind: pa.DataType, wanted: pa.DataType) -> list[str]:
    """Fields of the first struct that may be null, and must not be for the schema."""
    if not pa.types.is_struct(kind) or not pa.types.is_struct(wanted):
        return []
    needed = {field.name for field in wanted if not field.nullable}
    return [field.name for field in kind if field.nullable and field.name in needed]


def _reads(field: pa.Field, wanted: pa.Field) -> bool:
    """Whether all that is written of one field can be read as another. Of many types that depends on the value."""
    kind, into = field.type, wanted.type
    if field.nullable and not wanted.nullable:
        return False
    if pa.types.is_struct(kind) and pa.types.is_struct(into):
        return _fits(kind, into) and not _required(kind, into)
    if _is_list(kind) and pa.types.is_list(into):
        return _reads(kind.value_field, into.value_field)
    if pa.types.is_map(kind) and pa.types.is_map(into):
        return kind.key_type == pa.string() and _reads(kind.item_field, into.item_field)
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
    return any(one(kind) for one in (*lists, pa.types.is_list_view, pa.types.is_large_list_view))


def _bytes_in(kind: pa.DataType, path: str) -> str | None:
    """Where there are bytes, which are hexadecimal in these texts and base64 where a schema reads them."""
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
        return path if any(one(kind) for one in kinds) else None
    return next((found for one, at in below if (found := _bytes_in(one, at)) is not None), None)
