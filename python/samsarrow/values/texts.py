"""Columns as JSON texts."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from samsarrow import _core
from samsarrow.exceptions import ConfigurationError

# What offsets of 32 bits count.
_NARROW = 1 << 31
_Bad = tuple[int, int | bytes | None, str, str, str | None]


class JsonTexts:
    """Writes rows as JSON, as `send_batch(value_format="json")` does, behind what frames them.

    Args:
        like: rows of the columns, to be checked before any is written.
        frame: what is before each value.
        reader: of values in frames, as the schema has them: what is written is read again.
    """

    def __init__(self, like: pa.RecordBatch, frame: bytes, reader: _core.ValueDecoder | None) -> None:
        self._frame, self._reader = frame, reader
        kind = like.schema.field("value").type
        if (path := _bytes_in(kind, "")) is not None:
            what = f"column {path}" if path else "the column"
            raise ConfigurationError(f"{what} has bytes, which JSON does not support: convert them to text (base64)")
        if reader is not None and pa.types.is_struct(kind):
            wanted, _ = reader.decode(pa.record_batch({"value": pa.nulls(0)}), False, False)
            fields = wanted.schema.field("value").type
            names = {field.name for field in fields} if pa.types.is_struct(fields) else set()
            for field in kind:
                if field.name not in names:
                    raise ConfigurationError(f"the schema has no field for column {field.name!r}: drop the column")

    def encode(self, batch: pa.RecordBatch) -> tuple[list[pa.RecordBatch] | None, _Bad | None]:
        """The texts, in several batches if they are large; or the first row that does not fit the schema."""
        done: list[pa.RecordBatch] = []
        start = 0
        while start < batch.num_rows or not done:
            [texts] = _core.write_values(batch.slice(start), "value", "json").columns
            if self._frame:
                frame, end = (pa.scalar(one, texts.type) for one in (self._frame, b""))
                texts = pc.binary_join_element_wise(frame, texts, end)
            if self._reader is not None:
                _, bad = self._reader.decode(pa.record_batch({"value": texts}), False, True)
                if bad is not None:
                    return None, (start + bad[0], *bad[1:])
            if texts.nbytes < _NARROW:
                texts = texts.cast(pa.binary())
            done.append(pa.record_batch({"value": texts}))
            start += len(texts)
        return done, None


def _bytes_in(kind: pa.DataType, path: str) -> str | None:
    """Where there are bytes, which are hexadecimal in these texts and base64 where a schema reads them."""
    if pa.types.is_struct(kind):
        below = [(field.type, f"{path}.{field.name}".lstrip(".")) for field in kind]
    elif pa.types.is_map(kind):
        below = [(kind.key_type, path), (kind.item_type, path)]
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        below = [(kind.value_type, f"{path}[]")]
    else:
        kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
        return path if any(one(kind) for one in kinds) else None
    return next((found for one, at in below if (found := _bytes_in(one, at)) is not None), None)
