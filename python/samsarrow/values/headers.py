"""Encoding of values whose schema is identified by a record header."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, final

import pyarrow as pa

from samsarrow import _core
from samsarrow.values.json_text import JsonTextEncoder

__all__ = ["HEADERS", "InHeaders", "header_name", "with_header"]

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""Type of a column of headers."""


@final
class InHeaders:
    """Encoder of values without frames, and the record header that identifies their schema.

    Attributes:
        header: value of the header that identifies the schema.
    """

    def __init__(self, encoder: _core.ValueEncoder | JsonTextEncoder, header: bytes) -> None:
        self._encoder, self.header = encoder, header

    def encode(self, batch: pa.RecordBatch) -> Any:
        """Returns the encoded values, or the error of the first row that does not fit the schema."""
        return self._encoder.encode(batch)


def header_name(key: bool) -> str:
    """Returns the name of the header that identifies the schema of keys or values."""
    return "__key_schema_id" if key else "__value_schema_id"


def with_header(headers: Any, written: pa.Array, name: str, header: bytes) -> pa.Array:
    """Returns the headers of rows, with an additional header in each row that is not a tombstone.

    Args:
        headers: headers of the rows, or None if they have none.
        written: encoded keys or values of the rows.
        name: name of the additional header.
        header: value of the additional header.
    """
    columns = {"value": written} if headers is None else {"value": written, "headers": _with_small_offsets(headers)}
    return _core.with_schema_header(pa.record_batch(columns), name, header).column(0)


def _with_small_offsets(headers: pa.Array) -> pa.Array:
    """Returns headers as consumers return them, if their type differs only in its offsets (Polars, Spark)."""
    with suppress(pa.ArrowException):
        return headers.cast(HEADERS)
    # The Rust client rejects the type with its name.
    return headers
