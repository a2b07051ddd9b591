"""Columns that the Python source passes to Spark: the same as those of Arrow's own casts."""

import sys

import pyarrow as pa
import pytest

from samsarrow.spark.arrow_columns import ToSpark, arrow_schema

MOST = (2**63 - 1) // 1000
MS = pa.timestamp("ms", "UTC")


def batch(times: list[int | None]) -> pa.RecordBatch:
    types = [None if time is None else row % 2 for row, time in enumerate(times)]
    return pa.RecordBatch.from_arrays(
        [pa.array(times, MS), pa.array(types, pa.int8())], ["timestamp", "timestamp_type"]
    )


@pytest.mark.parametrize(
    "times", [[], [0], [1_700_000_000_001, -1, 5], [MOST, -MOST], [None, 7, None], [None, None]], ids=str
)
@pytest.mark.parametrize("start", [0, 1])
def test_times_have_microseconds(times: list[int | None], start: int) -> None:
    rows = batch([9, *times]).slice(1).slice(start)
    converted = ToSpark(arrow_schema(("timestamp", "timestampType")), "t")(rows)
    converted.validate(full=True)
    assert converted["timestamp"].equals(rows["timestamp"].cast(pa.timestamp("us", "UTC")))
    assert converted["timestampType"].equals(rows["timestamp_type"].cast(pa.int32()))


@pytest.mark.parametrize("time", [MOST + 1, -MOST - 1, 2**63 - 1, -(2**63)])
def test_times_beyond_those_of_spark_are_errors(time: int) -> None:
    with pytest.raises(pa.ArrowInvalid, match="out of bounds"):
        ToSpark(arrow_schema(("timestamp",)), "t")(batch([1, time]))


def test_numpy_is_not_required(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    converted = ToSpark(arrow_schema(("timestamp", "timestampType")), "t")(batch([1, 2]))
    assert converted["timestampType"].to_pylist() == [0, 1]
