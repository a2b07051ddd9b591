"""Tables of docs/benchmarks.md, and numbers in their cells."""

import re
from dataclasses import dataclass

from support.fences import ROOT

PAGE = ROOT / "docs" / "benchmarks.md"


@dataclass(frozen=True)
class Table:
    """A table: its head, and its rows, in which an empty first cell stands for the one above."""

    head: list[str]
    rows: list[list[str]]

    def cell(self, row: str, column: str, *, of: str = "") -> str:
        """Returns a cell.

        Args:
            row: text of one of the first two cells of the row.
            column: title of the column.
            of: text of the first cell, if several rows have the same second one.
        """
        found = [one for one in self.rows if row in one[:2] and of in ("", one[0])]
        assert len(found) == 1, f"{len(found)} rows are {of} {row}"
        return found[0][self.head.index(column)]


def sections() -> dict[str, str]:
    """Returns the text of each section by its title, without a command in parentheses."""
    parts = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)
    return {re.sub(r" \(.*\)$", "", title): text for title, text in zip(parts[1::2], parts[2::2], strict=True)}


def tables(section: str) -> list[Table]:
    """Returns the tables of a section."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", sections()[section], re.MULTILINE):
        lines = [[cell.strip() for cell in line[1:-1].split("|")] for line in block.splitlines()]
        rows: list[list[str]] = []
        for line in lines[2:]:
            rows.append(line if line[0] or not rows else [rows[-1][0], *line[1:]])
        found.append(Table(lines[0], rows))
    return found


def number(cell: str) -> float:
    """Returns the first number of a cell."""
    found = re.search(r"\d[\d,]*(?:\.\d+)?", cell)
    assert found, f"no number: {cell!r}"
    return float(found[0].replace(",", ""))


def digits(cell: str) -> int:
    """Returns the number of decimals that a cell shows."""
    return len(cell.partition(".")[2].split()[0]) if "." in cell else 0
