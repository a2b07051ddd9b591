"""HTML of results, descriptions and metrics for notebooks: escaped, compact, with a bounded number of rows."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samsarrow.results import Results

# Rows of a table, items of a list in a cell, and characters of a cell.
ROWS = 20
ITEMS = 8
CHARACTERS = 200
DIM = ' style="opacity:0.6"'


class HtmlRepr:
    """Base of dataclasses that notebooks show as tables."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return object_html(self)


def object_html(value: Any) -> str:
    """Returns the fields of a dataclass as a table, and a table for each field with several objects."""
    scalars, tables = [], []
    for name, item in _fields(value):
        if isinstance(item, Mapping) and item:
            heads, rows = _mapping_rows(name, item)
            tables.append((name, heads, rows, len(item)))
        elif _is_objects(item):
            heads = [field for field, _ in _fields(item[0])]
            rows = ([text_of(cell) for _, cell in _fields(each)] for each in item)
            tables.append((name, heads, rows, len(item)))
        else:
            large = isinstance(item, int) and abs(item) >= 10_000
            scalars.append((name, f"{item:,}" if large else text_of(item)))
    html = table_html((), scalars, type(value).__name__, heads_in_rows=True)
    for name, heads, rows, count in tables:
        shown = " open" if count <= ROWS and len(tables) == 1 else ""
        body = table_html(heads, rows, count=count)
        html += f"<details{shown}><summary>{escaped(name)} ({count:,})</summary>{body}</details>"
    return f"<div>{html}</div>"


def results_html(results: Results[Any, Any]) -> str:
    """Returns the first results as a table with a row for each resource, and the first errors."""
    rows: list[dict[str, str]] = []
    count = 0
    for key, value in results.found.items():
        # As in `Results.table`, each item of a result with several items becomes a row.
        items = list(_known(value).values()) if isinstance(value, Mapping) else value
        several = items if _is_objects(items) else (value,)
        count += len(several)
        if len(rows) >= ROWS:
            continue
        of_key = {name: text_of(part) for name, part in _fields(key)} if _is_object(key) else {"key": text_of(key)}
        for item in islice(several, ROWS - len(rows)):
            of_item = {n: text_of(v) for n, v in _fields(item)} if _is_object(item) else {"value": text_of(item)}
            # Many objects repeat their key, such as the name of the group.
            own = {name: text for name, text in of_item.items() if text != of_key.get("key")}
            rows.append(of_key | {f"{name}_" if name in of_key else name: text for name, text in own.items()})
    heads = [n for n in dict.fromkeys(n for row in rows for n in row) if any(row.get(n, "-") != "-" for row in rows)]
    cells = [[row.get(name, "") for name in heads] for row in rows]
    found = len(results.found)
    html = table_html(heads, cells, f"{found:,} result{'s' * (found != 1)}", count=count) if count else ""
    if errors := results.errors:
        failed = ([text_of(key), type(error).__name__, text_of(error)] for key, error in errors.items())
        html += table_html(("key", "error", "message"), failed, f"{len(errors):,} failed", count=len(errors))
    return f"<div>{html or 'no results'}</div>"


def table_html(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    caption: str = "",
    *,
    count: int | None = None,
    heads_in_rows: bool = False,
) -> str:
    """Returns a table with at most `ROWS` rows.

    Args:
        heads: titles of the columns; empty for a table without titles.
        rows: cells as text, which is escaped.
        caption: caption of the table.
        count: number of rows, if it may be more than `ROWS`.
        heads_in_rows: whether the first cell of each row is a title.
    """
    html = f'<caption style="text-align:left"><b>{escaped(caption)}</b></caption>' if caption else ""
    if heads:
        html += "<thead><tr>" + "".join(f"<th>{escaped(head)}</th>" for head in heads) + "</tr></thead>"
    body = ""
    for row in rows if count is None else islice(rows, ROWS):
        cells = [f"<td>{escaped(cell)}</td>" for cell in row]
        if heads_in_rows:
            cells[0] = f"<th>{escaped(row[0])}</th>"
        body += f"<tr>{''.join(cells)}</tr>"
    if count is not None and count > ROWS:
        body += f'<tr><td colspan="{max(len(heads), 1)}"{DIM}>… {count - ROWS:,} more</td></tr>'
    return f"<table>{html}<tbody>{body}</tbody></table>"


def escaped(text: str) -> str:
    """Escapes a text, and truncates it to `CHARACTERS`."""
    from html import escape

    return escape(text if len(text) <= CHARACTERS else f"{text[: CHARACTERS - 1]}…")


def text_of(value: Any) -> str:
    """Returns the text of a cell."""
    if value is None:
        return "-"
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, str):
        # Subclasses such as `Secret` have a repr that hides the text.
        return value if type(value) is str else repr(value)
    if _is_latency(value):
        spans = ", ".join(f"{name} {_seconds(getattr(value, name))}" for name in ("p50", "p95", "p99", "max"))
        return f"{spans} ({value.count:,})" if value.count else "-"
    if _is_object(value):
        if [name for name, _ in _fields(value)] == ["topic", "partition"]:
            return f"{value.topic}-{value.partition}"
        return ", ".join(f"{name} {text_of(item)}" for name, item in _fields(value) if item not in (None, ""))
    if isinstance(value, Mapping):
        value = _known(value)
        return _listed([f"{text_of(key)}: {text_of(item)}" for key, item in islice(value.items(), ITEMS)], len(value))
    if isinstance(value, tuple | list | frozenset | set):
        if _is_objects(value):
            return f"{len(value):,}"
        return _listed([text_of(item) for item in islice(value, ITEMS)], len(value))
    return str(value)


def _listed(items: list[str], count: int) -> str:
    more = f", … ({count:,})" if count > len(items) else ""
    return ", ".join(items) + more if items else "-"


def _seconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def _is_object(value: Any) -> bool:
    return (dataclasses.is_dataclass(value) and not isinstance(value, type)) or hasattr(value, "_fields")


def _known(mapping: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """Returns the results of a mapping whose lookups may raise errors."""
    found: Mapping[Any, Any] = getattr(mapping, "found", mapping)
    return found


def _is_latency(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("p50", "p95", "p99"))


def _is_objects(value: Any) -> bool:
    """True for several dataclasses or named tuples of more than two fields, which become the rows of a table."""
    return isinstance(value, tuple | list) and bool(value) and _is_object(value[0]) and len(_fields(value[0])) > 2


def _fields(value: Any) -> list[tuple[str, Any]]:
    """Returns the fields and numeric properties of an object, except fields without repr, such as secrets."""
    cls: type = type(value)
    if not dataclasses.is_dataclass(value):
        return [(name, getattr(value, name)) for name in value._fields]
    names = [field.name for field in dataclasses.fields(value) if field.repr]
    names += [
        name
        for kind in cls.__mro__
        for name, member in vars(kind).items()
        if isinstance(member, property) and not name.startswith("_") and _is_number(member)
    ]
    return [(name, getattr(value, name)) for name in dict.fromkeys(names)]


def _is_number(member: property) -> bool:
    """True if a property is annotated as a number. Others may contain secrets, such as the base64 of a key."""
    return str(getattr(member.fget, "__annotations__", {}).get("return")).startswith(("int", "float", "bool"))


def _mapping_rows(name: str, mapping: Mapping[Any, Any]) -> tuple[list[str], Iterable[list[str]]]:
    """Returns the titles and rows of a table for a mapping, with a column for each field of its values."""
    first = next(iter(mapping.values()))
    if not _is_object(first) or _is_latency(first):
        return ["", name], ([text_of(key), text_of(item)] for key, item in mapping.items())
    rows = ([text_of(key), *(text_of(cell) for _, cell in _fields(item))] for key, item in mapping.items())
    return ["", *(field for field, _ in _fields(first))], rows
