"""Records as a table: typed columns for values with members, text for other keys and values."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import click
import pyarrow as pa

from samsarrow.cli.consume.layout import Layout
from samsarrow.cli.consume.outputs import OutputFormat
from samsarrow.cli.tables import Table

# Columns for errors of keys and values that cannot be decoded, which are shown if there are any.
_ERRORS = ("key_error", "value_error")


class TableTextWriter:
    """Renderer of rows as a table, whose columns are those of the first rows.

    Rows with further columns begin a new table, with names of its own.

    Args:
        typed: names of the decoded columns, `key` or `value` or both.
        several: whether rows are from several topics.
        text: whether values with members stay one column.
        width: returns the width of the terminal, or None for no limit.
    """

    wants_headers = True

    def __init__(self, typed: frozenset[str], several: bool, text: bool, width: Callable[[], int | None]) -> None:
        self._typed, self._several, self._text = typed, several, text
        self._width = width
        self._names: list[str] = []
        self._table: Table | None = None

    def render(self, batch: pa.RecordBatch) -> Iterable[bytes]:
        """Returns the lines of all rows of a batch."""
        if not batch.num_rows:
            return ()
        columns = self._columns(batch)
        lines: list[str] = []
        if self._table is None or not columns.keys() <= set(self._names):
            lines += [""] if self._table is not None else []
            self._names = list(columns)
            self._table = Table([name.upper() for name in self._names], self._width())
        missing = [None] * batch.num_rows
        rows = zip(*(columns.get(name, missing) for name in self._names), strict=True)
        lines += self._table.lines(rows)
        return ("".join(f"{line}\n" for line in lines).encode(),)

    def _columns(self, batch: pa.RecordBatch) -> dict[str, list[Any]]:
        """Returns the cells of each column."""
        found: dict[str, list[Any]] = {}
        if self._several:
            found["topic"] = batch.column("topic").to_pylist()
        found |= {name: batch.column(name).to_pylist() for name in ("partition", "offset")}
        found["timestamp"] = [_time(value) for value in batch.column("timestamp").cast(pa.int64()).to_pylist()]
        found["key"] = _texts(batch.column("key").to_pylist())
        found |= self._values(batch, {*found, "headers", *_ERRORS})
        for name in _ERRORS:
            if name in batch.schema.names and batch.column(name).null_count < batch.num_rows:
                found[name] = batch.column(name).to_pylist()
        headers = [_headers(pairs) for pairs in batch.column("headers").to_pylist()]
        return {**found, "headers": headers} if any(headers) else found

    def _values(self, batch: pa.RecordBatch, used: set[str]) -> dict[str, list[Any]]:
        values = batch.column("value")
        layout = Layout(OutputFormat("csv"))
        columns: dict[str, pa.Array] = {}
        if not self._text and "value" in self._typed and pa.types.is_struct(values.type):
            columns = layout.fields(values, used)
        elif not self._text and "value" not in self._typed:
            try:
                columns = layout.members(batch, used)
            except click.ClickException:
                # Not all values are JSON objects. Further batches are shown as text, too, to keep the columns.
                self._text = True
        if not columns:
            columns = {"value": values}
        return {name: _texts(column.to_pylist()) for name, column in columns.items()}


def _time(milliseconds: int | None) -> str | None:
    """Returns a timestamp as local time; None for the timestamp -1 of old records without one."""
    if milliseconds is None or milliseconds < 0:
        return None
    try:
        return datetime.fromtimestamp(milliseconds / 1000).isoformat(" ", "milliseconds")
    except (ValueError, OverflowError, OSError):
        return str(milliseconds)


def _texts(values: Iterable[Any]) -> list[Any]:
    return [_text(value) for value in values]


def _text(value: Any) -> Any:
    """Returns a value as text: bytes that are not UTF-8 as hexadecimal digits, empty text in quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            return f"0x{value.hex()}"
    return '""' if value == "" else value


def _headers(pairs: list[dict[str, Any]] | None) -> str:
    return ",".join(f"{pair['key']}={'' if pair['value'] is None else _text(pair['value'])}" for pair in pairs or ())
