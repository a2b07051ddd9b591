"""What a Polars predicate says of partitions, offsets and times, so that no more is fetched than it needs.

Expressions are taken apart by `meta.pop` and recognised by building what they may be from their parts: that is public
API, unlike their serialised form. What is not recognised says nothing, and all is read: the predicate itself is applied
to what came.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import polars as pl

NEVER = (1 << 63) - 1
# Deeper predicates, such as hundreds of alternatives in a chain, are not worth their reading.
_DEPTH = 64

_COMPARISONS: tuple[Callable[[Any, Any], Any], ...] = (
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
)
_MIRRORED = {operator.lt: operator.gt, operator.le: operator.ge, operator.gt: operator.lt, operator.ge: operator.le}
# Casts that Polars adds where a column meets a literal of another type, and that change no value.
_CASTS: dict[str, tuple[pl.DataType | type[pl.DataType], ...]] = {
    "partition": (pl.Int64(),),
    "offset": (),
    "timestamp": (pl.Datetime("us", "UTC"),),
}
_CLOSED: tuple[Literal["both", "left", "right", "none"], ...] = ("both", "left", "right", "none")


class Span(NamedTuple):
    """Numbers from `first` on and below `end`."""

    first: int = 0
    end: int = NEVER

    def intersect(self, other: Span) -> Span:
        """What is in the two."""
        return Span(max(self.first, other.first), min(self.end, other.end))

    def hull(self, other: Span) -> Span:
        """What is in one of them, and what lies between."""
        return Span(min(self.first, other.first), max(self.end, other.end))


class Rows(NamedTuple):
    """The rows of a partition that may be matching_rows: their offsets, and their times in milliseconds since 1970."""

    offsets: Span = Span()
    times: Span = Span()


Selection = dict[int, Rows]


def matching_rows(predicate: pl.Expr | None, partitions: Iterable[int]) -> Selection:
    """The partitions in which a predicate may hold, and where in them.

    Args:
        predicate: on the columns of a topic; None holds everywhere.
        partitions: all there are.
    """
    all_rows = {partition: Rows() for partition in partitions}
    if predicate is None:
        return all_rows
    found = _evaluate(predicate, all_rows, _DEPTH)
    return {
        partition: rows
        for partition, rows in found.items()
        if rows.offsets.first < rows.offsets.end and rows.times.first < rows.times.end
    }


def _evaluate(expression: pl.Expr, all_rows: Selection, depth: int) -> Selection:
    parts = expression.meta.pop()
    if not depth:
        return all_rows
    if len(parts) == 3:
        return _between(expression, parts, all_rows)
    if len(parts) != 2:
        return all_rows
    right, left = parts
    if expression.meta.eq(left & right):
        return _intersection(_evaluate(left, all_rows, depth - 1), _evaluate(right, all_rows, depth - 1))
    if expression.meta.eq(left | right):
        one, other = _evaluate(left, all_rows, depth - 1), _evaluate(right, all_rows, depth - 1)
        return {p: _union(one.get(p), other.get(p)) for p in all_rows if p in one or p in other}
    if (name := _column(left)) is not None and expression.meta.eq(left.is_in(right)):
        return _is_in(name, right, all_rows)
    for comparison in _COMPARISONS:
        if expression.meta.eq(comparison(left, right)):
            if (name := _column(left)) is not None:
                return _compared(name, comparison, right, all_rows)
            if (name := _column(right)) is not None:
                return _compared(name, _MIRRORED.get(comparison, comparison), left, all_rows)
    return all_rows


def _intersection(one: Selection, other: Selection) -> Selection:
    return {
        p: Rows(one[p].offsets.intersect(other[p].offsets), one[p].times.intersect(other[p].times))
        for p in one
        if p in other
    }


def _union(one: Rows | None, other: Rows | None) -> Rows:
    if one is None or other is None:
        return one or other or Rows()
    return Rows(one.offsets.hull(other.offsets), one.times.hull(other.times))


def _column(expression: pl.Expr) -> str | None:
    """The column that an expression is, if its values are known without reading."""
    for name, casts in _CASTS.items():
        column = pl.col(name)
        if expression.meta.eq(column) or any(
            expression.meta.eq(column.cast(cast, strict=strict)) for cast in casts for strict in (True, False)
        ):
            return name
    return None


def _compared(name: str, comparison: Callable[[Any, Any], Any], other: pl.Expr, all_rows: Selection) -> Selection:
    if (limits := _constant(name, other)) is None:
        return all_rows
    low, high = limits
    if name == "partition":
        return {p: rows for p, rows in all_rows.items() if comparison(p, low)}
    if comparison is operator.eq:
        span = Span(low, high + 1)
    elif comparison is operator.ge or comparison is operator.gt:
        span = Span(low + (comparison is operator.gt and name == "offset"))
    elif comparison is operator.le or comparison is operator.lt:
        span = Span(end=high + (comparison is operator.le or name == "timestamp"))
    else:
        return all_rows
    return _restricted(name, span, all_rows)


def _between(expression: pl.Expr, parts: list[pl.Expr], all_rows: Selection) -> Selection:
    upper, lower, column = parts
    name = _column(column)
    if name is not None:
        for closed in _CLOSED:
            if expression.meta.eq(column.is_between(lower, upper, closed=closed)):
                above = operator.ge if closed in ("both", "left") else operator.gt
                below = operator.le if closed in ("both", "right") else operator.lt
                return _intersection(_compared(name, above, lower, all_rows), _compared(name, below, upper, all_rows))
    return all_rows


def _is_in(name: str, others: pl.Expr, all_rows: Selection) -> Selection:
    if not others.meta.is_literal():
        return all_rows
    series = pl.select(others).to_series()
    if isinstance(series.dtype, pl.List):
        series = series.explode()
    limits = [_limits(name, series.dtype, value) for value in series.to_physical().drop_nulls().to_list()]
    known = [limit for limit in limits if limit is not None]
    if len(known) < len(limits) or not known:
        return all_rows
    if name == "partition":
        return {p: rows for p, rows in all_rows.items() if any(p == low for low, _ in known)}
    return _restricted(name, Span(min(low for low, _ in known), max(high for _, high in known) + 1), all_rows)


def _restricted(name: str, span: Span, all_rows: Selection) -> Selection:
    rows = Rows(offsets=Span().intersect(span)) if name == "offset" else Rows(times=Span().intersect(span))
    return dict.fromkeys(all_rows, rows)


def _constant(name: str, expression: pl.Expr) -> tuple[int, int] | None:
    """The value of a literal, also where it is cast: whole numbers that it lies between."""
    bare = expression
    while not bare.meta.is_literal():
        parts = bare.meta.pop()
        if len(parts) != 1:
            return None
        bare = parts[0]
    try:
        series = pl.select(expression).to_series()
    except pl.exceptions.PolarsError:
        # So will the predicate itself.
        return None
    if len(series) != 1 or series.null_count():
        return None
    return _limits(name, series.dtype, series.to_physical().item())


def _limits(name: str, dtype: pl.DataType, value: Any) -> tuple[int, int] | None:
    """The whole numbers, of milliseconds for times, next to a value of a literal."""
    if name != "timestamp":
        return (value, value) if dtype.is_integer() else None
    if not isinstance(dtype, pl.Datetime):
        return None
    unit = {"ms": 1, "us": 1_000, "ns": 1_000_000}[dtype.time_unit]
    return value // unit, -(-value // unit)
