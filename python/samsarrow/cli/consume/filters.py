"""Which rows are shown: `--grep`, `--header`, `--where`."""

from __future__ import annotations

import click
import pyarrow as pa
import pyarrow.compute as pc

from samsarrow.cli.consume.json_text import with_texts
from samsarrow.cli.consume.typed import Typed
from samsarrow.cli.consume.where import TEXT, Where, check_pattern


class Filters:
    """All of them together: a row must pass each.

    Args:
        grep: regular expression (RE2) for the value.
        headers: `NAME=VALUE`, or `NAME` for one that is there with any value.
        where: a condition.
        typed: which keys and values are decoded. They are compared as what JSON has of them.

    Raises:
        click.BadParameter: one of them makes no sense.
    """

    def __init__(self, grep: str | None, headers: tuple[str, ...], where: str | None, typed: Typed) -> None:
        if grep is not None:
            check_pattern(grep)
        self._grep = grep
        self._headers = [_header(text) for text in headers]
        self._where = None if where is None else Where(where, typed.kinds, typed.integers)
        self._typed = typed

    @property
    def wants_headers(self) -> bool:
        """Whether they read headers."""
        return bool(self._headers) or (self._where is not None and self._where.wants_headers)

    def __bool__(self) -> bool:
        return self._grep is not None or bool(self._headers) or self._where is not None

    def rows(self, batch: pa.RecordBatch) -> pa.Array:
        """The numbers of the rows that pass, rising.

        Raises:
            click.ClickException: a record has what cannot be compared.
        """
        try:
            return self._rows(batch)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise click.ClickException(f"the records cannot be filtered this way: {error}") from None

    def _rows(self, batch: pa.RecordBatch) -> pa.Array:
        found = pa.array(range(batch.num_rows), pa.int64())
        batch = with_texts(batch, (name for name in self._typed.columns if self._typed.kinds[name] == TEXT))
        if self._grep is not None:
            values = batch if self._typed.kinds["value"] == TEXT else with_texts(batch, ["value"])
            hits = pc.match_substring_regex(values.column("value"), self._grep)
            found = found.filter(hits, null_selection_behavior="drop")
        for name, value in self._headers:
            found = found.filter(pc.is_in(found, _with_header(batch, name, value)))
        if self._where is not None and len(found):
            found = found.filter(pc.is_in(found, self._where.rows(batch)))
        return found


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE, or NAME for any value", param_hint="--header")
    return name, value.encode() if equals else None


def _with_header(batch: pa.RecordBatch, name: str, value: bytes | None) -> pa.Array:
    """The numbers of the rows that have such a header, some perhaps more than once."""
    lists = batch.column("headers")
    # Of a slice: both know where it begins.
    rows, entries = pc.list_parent_indices(lists), pc.list_flatten(lists)
    hits = pc.equal(pc.struct_field(entries, "key"), name)
    if value is not None:
        hits = pc.and_(hits, pc.equal(pc.struct_field(entries, "value"), value))
    return rows.filter(hits, null_selection_behavior="drop")
