"""Typed columns into values."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa

from samsarrow import _core
from samsarrow._faces import Blocking, Do, now
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.values.decode import Format, bad_value
from samsarrow.values.headers import InHeaders
from samsarrow.values.texts import JsonTexts

__all__ = ["Encoder", "encode_values"]

Encoder: TypeAlias = _core.ValueEncoder | JsonTexts | InHeaders
"""What writes rows, with a method `encode`."""


def encode_values(
    array: pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table,
    format: Format,  # noqa: A002 - as in `decode_values`
    *,
    topic: str | None = None,
    key: bool = False,
) -> pa.Array | pa.ChunkedArray:
    """Encodes a typed column as values, or as keys: `decode_values` reads them back.

    Args:
        array: of structs, for records; the rows of a record batch or a table are such, too. Or of another type that the
            format has.
        format: `Avro(…)`, `Protobuf(…)`, or the name of a type of Kafka's own: `"long"`.
        topic: where the values go to: for a registry's subject, and the texts of errors.
        key: whether these are keys, whose subject is another one.

    Returns:
        `binary`, as many rows as `array` has: an array for an array or a batch, which is `large_binary` beyond 2 GiB;
        chunks for chunks or a table. A null stays null, which is a tombstone.

    Raises:
        BadValueError: a row does not fit the schema; it has the row, the field and the reason.
        ConfigurationError: a column does not, and nothing is written; the text names it.
        SchemaIncompatibleError: the registry refuses the schema, with its reasons.
        SchemaNotFoundError: the schema, or the subject, is to be registered already, and is not.
        RegistryError: the registry cannot be asked, or refuses.
        TypeError: it is no Arrow data.
    """
    if not isinstance(format, str) and format._writes_headers:
        text = "framing='header' has the schema in headers of records, and encode_values makes values alone"
        raise ConfigurationError(f"{text}: send_batch writes both")
    chunks, kind = _chunks(array)
    like = pa.record_batch({"value": pa.array([], kind)})
    encoder = now(encoder_of(format, Blocking._do, like, topic, key))
    row, encoded = 0, []
    for chunk in chunks:
        done, bad = encoder.encode(pa.record_batch({"value": chunk}))
        if done is None:
            raise raised(bad, row, topic)
        encoded += [batch.column(0) for batch in done]
        row += len(chunk)
    if isinstance(array, (pa.Array, pa.RecordBatch)):
        # One that has more bytes than its offsets can count comes in several.
        return encoded[0] if len(encoded) == 1 else pa.concat_arrays([one.cast(pa.large_binary()) for one in encoded])
    return pa.chunked_array(encoded, pa.binary())


async def encoder_of(
    format: Format,  # noqa: A002
    do: Do,
    like: pa.RecordBatch,
    topic: str | None,
    key: bool,
) -> Encoder:
    """The encoder for columns like that of a batch, as values or keys of a topic."""
    return (
        _core.ValueEncoder.plain(format, like)
        if isinstance(format, str)
        else await format._encoder(do, like, topic, key)
    )


def _chunks(array: Any) -> tuple[list[pa.Array], pa.DataType]:
    """The rows as arrays, and their type."""
    if isinstance(array, pa.Array):
        return [array], array.type
    if isinstance(array, pa.ChunkedArray):
        return array.chunks, array.type
    if isinstance(array, (pa.RecordBatch, pa.Table)):
        batches = [array] if isinstance(array, pa.RecordBatch) else array.to_batches()
        return [batch.to_struct_array() for batch in batches], pa.struct(list(array.schema))
    if hasattr(array, "__arrow_c_stream__"):
        return _chunks(pa.chunked_array(array))
    if hasattr(array, "__arrow_c_array__"):
        return _chunks(pa.array(array))
    raise TypeError(f"expected an Arrow array, record batch or table, got {type(array).__name__}")


def raised(
    bad: tuple[int, int | bytes | None, str, str, str | None] | None, before: int, topic: str | None
) -> BadValueError:
    """The error of a row, in a chunk with so many rows before it."""
    bad = bad or (0, None, "", "", None)
    return bad_value(bad, before + bad[0], topic, f"row {before + bad[0]}")
