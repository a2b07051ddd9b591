"""Records as text, for notebooks, the Python shell and logs."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from operator import index
from typing import Any

import pyarrow as pa

from samsarrow._html import DIM


class Records:
    """The first rows of a table as text: `str(records)`, and an HTML table in notebooks.

    Attributes:
        names: names of the columns.
        rows: text of the cells by row; None for null.
        total: number of rows of the table.
    """

    def __init__(self, names: list[str], rows: list[list[str | None]], total: int) -> None:
        self.names, self.rows, self.total = names, rows, total

    @property
    def _footer(self) -> str:
        if self.total > len(self.rows):
            return f"{len(self.rows):,} of {self.total:,} rows"
        return f"{self.total:,} row{'' if self.total == 1 else 's'}"

    def __repr__(self) -> str:
        cells = [self.names, *(["null" if cell is None else cell for cell in row] for row in self.rows)]
        widths = [max(len(row[at]) for row in cells) for at in range(len(self.names))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells
        ]
        return "\n".join([*lines, self._footer])

    def _repr_html_(self) -> str:
        from html import escape

        heads = "".join(f"<th>{escape(name)}</th>" for name in self.names)
        body = ""
        for row in self.rows:
            cells = (f"<td{DIM}>null</td>" if cell is None else f"<td>{escape(cell)}</td>" for cell in row)
            body += f"<tr>{''.join(cells)}</tr>"
        table = f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>"
        return f"<div>{table}<p{DIM}>{self._footer}</p></div>"


def show(data: Any, rows: int = 10, *, width: int = 60) -> Records:
    """Returns the first rows of a batch or table as text, with keys and values as text instead of bytes.

    Bytes that are printable UTF-8 are shown as text, others in hexadecimal with their length. Structs and lists, such
    as decoded values and headers, are shown as JSON. The data is not changed.

    Args:
        data: a `pyarrow.RecordBatch` or `pyarrow.Table`, or any other object with the Arrow PyCapsule interface, such
            as a Polars or pandas frame.
        rows: maximum number of rows, 0 or more.
        width: maximum number of characters of a cell, 1 or more; longer cells end with an ellipsis.

    Returns:
        The text. In notebooks it is a table; `str` of it is one too, with aligned columns.

    Raises:
        TypeError: the data is not a table, or is a stream, whose rows would be lost.
        ValueError: `rows` or `width` is out of range.
    """
    for name, number in (("rows", rows), ("width", width)):
        if not hasattr(number, "__index__"):
            raise TypeError(f"{name} must be an int, not {type(number).__name__}")
    if index(rows) < 0 or index(width) < 1:
        raise ValueError(f"rows must be 0 or more, and width 1 or more: got rows={rows}, width={width}")
    table = _table(data)
    names = [str(name) for name in table.column_names]
    shown = table.slice(0, min(index(rows), table.num_rows))
    columns = [[_cell(_value(value), width) for value in column] for column in shown.columns]
    return Records(names, [list(row) for row in zip(*columns, strict=True)], table.num_rows)


def _table(data: Any) -> pa.Table:
    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if isinstance(data, pa.RecordBatchReader):
        raise TypeError("show does not read streams, whose rows would be lost: pass a batch, or reader.read_all()")
    if isinstance(data, pa.Array | pa.ChunkedArray) or type(data).__name__ == "Series":
        kind = type(data).__name__
        raise TypeError(f'show takes tables, not columns: pass pyarrow.table({{"name": column}}) for this {kind}')
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return pa.table(data)
    raise TypeError(
        f"show takes a RecordBatch, a Table or another object with the Arrow PyCapsule interface: got "
        f"{type(data).__name__}"
    )


def _value(scalar: pa.Scalar[Any]) -> Any:
    try:
        return scalar.as_py()
    except (OverflowError, ValueError):
        # A time that `datetime` does not represent: a record may have any number as its timestamp.
        number = getattr(scalar, "value", None)
        return number if isinstance(number, int) else pa.array([scalar]).to_string(skip_new_lines=True)[1:-1]


def _cell(value: Any, width: int) -> str | None:
    if value is None:
        return None
    text = (
        value if isinstance(value, str) else _bytes(value, width) if isinstance(value, bytes) else _json(value, width)
    )
    # Escapes line ends and control characters, which would break the table or the terminal.
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: width + 1])
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _bytes(value: bytes, width: int) -> str:
    # Four bytes for each character, the maximum of UTF-8. The last character may be truncated.
    head = value[: 4 * (width + 1)]
    try:
        text = head.decode()
    except UnicodeDecodeError as error:
        if len(head) == len(value) or error.start < len(head) - 3:
            return _hexadecimal(value, width)
        text = head[: error.start].decode()
    if all(c.isprintable() or c in "\r\n\t" for c in text):
        return text
    return _hexadecimal(value, width)


def _hexadecimal(value: bytes, width: int) -> str:
    size = f" ({len(value):,} bytes)"
    kept = max((width - len(size) - 3) // 2, 1)
    return f"0x{value.hex()}" if 2 * len(value) + 2 <= width else f"0x{value[:kept].hex()}…{size}"


def _json(value: Any, width: int) -> str:
    if isinstance(value, dict | list | tuple):
        return json.dumps(_plain(value, width), ensure_ascii=False)
    return _plain_text(value)


def _plain(value: Any, width: int) -> Any:
    """Returns a value that `json` can write. Bytes and times become text."""
    if isinstance(value, dict):
        return {str(_plain(key, width)): _plain(item, width) for key, item in value.items()}
    if isinstance(value, list | tuple):
        # No more items than fit into the cell.
        return [_plain(item, width) for item in value[: width + 1]]
    if isinstance(value, bytes):
        return _bytes(value, width)
    return value if value is None or isinstance(value, str | int | float | bool) else _plain_text(value)


def _plain_text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="milliseconds" if value.microsecond % 1000 == 0 else "auto")
    return value.isoformat() if isinstance(value, date | time) else str(value)
