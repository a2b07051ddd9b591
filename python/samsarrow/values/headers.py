"""Encoding of values whose schema is identified by a record header."""

from __future__ import annotations

from typing import Any, final

import pyarrow as pa

from samsarrow import _core
from samsarrow.values.json_text import JsonTextEncoder

__all__ = ["InHeaders", "header_name"]


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
