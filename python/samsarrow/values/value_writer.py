"""Encoding of keys and values of Arrow data while the data is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from samsarrow._sync import RunCall
from samsarrow.exceptions import ConfigurationError
from samsarrow.partitioner import reader_of, unused
from samsarrow.values.decode import Format
from samsarrow.values.encode import Encoder, empty_batch, encode_error, make_encoder
from samsarrow.values.headers import HEADERS, InHeaders, header_name, with_header


class WrittenRows:
    """Rows of Arrow data with additional columns for encoded keys and encoded values.

    If headers identify the schemas, a column with these headers is added, too.

    Attributes:
        reader: the rows.
        key: name of the column of keys; None for the default name.
        value: name of the column of values, or names of several columns; None for the default name.
        headers: name of the column of headers; None for the default name.
    """

    def __init__(self, topic: str, source: pa.RecordBatchReader) -> None:
        self.reader = source
        self.key: str | None = None
        self.value: str | list[str] | None = None
        self.headers: str | None = None
        self._topic = topic
        self._encoders: dict[str, tuple[list[str], bool, Encoder]] = {}
        self._source_headers: str | None = None

    @staticmethod
    async def of(
        run: RunCall,
        topic: str,
        data: Any,
        key: str | None,
        key_format: Format | None,
        value: str | list[str] | None,
        value_format: Format | None,
        headers: str | None = None,
    ) -> WrittenRows:
        """Creates the reader. Checks the columns and registers schemas before the first row is encoded."""
        source = reader_of(data)
        rows = WrittenRows(topic, source)
        rows.key, rows.value, rows.headers, schema = key, value, headers, source.schema
        for part, names, part_format in (("key", key, key_format), ("value", value, value_format)):
            if part_format is None:
                continue
            columns, is_struct = _picked(source.schema, part, names)
            like = pa.record_batch({"value": _column(empty_batch(source.schema), columns, is_struct)})
            rows._encoders[part] = columns, is_struct, await make_encoder(part_format, run, like, topic, part == "key")
            setattr(rows, part, unused(part, schema))
            schema = schema.append(pa.field(getattr(rows, part), pa.large_binary()))
        if any(isinstance(encoder, InHeaders) for *_, encoder in rows._encoders.values()):
            rows._source_headers = _headers_of(source.schema, headers)
            rows.headers = unused("headers", schema)
            schema = schema.append(pa.field(rows.headers, HEADERS))
        rows.reader = pa.RecordBatchReader.from_batches(schema, rows._batches(source, schema))
        return rows

    def _batches(self, source: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        row = 0
        for batch in source:
            written: list[Any] = []
            headers = None if self._source_headers is None else batch.column(self._source_headers)
            for part, (columns, is_struct, encoder) in self._encoders.items():
                done, bad = encoder.encode(pa.record_batch({"value": _column(batch, columns, is_struct)}))
                if done is None:
                    raise encode_error(bad, row, self._topic)
                written.append(pa.concat_arrays([chunk.column(0).cast(pa.large_binary()) for chunk in done]))
                if isinstance(encoder, InHeaders):
                    headers = with_header(headers, written[-1], header_name(part == "key"), encoder.header)
            if len(batch.columns) + len(written) < len(schema):
                written.append(headers)
            yield pa.RecordBatch.from_arrays([*batch.columns, *written], schema=schema)
            row += batch.num_rows


def _headers_of(schema: pa.Schema, name: str | None) -> str | None:
    """Returns the name of the column of headers, or None if the data has no such column."""
    if name is not None and name not in schema.names:
        raise ConfigurationError(f"there is no column {name!r} of headers")
    return name or ("headers" if "headers" in schema.names else None)


def _picked(schema: pa.Schema, part: str, name: str | Sequence[str] | None) -> tuple[list[str], bool]:
    """Returns the names of the columns of keys or values, and true if they are encoded as fields of one struct."""
    columns = [part if name is None else name] if name is None or isinstance(name, str) else list(name)
    for column in columns:
        if schema.get_all_field_indices(column) == []:
            raise ConfigurationError(
                f"there is no column {column!r} to write as {part}s: there are {', '.join(map(repr, schema.names))}"
            )
    return columns, not (name is None or isinstance(name, str))


def _column(rows: Any, columns: list[str], is_struct: bool) -> Any:
    """Returns the single column, or a struct array of the columns."""
    picked = rows.select(columns)
    if not is_struct:
        return picked.column(0)
    return picked.to_struct_array()
