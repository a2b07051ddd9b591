"""Values whose schema a header of their record names."""

from __future__ import annotations

from typing import Any, final

import pyarrow as pa

from samsarrow import _core
from samsarrow.values.texts import JsonTexts

__all__ = ["InHeaders", "header_name"]


@final
class InHeaders:
    """Writes rows as another encoder does, which writes no frame.

    Attributes:
        header: what names the schema.
    """

    def __init__(self, encoder: _core.ValueEncoder | JsonTexts, header: bytes) -> None:
        self._encoder, self.header = encoder, header

    def encode(self, batch: pa.RecordBatch) -> Any:
        """The values, or the first row that does not fit the schema."""
        return self._encoder.encode(batch)


def header_name(key: bool) -> str:
    """The header that is about keys, or about values."""
    return "__key_schema_id" if key else "__value_schema_id"
