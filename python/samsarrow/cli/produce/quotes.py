"""Detection of unclosed quotes in CSV. After such a quote, Arrow reads the whole rest of the file as one cell."""

from __future__ import annotations

import re

# Complete cells and the separators between them. A cell that does not begin with a quote may contain quotes.
_CELLS = re.compile(rb'(?:[^",\r\n][^,\r\n]*+|"[^"]*+(?:""[^"]*+)*+"[^,\r\n]*+|[,\r\n])*+')
_TO_CLOSING_QUOTE = re.compile(rb'[^"]*+(?:""[^"]*+)*+"')
_TO_SEPARATOR = re.compile(rb"[^,\r\n]*+")
_SEPARATORS = b",\r\n"


class Quotes:
    """Tracker of quotes in CSV cells, which is fed with the bytes as they are read."""

    def __init__(self, lines: int) -> None:
        """Creates a tracker; `lines` is the number of lines before the first byte."""
        self._lines = lines
        self._opened: int | None = None
        self._in_cell = False
        # Quotes at the end of the data. The next byte decides whether they are escaped quotes or close a cell.
        self._rest = b""

    def feed(self, data: bytes) -> None:
        """Processes the next bytes."""
        data = self._rest + data
        stripped = data.rstrip(b'"')
        self._rest = data[len(stripped) :]
        self._follow(stripped)
        self._lines += stripped.count(b"\n")

    def _follow(self, data: bytes) -> None:
        at = 0
        if self._opened is not None:
            if (closing := _TO_CLOSING_QUOTE.match(data)) is None:
                return
            at, self._opened, self._in_cell = closing.end(), None, True
        if self._in_cell:
            at = _end(_TO_SEPARATOR, data, at)
        if at < len(data):
            at = _end(_CELLS, data, at)
            self._in_cell = data[-1] not in _SEPARATORS
        if at < len(data):
            self._opened, self._in_cell = self._lines + data.count(b"\n", 0, at) + 1, False

    def unclosed(self) -> int | None:
        """Returns the line number of a quote that is not closed by the bytes so far, or None."""
        odd = len(self._rest) % 2 == 1
        if self._opened is not None:
            return None if odd else self._opened
        return self._lines + 1 if odd and not self._in_cell else None


def _end(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
    found = pattern.match(data, at)
    return at if found is None else found.end()
