"""Rows and types of acknowledgements: columns are converted without a step for each row, with the same results."""

import pyarrow as pa
import pytest

from samsarrow import ConfigurationError
from samsarrow._share_rows import positions, type_codes

KINDS = ["accept", "release", None, "reject", "renew"]
CODES = [1, 2, None, 3, 4]
COLUMNS = {
    "text": pa.array(KINDS),
    "large text": pa.array(KINDS, pa.large_string()),
    "dictionary": pa.array(KINDS).dictionary_encode(),
    "numbers": pa.array(CODES, pa.int8()),
    "wide numbers": pa.array(CODES, pa.int64()),
    "chunks": pa.chunked_array([KINDS[:2], KINDS[2:]]),
    "slice": pa.array(["x", *KINDS, "x"]).slice(1, 5),
    "list": KINDS,
    "tuple of both": ("accept", 2, None, "reject", 4),
    "iterator": iter(KINDS),
}
INVALID = {
    "text": (pa.array(["accept", "approve"]), "not 'approve'"),
    "numbers": (pa.array([1, 9]), "not 9"),
    "bool": (pa.array([True, False]), "a mask selects rows"),
    "floats": (pa.array([1.0, 2.0]), "not 1.0"),
    "lists": (pa.array([[1], [2]]), r"not \[1\]"),
    "table": (pa.table({"type": ["accept", "accept"]}), "not pyarrow.Table"),
    "length": (pa.array(["accept"]), "1 types for 2 rows"),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_types(name: str) -> None:
    assert type_codes(COLUMNS[name], len(KINDS)) == CODES


def test_columns_of_nulls_and_without_rows() -> None:
    for types, count in ((pa.nulls(3), 3), (pa.array([], pa.string()), 0), (pa.chunked_array([], pa.string()), 0)):
        assert type_codes(types, count) == [None] * count


@pytest.mark.parametrize("name", INVALID)
def test_invalid_columns_of_types(name: str) -> None:
    types, text = INVALID[name]
    with pytest.raises(ConfigurationError, match=text):
        type_codes(types, 2)


def test_batches_of_polls_are_not_copied() -> None:
    topic = pa.DictionaryArray.from_arrays(pa.array([0, 0], pa.int32()), pa.array(["t"]))
    offset = pa.array([4, 5], pa.int64())
    batch = pa.record_batch(
        {"topic": topic, "partition": pa.array([0, 0], pa.int32()), "offset": offset, "value": offset}
    )
    found = positions(batch)
    assert found.column_names == ["topic", "partition", "offset"]
    assert found.column(2).buffers()[1].address == offset.buffers()[1].address


def test_batches_with_two_columns_of_one_name_are_rejected() -> None:
    number = pa.array([0], pa.int32())
    topic = pa.DictionaryArray.from_arrays(number, pa.array(["t"]))
    batch = pa.record_batch(
        [topic, number, pa.array([0], pa.int64()), number], ["topic", "partition", "offset", "partition"]
    )
    with pytest.raises(ConfigurationError, match="2 columns partition"):
        positions(batch)
