"""Encoding of typed columns as values."""

from __future__ import annotations

from typing import Any, TypeAlias

import pyarrow as pa

from samsarrow import _core
from samsarrow._sync import Blocking, RunCall, run_sync
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.values.decode import Format, check_format, decode_error
from samsarrow.values.headers import InHeaders
from samsarrow.values.json_text import JsonTextEncoder

__all__ = ["Encoder", "encode_values"]

Encoder: TypeAlias = _core.ValueEncoder | JsonTextEncoder | InHeaders
"""An encoder of rows: each has a method `encode`."""


def encode_values(
    array: pa.Array | pa.ChunkedArray | pa.RecordBatch | pa.Table,
    format: Format,  # noqa: A002 - the name in `decode_values`
    *,
    topic: str | None = None,
    key: bool = False,
) -> pa.Array | pa.ChunkedArray:
    """Encodes a typed column as values or as keys, which `decode_values` can decode.

    Args:
        array: an array of structs, a record batch or a table, for records; or an array of another type that the format
            supports.
        format: `Avro(…)`, `Protobuf(…)`, or the name of one of Kafka's own types: `"long"`.
        topic: topic of the values, for the subject in a registry and for error messages.
        key: whether the column is encoded as keys, whose schema has a different subject.

    Returns:
        A `binary` column with as many rows as `array`: an array for an array or a batch (`large_binary` beyond 2 GiB),
        a chunked array for a chunked array or a table. A null (a tombstone) stays null.

    Raises:
        BadValueError: a row does not fit the schema. The error has the row, the field and the reason.
        ConfigurationError: the type of a column does not fit the schema; the message names the column.
        SchemaIncompatibleError: the registry rejects the schema, with its reasons.
        SchemaNotFoundError: the schema or the subject is not registered, and the format does not register it.
        RegistryError: the registry cannot be reached, or rejects the request.
        TypeError: `array` is not Arrow data.
    """
    check_format(format, "format")
    if not isinstance(format, str) and format._writes_headers:
        text = "framing='header' has the schema in headers of records, and encode_values makes values alone"
        raise ConfigurationError(f"{text}: send_batch writes both")
    chunks, kind = _chunks(array)
    like = empty_batch(pa.schema([("value", kind)]))
    encoder = run_sync(make_encoder(format, Blocking._run, like, topic, key))
    row, encoded = 0, []
    for chunk in chunks:
        done, bad = encoder.encode(pa.record_batch({"value": chunk}))
        if done is None:
            raise encode_error(bad, row, topic)
        encoded += [batch.column(0) for batch in done]
        row += len(chunk)
    if isinstance(array, (pa.Array, pa.RecordBatch)):
        # The encoder returns several arrays if one would exceed the range of 32-bit offsets.
        if len(encoded) == 1:
            return encoded[0]
        return pa.concat_arrays([part.cast(pa.large_binary()) for part in encoded])
    return pa.chunked_array(encoded, pa.binary())


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    """Returns a batch without rows, whose columns may have any types."""
    return _core.empty_batch(pa.RecordBatchReader.from_batches(schema, ()))


async def make_encoder(
    format: Format,  # noqa: A002
    run: RunCall,
    like: pa.RecordBatch,
    topic: str | None,
    key: bool,
) -> Encoder:
    """Returns the encoder for columns with the type of `like`, for values or keys of a topic."""
    return (
        _core.ValueEncoder.plain(format, like)
        if isinstance(format, str)
        else await format._encoder(run, like, topic, key)
    )


def _chunks(array: Any) -> tuple[list[pa.Array], pa.DataType]:
    """Returns the rows as a list of arrays, and the type of these arrays."""
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


def encode_error(
    bad: tuple[int, int | bytes | None, str, str, str | None] | None, before: int, topic: str | None
) -> BadValueError:
    """Returns the error of a row in a chunk. `before` is the number of rows before the chunk."""
    bad = bad or (0, None, "", "", None)
    return decode_error(bad, before + bad[0], topic, f"row {before + bad[0]}")
