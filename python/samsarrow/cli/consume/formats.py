"""What rows are written as, and when a new file begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from samsarrow.cli.times import bytes_of, span_of

LINES = ("value", "ndjson", "json", "raw", "envelope")
COLUMNS = ("csv", "arrow", "parquet")
CODECS = {"parquet": ("none", "snappy", "gzip", "lz4", "zstd"), "arrow": ("none", "lz4", "zstd")}
FORMATS = (*LINES, *COLUMNS)
SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow",
            ".json": "json", ".jsonl": "ndjson", ".ndjson": "ndjson", ".txt": "value"}  # fmt: skip


@dataclass(frozen=True)
class Rotation:
    """When the next file begins; None for never."""

    rows: int | None = None
    size: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, text: str) -> Rotation:
        """`100MB`, `1h`, `1000000` rows, or several with commas: whichever is first.

        Raises:
            click.BadParameter: it is none of these.
        """
        found: dict[str, Any] = {}
        for part in text.split(","):
            part = part.strip()
            if part.isdecimal():
                found["rows"] = int(part)
            elif (size := bytes_of(part)) is not None:
                found["size"] = size
            else:
                try:
                    found["seconds"] = span_of(part)
                except ValueError:
                    raise click.BadParameter(
                        f"{part!r} is not a size (100MB), time span (1h) or number of rows (1000000)"
                    ) from None
        if any(value <= 0 for value in found.values()):
            raise click.BadParameter("--rotate must be more than 0")
        return cls(**found)

    def due(self, rows: int, size: int, age: float) -> bool:
        """Whether a file has enough."""
        return (
            (self.rows is not None and rows >= self.rows)
            or (self.size is not None and size >= self.size)
            or (self.seconds is not None and age >= self.seconds)
        )
