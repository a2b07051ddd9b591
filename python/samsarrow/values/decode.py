"""Decoding of a column of values into a typed column."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any, Literal, TypeAlias
from uuid import UUID

import pyarrow as pa

from samsarrow import _core
from samsarrow._sync import Blocking, RunCall, run_sync
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.values.avro import Avro
from samsarrow.values.json import Json
from samsarrow.values.protobuf import Protobuf

__all__ = ["Format", "decode_values"]

Format: TypeAlias = (
    Avro | Json | Protobuf | Literal["string", "short", "int", "long", "float", "double", "boolean", "uuid"]
)
"""Format of keys or values: one with a schema, or the name of one of Kafka's built-in serializers."""

PLAIN = ("string", "short", "int", "long", "float", "double", "boolean", "uuid")
"""Names of the formats of Kafka's built-in serializers."""

# Formats with a schema, by the names that applications may pass by mistake.
_HINTS = {
    "avro": "Avro(schema) or Avro(registry)",
    "json": "Json(schema), also with the result of infer_schema(values), or Json(registry)",
    "protobuf": "Protobuf(schema) or Protobuf(registry)",
}


def decode_values(
    array: pa.Array | pa.ChunkedArray,
    format: Format,  # noqa: A002 - short for `value_format`
    *,
    topic: str | None = None,
    headers: pa.Array | pa.ChunkedArray | None = None,
    key: bool = False,
    on_decode_error: Literal["raise", "null"] = "raise",
) -> pa.Array | pa.ChunkedArray:
    """Decodes values, or keys, into a typed column.

    Args:
        array: column of type `binary`, `large_binary` or `binary_view`, such as the column `value` of a batch.
        format: `Avro(…)`, `Json(…)`, `Protobuf(…)`, or the name of one of Kafka's own types: `"long"`.
        topic: topic of the values, for error messages and for the subject in a registry.
        headers: column `headers` of the same rows, `list<struct<key: string, value: binary>>`, if headers identify the
            schema.
        key: whether the values are keys, whose schema is in a different header.
        on_decode_error: `raise` raises an error at the first value that cannot be decoded; `null` makes the row of such
            a value null.

    Returns:
        A column with as many rows as `array`: an array for an array, a chunked array for a chunked array. A null (a
        tombstone) stays null.

    Raises:
        BadValueError: a value cannot be decoded. The error has the row, the schema, the field and the reason.
        RegistryError: a writer's schema cannot be fetched, because the registry cannot be reached. If the registry does
            not have the schema, the value is invalid instead.
        SchemaNotFoundError: the registry does not have the schema of the rows.
        ConfigurationError: the format is invalid, or a column would exceed the size of an Arrow array.
        TypeError: the array or the headers have another type.
    """
    if on_decode_error not in ("raise", "null"):
        raise ConfigurationError(f"on_decode_error must be raise or null, not {on_decode_error!r}")
    check_format(format, "format")
    run = Blocking._run
    decoder = run_sync(make_decoder(format, run, topic, key))
    values = _arrow(array)
    columns = {"value": values}
    if headers is not None:
        columns["headers"] = _arrow(headers)
        if len(headers) != len(values):
            raise ValueError(f"{len(values)} values have {len(headers)} rows of headers")
    # Splits values and headers into chunks that end at the same rows. At least one chunk is decoded, because it
    # determines the type of the result.
    batches = pa.table(columns).to_batches() or [pa.record_batch({"value": pa.nulls(0)})]
    row, decoded = 0, []
    for batch in batches:
        if not isinstance(format, str):
            run_sync(format._learn(run, decoder, batch, key))
        rows, bad = decoder.decode(batch, key, on_decode_error == "raise")
        if bad is not None:
            raise decode_error(bad, row + bad[0], topic, f"row {row + bad[0]}")
        decoded.append(rows.column(0))
        row += batch.num_rows
    return pa.chunked_array(decoded) if isinstance(values, pa.ChunkedArray) else decoded[0]


def check_format(value: object, name: str, also: tuple[str, ...] = ()) -> None:
    """Checks the format of keys or values.

    Args:
        value: the format.
        name: name of the argument, for error messages.
        also: names that are accepted in addition to `PLAIN`.

    Raises:
        ConfigurationError: the value is not a format.
    """
    names = (*also, *PLAIN)
    if value in names if isinstance(value, str) else hasattr(value, "_in_headers") and not isinstance(value, type):
        return
    word = (value.__name__ if isinstance(value, type) else str(value)).lower()
    shown = value.__name__ if isinstance(value, type) else repr(value)
    if word in _HINTS and (word not in also or isinstance(value, type)):
        raise ConfigurationError(f"{name}={shown} needs a schema: pass {_HINTS[word]}")
    near = get_close_matches(word, [*names, *_HINTS], 1)
    suggestion = f"; did you mean {near[0] if near[0] in names else f'{near[0].capitalize()}(…)'}?" if near else ""
    raise ConfigurationError(
        f"{name} must be Avro(…), Json(…) or Protobuf(…), or one of {', '.join(names)}, not {shown}{suggestion}"
    )


async def make_decoder(format: Format, run: RunCall, topic: str | None, key: bool) -> _core.ValueDecoder:  # noqa: A002
    """Returns the decoder for values or keys of a topic. The topic may be None if the format does not need it."""
    return _plain(format) if isinstance(format, str) else await format._decoder(run, topic, key)


def decode_error(
    bad: tuple[int, int | bytes | None, str, str, str | None], row: int, *location: str | None
) -> BadValueError:
    """Returns the error of a value. Its text begins with `location`, which consists of topic, partition and so on."""
    _, schema_id, field, reason, schema = bad
    parts = (*location, schema, field and f"field {field}")
    error = BadValueError(f"{', '.join(part for part in parts if part)}: {reason}")
    error.row, error.field, error.reason = row, field, reason
    error.schema_id = str(UUID(bytes=schema_id)) if isinstance(schema_id, bytes) else schema_id
    return error


def _arrow(array: Any) -> pa.Array | pa.ChunkedArray:
    """Converts an Arrow array of another library to a pyarrow array; returns pyarrow arrays unchanged."""
    if isinstance(array, (pa.Array, pa.ChunkedArray)):
        return array
    if hasattr(array, "__arrow_c_stream__"):
        return pa.chunked_array(array)
    if hasattr(array, "__arrow_c_array__"):
        return pa.array(array)
    raise TypeError(f"expected an Arrow array of binary, got {type(array).__name__}")


def _plain(name: str) -> _core.ValueDecoder:
    if name not in _PLAIN:
        _PLAIN[name] = _core.ValueDecoder.plain(name)
    return _PLAIN[name]


_PLAIN: dict[str, _core.ValueDecoder] = {}
