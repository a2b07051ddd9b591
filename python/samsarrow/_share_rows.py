"""Rows and types of acknowledgements, as `ShareConsumer.acknowledge` accepts them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from samsarrow.exceptions import ConfigurationError
from samsarrow.types import ConsumerRecord, TopicPartition

AcknowledgeType: TypeAlias = Literal["accept", "release", "reject", "renew"]
"""Decision about a row."""

Rows: TypeAlias = Any
"""A batch or table of rows, a `ConsumerRecord`, several of them, or a pair of a `TopicPartition` and an offset."""

ROW_COLUMNS = ["topic", "partition", "offset"]
_SCHEMA = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
_CODES: dict[Any, int | None] = {"accept": 1, "release": 2, "reject": 3, "renew": 4, None: None}
_CODES |= {code: code for code in (1, 2, 3, 4)}


def positions(rows: Rows) -> pa.Table:
    """Returns the topic, partition and offset of each row.

    Raises:
        TypeError: `rows` is neither Arrow data nor records.
        ConfigurationError: the data lacks one of the columns.
    """
    if hasattr(rows, "__arrow_c_array__") or hasattr(rows, "__arrow_c_stream__"):
        if isinstance(rows, pa.RecordBatch):
            table = pa.Table.from_batches([rows])
        else:
            table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        if missing := [name for name in ROW_COLUMNS if name not in table.column_names]:
            raise ConfigurationError(
                f"the rows have no column {missing[0]}: pass topic, partition and offset, as poll returns them"
            )
        columns = [_plain(table.column(name), field.type) for name, field in zip(ROW_COLUMNS, _SCHEMA, strict=True)]
        return pa.table(columns, names=ROW_COLUMNS)
    pairs = _pairs(rows)
    return pa.table([[pair[index] for pair in pairs] for index in range(len(ROW_COLUMNS))], schema=_SCHEMA)


def _plain(column: pa.ChunkedArray, target: pa.DataType) -> pa.ChunkedArray:
    """Casts columns of other libraries. Dictionaries of topics, as in batches and in Polars' frames, stay."""
    if pa.types.is_dictionary(column.type) and target == pa.string():
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices.cast(pa.int32()), chunk.dictionary.cast(target))
            for chunk in column.chunks
        ]
        return pa.chunked_array(chunks, pa.dictionary(pa.int32(), target))
    return column if column.type == target else column.cast(target)


def _pairs(rows: Rows) -> list[tuple[str, int, int]]:
    if isinstance(rows, ConsumerRecord):
        return [(rows.topic, rows.partition, rows.offset)]
    if isinstance(rows, tuple) and len(rows) == 2 and isinstance(rows[0], TopicPartition):
        return [(rows[0].topic, rows[0].partition, int(rows[1]))]
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes | dict):
        return [pair for row in rows for pair in _pairs(row)]
    raise TypeError(
        "expected a batch or table of rows, a ConsumerRecord, several of them, or a pair of a TopicPartition and an "
        f"offset, got {type(rows).__name__}"
    )


def type_codes(types: AcknowledgeType | Any, rows: int) -> list[int | None]:
    """Returns Kafka's number of each type, or of the only type.

    Raises:
        ConfigurationError: a type is unknown, or there are not as many types as rows.
    """
    if isinstance(types, str | int) or types is None:
        return [_code(types)]
    if hasattr(types, "to_pylist"):
        items = types.to_pylist()
    elif hasattr(types, "to_list"):
        items = types.to_list()
    else:
        items = list(types)
    if len(items) != rows:
        raise ConfigurationError(f"{len(items)} types for {rows} rows: pass one type, or one for each row")
    known = {item: _code(item) for item in dict.fromkeys(items)}
    return [known[item] for item in items]


def _code(kind: Any) -> int | None:
    try:
        return _CODES[kind]
    except (KeyError, TypeError):
        raise ConfigurationError(
            f"an acknowledgement type is accept, release, reject, renew or None, not {kind!r}"
        ) from None
