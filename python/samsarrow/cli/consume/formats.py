"""Names of output formats, and limits for the rotation of output files."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import click

from samsarrow.cli.times import bytes_of, span_of

LINES = ("value", "table", "ndjson", "json", "raw", "envelope")
COLUMNS = ("csv", "arrow", "parquet")
CODECS = {"parquet": ("none", "snappy", "gzip", "lz4", "zstd"), "arrow": ("none", "lz4", "zstd")}
FORMATS = (*LINES, *COLUMNS)
SUFFIXES = {".csv": "csv", ".parquet": "parquet", ".arrow": "arrow", ".arrows": "arrow", ".feather": "arrow",
            ".json": "json", ".jsonl": "ndjson", ".ndjson": "ndjson", ".txt": "value"}  # fmt: skip


@dataclass(frozen=True)
class Rotation:
    """Limits at which an output file is completed and the next one begins; None for no limit."""

    rows: int | None = None
    size: int | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str) -> Rotation:
        """Parses limits: a size (`100MB`), a duration (`1h`), a number of rows (`1000000`), or several with commas.

        Raises:
            click.BadParameter: the text is not a limit.
        """
        limits: dict[str, Any] = {}
        for part in text.split(","):
            part = part.strip()
            if part.isdecimal():
                limits["rows"] = int(part)
            elif (size := bytes_of(part)) is not None:
                limits["size"] = size
            else:
                try:
                    limits["seconds"] = span_of(part)
                except ValueError:
                    raise click.BadParameter(
                        f"{part!r} is not a size (100MB), time span (1h) or number of rows (1000000)"
                    ) from None
        if any(value <= 0 for value in limits.values()):
            raise click.BadParameter("--rotate must be more than 0")
        return cls(**limits)

    def due(self, rows: int, size: int, age: float) -> bool:
        """Returns true if a file has reached a limit."""
        return (
            (self.rows is not None and rows >= self.rows)
            or (self.size is not None and size >= self.size)
            or (self.seconds is not None and age >= self.seconds)
        )
