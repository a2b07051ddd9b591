"""Rows and types of acknowledgements, as `ShareConsumer.acknowledge` accepts them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from operator import index
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
_POLLED = [pa.dictionary(pa.int32(), pa.string()), pa.int32(), pa.int64()]
_CODES: dict[Any, int | None] = {"accept": 1, "release": 2, "reject": 3, "renew": 4, None: None}
_CODES |= {code: code for code in (1, 2, 3, 4)}


def positions(rows: Rows) -> pa.Table | pa.RecordBatch:
    """Returns the topic, partition and offset of each row.

    Raises:
        TypeError: `rows` is neither Arrow data nor records.
        ConfigurationError: the data lacks one of the columns, or a column does not have positions.
    """
    if isinstance(rows, pa.RecordBatch) and _are_polled(rows.schema):
        # This path copies nothing and creates no table. It takes a twentieth of the time of the general path per poll.
        return rows.select(ROW_COLUMNS)
    if _is_arrow(rows):
        return _columns(rows)
    if isinstance(rows, list | tuple) and rows and all(map(_is_arrow, rows)):
        # The types of topics differ between libraries: text, or a dictionary.
        tables = [_columns(part) for part in rows]
        return pa.concat_tables([table.cast(_SCHEMA) for table in tables])
    pairs = _pairs(rows)
    return pa.table([[pair[at] for pair in pairs] for at in range(len(ROW_COLUMNS))], schema=_SCHEMA)


def _is_arrow(rows: Rows) -> bool:
    return hasattr(rows, "__arrow_c_array__") or hasattr(rows, "__arrow_c_stream__")


def _are_polled(schema: pa.Schema) -> bool:
    """Returns true if the columns have the types of the batches of polls, and each occurs once."""
    found = [schema.get_all_field_indices(name) for name in ROW_COLUMNS]
    return all(len(at) == 1 and schema.field(at[0]).type == kind for at, kind in zip(found, _POLLED, strict=True))


def _columns(rows: Rows) -> pa.Table:
    if isinstance(rows, pa.RecordBatch):
        table = pa.Table.from_batches([rows])
    else:
        try:
            table = rows if isinstance(rows, pa.Table) else pa.table(rows)
        except pa.ArrowInvalid:
            raise TypeError(
                "expected rows with the columns topic, partition and offset, as poll returns them, got one column "
                f"({type(rows).__name__})"
            ) from None
    columns = []
    for field in _SCHEMA:
        if (found := table.column_names.count(field.name)) != 1:
            number = f"{found} columns" if found else "no column"
            raise ConfigurationError(
                f"the rows have {number} {field.name}: pass topic, partition and offset, as poll returns them"
            )
        column = table.column(field.name)
        try:
            columns.append(_plain(column, field.type))
        except pa.ArrowException as error:
            raise ConfigurationError(
                f"column {field.name} of the rows has the type {column.type}, not {field.type}: pass topic, "
                f"partition and offset, as poll returns them ({error})"
            ) from None
    return pa.table(columns, names=ROW_COLUMNS)


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
        return [_pair(rows.topic, rows.partition, rows.offset)]
    if isinstance(rows, tuple) and len(rows) == 2 and isinstance(rows[0], TopicPartition):
        return [_pair(*rows[0], rows[1])]
    if isinstance(rows, Iterable) and not isinstance(rows, str | bytes | dict | TopicPartition):
        return [pair for row in rows for pair in _pairs(row)]
    raise TypeError(
        "expected a batch or table of rows, a ConsumerRecord, several of them, or a pair of a TopicPartition and an "
        f"offset, got {type(rows).__name__}"
    )


def _pair(topic: Any, partition: Any, offset: Any) -> tuple[str, int, int]:
    if not isinstance(topic, str):
        raise TypeError(f"a topic is a name, not {topic!r}")
    return topic, _integer("a partition", partition, 32), _integer("an offset", offset, 64)


def _integer(subject: str, value: Any, bits: int) -> int:
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{subject} is an int, not {value!r}") from None
    limit = 1 << (bits - 1)
    if isinstance(value, bool) or not -limit <= number < limit:
        raise TypeError(f"{subject} is an int of {bits} bits, not {value!r}")
    return number


def type_codes(types: Any, rows: int) -> list[int | None]:
    """Returns Kafka's number of each type, or of the only type.

    Raises:
        ConfigurationError: a type is unknown, or there are not as many types as rows.
    """
    if isinstance(types, pa.Scalar):
        types = types.as_py()
    if types is None or not isinstance(types, Iterable) or isinstance(types, str | bytes | dict):
        return [_code(types)]
    column = _column(types)
    items: Any = types if column is None else column
    if not hasattr(items, "__len__"):
        items = list(items)
    if len(items) != rows:
        raise ConfigurationError(f"{len(items)} types for {rows} rows: pass one type, or one for each row")
    return _codes_of_items(items) if column is None else _codes_of_column(column)


def _column(types: Any) -> pa.Array | None:
    """Returns types of an Arrow library as an array; None if they are other Python objects."""
    if not _is_arrow(types):
        return None
    with suppress(pa.ArrowException, TypeError, ValueError):
        column = types if isinstance(types, pa.Array | pa.ChunkedArray) else pa.chunked_array(types)
        return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return None


def _codes_of_column(column: pa.Array) -> list[int | None]:
    """Checks each different type once."""
    try:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    except pa.ArrowException:
        return _codes_of_items(column)
    codes = pa.array([_code(kind) for kind in encoded.dictionary.to_pylist()], pa.int8()).take(encoded.indices)
    return list(codes.to_pylist())


def _codes_of_items(types: Any) -> list[int | None]:
    if hasattr(types, "to_pylist"):
        items = types.to_pylist()
    elif hasattr(types, "to_list"):
        items = types.to_list()
    else:
        items = list(types)
    try:
        known = {(type(item), item): _code(item) for item in items}
    except TypeError:
        # Items without a hash are invalid types, which `_code` rejects.
        return [_code(item) for item in items]
    return [known[type(item), item] for item in items]


def _code(kind: Any) -> int | None:
    # 1 == True == 1.0, and a mask of booleans says nothing about the effect of its rows.
    if kind is None or isinstance(kind, str) or (hasattr(kind, "__index__") and not isinstance(kind, bool)):
        with suppress(KeyError, TypeError):
            return _CODES[kind]
    hint = ", and a mask selects rows: pass batch.filter(mask) as rows" if _is_bool(kind) else ""
    raise ConfigurationError(f"an acknowledgement type is accept, release, reject, renew or None, not {kind!r}{hint}")


def _is_bool(kind: Any) -> bool:
    # NumPy's booleans are no subclass of bool.
    return type(kind).__name__ in ("bool", "bool_")
