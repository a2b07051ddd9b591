"""Predicate pushdown for Polars: the partitions, offsets and times in which a predicate may hold.

Expressions are split by `meta.pop`, and recognized by comparing them with expressions that are rebuilt from the parts.
Both use only public API; the serialized form of expressions is not public. An expression that is not recognized does
not restrict the fetch, which is safe because the predicate is also applied to the fetched rows.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any, Literal, NamedTuple

import polars as pl

# Value of `end` in a span without an upper bound.
NEVER = (1 << 63) - 1
# Maximum depth to which predicates are evaluated. Deeper parts, as in chains of hundreds of alternatives, do not
# restrict the fetch.
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
# Casts that Polars adds when a column is compared with a literal of another type. They change no value.
_CASTS: dict[str, tuple[pl.DataType | type[pl.DataType], ...]] = {
    "partition": (pl.Int64(),),
    "offset": (),
    "timestamp": (pl.Datetime("us", "UTC"),),
}
_CLOSED: tuple[Literal["both", "left", "right", "none"], ...] = ("both", "left", "right", "none")


class Span(NamedTuple):
    """A half-open range of integers: `first` is included, `end` is not."""

    first: int = 0
    end: int = NEVER

    def intersect(self, other: Span) -> Span:
        """Returns the intersection of both spans."""
        return Span(max(self.first, other.first), min(self.end, other.end))

    def hull(self, other: Span) -> Span:
        """Returns the smallest span that contains both."""
        return Span(min(self.first, other.first), max(self.end, other.end))


class Rows(NamedTuple):
    """Bounds of the offsets of matching rows, and of their timestamps in milliseconds since 1970."""

    offsets: Span = Span()
    times: Span = Span()


Selection = dict[int, Rows]


def matching_rows(predicate: pl.Expr | None, partitions: Iterable[int]) -> Selection:
    """Returns the partitions with rows that may match a predicate, and the bounds of these rows.

    Args:
        predicate: predicate on the columns of a topic; None matches all rows.
        partitions: all partitions of the topic.
    """
    all_rows = {partition: Rows() for partition in partitions}
    if predicate is None:
        return all_rows
    selection = _evaluate(predicate, all_rows, _DEPTH)
    return {
        partition: rows
        for partition, rows in selection.items()
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
    """Returns the name if the expression is a column in `_CASTS`, possibly cast; otherwise None."""
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
    """Returns the limits of a literal, which may be cast; None if the expression is not a constant."""
    bare = expression
    while not bare.meta.is_literal():
        parts = bare.meta.pop()
        if len(parts) != 1:
            return None
        bare = parts[0]
    try:
        series = pl.select(expression).to_series()
    except pl.exceptions.PolarsError:
        # Ignored here, because evaluating the predicate raises the same error.
        return None
    if len(series) != 1 or series.null_count():
        return None
    return _limits(name, series.dtype, series.to_physical().item())


def _limits(name: str, dtype: pl.DataType, value: Any) -> tuple[int, int] | None:
    """Returns a literal rounded down and rounded up to an integer (for times, to a millisecond)."""
    if name != "timestamp":
        return (value, value) if dtype.is_integer() else None
    if not isinstance(dtype, pl.Datetime):
        return None
    unit = {"ms": 1, "us": 1_000, "ns": 1_000_000}[dtype.time_unit]
    return value // unit, -(-value // unit)
