"""Text tables, cut to the width of the terminal."""

from __future__ import annotations

import re
import shutil
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from samsarrow.cli.numbers import Number

_GAP = "  "
_CUT = "…"
# Width below which columns of text are not cut.
_NARROW = 12
_NUMBER = re.compile(r"-?\d+(\.\d+)?|-|null|\d+(\.\d)? [kMGTPE]?B")
# Columns of names, which often differ only in their last characters.
_NAMES = frozenset(
    (
        "client_id", "group", "instance_id", "member", "member_id", "name", "principal", "resource", "subject", "topic",
        "transactional_id", "user",
    )
)  # fmt: skip
# Control characters, which could change the colours or the contents of a terminal.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


def terminal_width() -> int | None:
    """Returns the width of the terminal that stdout is; None if stdout is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class Table:
    """A table with aligned columns, whose rows may come in several parts. Columns of numbers are right-aligned.

    Args:
        head: names of the columns.
        width: maximum width of a line; None for no limit. The widest columns of text are cut first, and then lines.
    """

    def __init__(self, head: Sequence[str], width: int | None = None) -> None:
        self._head = list(head)
        self._width = width
        # Widths of the longest cells so far, and widths of the columns.
        self._longest: list[int] = []
        self._widths: list[int] = []
        self._right: list[bool] = []

    def lines(self, rows: Iterable[Sequence[object]]) -> Iterator[str]:
        """Yields the lines of rows; those of the first call begin with the names. Later calls widen columns."""
        cells = [[cell_text(value) for value in row] for row in rows]
        columns = range(len(self._head))
        numbers = [bool(cells) and all(_NUMBER.fullmatch(row[i]) for row in cells) for i in columns]
        self._right = [at_right and number for at_right, number in zip(self._right or numbers, numbers, strict=True)]
        if not self._longest:
            self._longest = [0] * len(self._head)
            cells.insert(0, self._head)
        self._longest = [max([self._longest[i], *(width_of(row[i]) for row in cells)]) for i in columns]
        self._widths = list(self._longest)
        self._narrow()
        for row in cells:
            yield self._line(row)

    def _narrow(self) -> None:
        """Makes the widest columns of text narrower, until lines fit or all columns are narrow."""
        if self._width is None:
            return
        excess = sum(self._widths) + len(_GAP) * (len(self._widths) - 1) - self._width
        while excess > 0:
            candidates = [i for i, right in enumerate(self._right) if not right and self._widths[i] > _NARROW]
            if not candidates:
                return
            widest = max(candidates, key=lambda i: self._widths[i])
            others = [self._widths[i] for i in candidates if self._widths[i] < self._widths[widest]]
            step = min(excess, self._widths[widest] - max([_NARROW, *others])) or 1
            self._widths[widest] -= step
            excess -= step

    def _line(self, row: Sequence[str]) -> str:
        parts = []
        for name, cell, width, at_right in zip(self._head, row, self._widths, self._right, strict=True):
            shown = cell if self._width is None else cut(cell, width, middle=name.lower().replace(" ", "_") in _NAMES)
            padding = " " * (width - width_of(shown))
            parts.append(padding + shown if at_right else shown + padding)
        line = _GAP.join(parts).rstrip()
        return line if self._width is None else cut(line, self._width)


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Yields the lines of a table, cut to the terminal if stdout is one."""
    return Table(head, terminal_width()).lines(rows)


def cell_text(value: object) -> str:
    """Returns the text of a cell: `-` for None and empty text; escape sequences for control characters."""
    if isinstance(value, Number):
        return value.text
    text = "-" if value is None or value == "" else str(value)
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def width_of(text: str) -> int:
    """Returns the number of terminal cells of a text."""
    if text.isascii():
        return len(text)
    return sum(_columns(character) for character in text)


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Cf", "Me", "Mn"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, width: int, ellipsis: str = _CUT, middle: bool = False) -> str:
    """Returns a text of at most this width.

    If a part is missing, the ellipsis is in its place: at the end, or in the middle, which keeps apart names that
    differ in their last characters.
    """
    if width_of(text) <= width:
        return text
    end = _beginning(text[::-1], (width - 1) // 2)[::-1] if middle else ""
    while end and not _columns(end[0]):  # marks of a character that is left out
        end = end[1:]
    return _beginning(text, width - 1 - width_of(end)) + ellipsis + end


def _beginning(text: str, width: int) -> str:
    """Returns the longest beginning of a text that has at most this width."""
    used = 0
    for at, character in enumerate(text):
        used += _columns(character)
        if used > width:
            return text[:at]
    return text
