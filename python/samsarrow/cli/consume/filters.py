"""Filters of rows by the options `--grep`, `--header` and `--where`."""

from __future__ import annotations

import click
import pyarrow as pa
import pyarrow.compute as pc

from samsarrow.cli.consume.json_text import with_texts
from samsarrow.cli.consume.typed import ReadFormats
from samsarrow.cli.consume.where import TEXT, Where, check_pattern


class Filters:
    """Combined filters; a row must pass all of them.

    Args:
        grep: regular expression (RE2) that must match in the value.
        headers: headers that a row must have: `NAME=VALUE`, or `NAME` for a header with any value.
        where: condition of `--where` on the row.
        typed: formats of keys and values. Decoded keys and values are compared in their JSON form.

    Raises:
        click.BadParameter: a filter is invalid.
    """

    def __init__(self, grep: str | None, headers: tuple[str, ...], where: str | None, typed: ReadFormats) -> None:
        if grep is not None:
            try:
                check_pattern(grep)
            except click.BadParameter as error:
                error.param_hint = "--grep"
                raise
        self._grep = grep
        self._headers = [_header(text) for text in headers]
        self._where = None if where is None else Where(where, typed.kinds, typed.integers)
        self._typed = typed

    @property
    def wants_headers(self) -> bool:
        """True if a filter reads headers."""
        return bool(self._headers) or (self._where is not None and self._where.wants_headers)

    def __bool__(self) -> bool:
        return self._grep is not None or bool(self._headers) or self._where is not None

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        """Returns the numbers of the rows that pass, in ascending order.

        Raises:
            click.ClickException: a value cannot be compared as the condition requires.
        """
        try:
            return self._rows(batch)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise click.ClickException(f"the records cannot be filtered this way: {error}") from None

    def _rows(self, batch: pa.RecordBatch) -> pa.Array:
        selected = pa.array(range(batch.num_rows), pa.int64())
        batch = with_texts(batch, (name for name in self._typed.columns if self._typed.kinds[name] == TEXT))
        if self._grep is not None:
            values = batch if self._typed.kinds["value"] == TEXT else with_texts(batch, ["value"])
            hits = pc.match_substring_regex(values.column("value"), self._grep)
            selected = selected.filter(hits, null_selection_behavior="drop")
        for name, value in self._headers:
            selected = selected.filter(pc.is_in(selected, _with_header(batch, name, value)))
        if self._where is not None and len(selected):
            selected = selected.filter(pc.is_in(selected, self._where.rows(batch)))
        return selected


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE, or NAME for any value", param_hint="--header")
    return name, value.encode() if equals else None


def _with_header(batch: pa.RecordBatch, name: str, value: bytes | None) -> pa.Array:
    """Returns the numbers of the rows that have the header. A row that has the header several times is repeated."""
    lists = batch.column("headers")
    # Both functions also work if the column is a slice with an offset.
    rows, entries = pc.list_parent_indices(lists), pc.list_flatten(lists)
    hits = pc.equal(pc.struct_field(entries, "key"), name)
    if value is not None:
        hits = pc.and_(hits, pc.equal(pc.struct_field(entries, "value"), value))
    return rows.filter(hits, null_selection_behavior="drop")
