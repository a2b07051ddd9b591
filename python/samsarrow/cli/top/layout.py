"""Text for terminal cells: numbers, durations, sparklines, and columns that fit a width."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from samsarrow.cli.tables import cut, width_of

BARS = "▁▂▃▄▅▆▇█"
ASCII_BARS = "_.-:=+*#"


def printable(text: str) -> str:
    """Replaces control characters, since names of groups may contain escape sequences."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "�" for c in text)


def fit(text: str, width: int, *, right: bool = False, ellipsis: str = "…", middle: bool = False) -> str:
    """Returns a text with exactly `width` cells: filled with spaces, or truncated as `cut` does."""
    text = printable(text)
    if width <= 0:
        return ""
    shown = cut(text, width, ellipsis, middle)
    padding = " " * (width - width_of(shown))
    return padding + shown if right and shown == text else shown + padding


def count(number: float | None) -> str:
    """Returns a number in at most 7 characters: `-`, `1,234`, `123,456`, `1.23M`."""
    if number is None:
        return "-"
    if abs(number) < 999_999.5:
        return f"{number:,.0f}"
    return _scaled(number, ("M", "G", "T", "P", "E"), 1e6)


def rate(number: float | None) -> str:
    """Returns a rate in at most 6 characters: `-`, `0`, `1.5`, `123`, `12.3k`, `1.2M`."""
    if number is None:
        return "-"
    if number < 9.95:
        return f"{number:.1f}".removesuffix(".0")
    if number < 9999.5:
        return f"{number:.0f}"
    return _scaled(number, ("k", "M", "G", "T", "P"), 1e3)


def _scaled(number: float, units: Sequence[str], step: float) -> str:
    scaled, unit = number / step, 0
    while abs(scaled) >= 999.5 and unit < len(units) - 1:
        scaled, unit = scaled / 1000, unit + 1
    digits = 2 if abs(scaled) < 9.995 else 1 if abs(scaled) < 99.95 else 0
    return f"{scaled:.{digits}f}{units[unit]}"


def span(seconds: float | None) -> str:
    """Returns a duration in at most 6 characters: `-`, `0s`, `59s`, `2m10s`, `3h05m`, `12d`, `never`."""
    if seconds is None:
        return "-"
    if math.isinf(seconds):
        return "never"
    whole = math.ceil(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02}m"
    return f"{whole // 86_400}d" if whole < 99_999 * 86_400 else "never"


def sparkline(values: Sequence[float | None], width: int, bars: str = BARS) -> str:
    """Returns the last `width` values as bars from 0 to the largest value. Unknown values are spaces."""
    shown = list(values[-width:]) if width > 0 else []
    largest = max((value for value in shown if value is not None), default=0.0)
    text = ""
    for value in shown:
        if value is None:
            text += " "
        elif largest <= 0 or value <= 0:
            text += bars[0]
        else:
            # A value above 0 differs from 0.
            text += bars[max(1, min(len(bars) - 1, math.ceil(value / largest * (len(bars) - 1))))]
    return text.rjust(width)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: name of the column, as in `Row`.
        title: title.
        least: minimum width.
        most: maximum width; the column grows up to it if the terminal is wide.
        right: whether cells are right-aligned.
        rank: order in which columns are kept in a narrow terminal; 0 is always kept.
    """

    name: str
    title: str
    least: int
    most: int
    right: bool = False
    rank: int = 0


def columns_for(
    columns: Sequence[Column], width: int, needs: Mapping[str, int] | None = None, gap: int = 1
) -> list[tuple[Column, int]]:
    """Selects the columns that fit a width, and returns them with their widths.

    Columns are removed by rank until the others fit. The remaining width goes to columns that can grow, first to those
    with a known need.

    Args:
        columns: all columns, the first of which is always kept.
        width: width of the terminal.
        needs: width of the longest cell by name of the column, beyond which the column does not grow.
        gap: cells between columns.
    """
    kept = list(columns)
    while len(kept) > 1 and _least(kept, gap) > width:
        del kept[max(range(len(kept)), key=lambda at: (kept[at].rank, at))]
    widths = [column.least for column in kept]
    left = width - _least(kept, gap)
    if left < 0:
        widths[0] = max(width, 1)
    needs = needs or {}
    for at, column in sorted(enumerate(kept), key=lambda each: each[1].name not in needs):
        most = min(column.most, needs.get(column.name, column.most))
        more = max(min(left, most - column.least), 0)
        widths[at] += more
        left -= more
    return list(zip(kept, widths, strict=True))


def _least(columns: Sequence[Column], gap: int) -> int:
    return sum(column.least for column in columns) + gap * (len(columns) - 1)
