"""Encoding of values whose schema is named by a record header."""

from __future__ import annotations

from typing import Any, final

import pyarrow as pa

from samsarrow import _core
from samsarrow.values.json_text import JsonTextEncoder

__all__ = ["InHeaders", "header_name"]


@final
class InHeaders:
    """Encoder of unframed values together with the header that names their schema.

    Attributes:
        header: value of the header that names the schema.
    """

    def __init__(self, encoder: _core.ValueEncoder | JsonTextEncoder, header: bytes) -> None:
        self._encoder, self.header = encoder, header

    def encode(self, batch: pa.RecordBatch) -> Any:
        """Returns the encoded values, or the first row that does not fit the schema."""
        return self._encoder.encode(batch)


def header_name(key: bool) -> str:
    """Returns the name of the header with the schema of keys, or of values."""
    return "__key_schema_id" if key else "__value_schema_id"
