"""Text tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yields the lines of a table with aligned columns. Columns of numbers are right-aligned."""
    cells = [[_cell(value) for value in row] for row in rows]
    right = [bool(cells) and all(re.fullmatch(r"-?\d+(\.\d+)?|-", row[i]) for row in cells) for i in range(len(head))]
    widths = [max(len(row[i]) for row in [list(head), *cells]) for i in range(len(head))]
    for row in [list(head), *cells]:
        yield "  ".join(
            cell.rjust(width) if at_right else cell.ljust(width)
            for cell, width, at_right in zip(row, widths, right, strict=True)
        ).rstrip()


def _cell(value: object) -> str:
    return "-" if value is None or value == "" else str(value)
