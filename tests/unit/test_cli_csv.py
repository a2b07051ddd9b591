"""CSV of `samsarrow consume`, compared with the writer of pyarrow."""

import io
import random
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.csv
import pytest

from samsarrow.cli.consume.outputs import CsvWriter

TEXTS = [
    "",
    "a",
    '"',
    '""',
    'a"b',
    "line\nbreak",
    "a,b",
    "\r",
    "\x01\x7f",
    "ä😀",
    '{"id":1,"name":"\\""}',
    "x" * 300,
    None,
]
TIMES = [None, -1, 0, 1_793_527_200_123, 1_793_527_200_999, 1_793_527_201_000, -62_135_596_800_000, 253_402_300_799_999]
DAY = datetime(2026, 11, 1, 10, tzinfo=UTC)
VALUES = {
    pa.string(): TEXTS,
    pa.large_string(): TEXTS,
    pa.dictionary(pa.int32(), pa.string()): TEXTS,
    pa.binary(): [None, b"", b'a"b', b"a,b"],
    pa.int8(): [None, -128, 127, 0],
    pa.int16(): [None, -32768, 32767],
    pa.int32(): [None, -(2**31), 2**31 - 1],
    pa.int64(): [None, -(2**63), 2**63 - 1, 10, 99, 100],
    pa.uint8(): [None, 0, 255],
    pa.uint16(): [None, 65535],
    pa.uint32(): [None, 2**32 - 1],
    pa.uint64(): [None, 0, 2**64 - 1],
    pa.float32(): [None, 0.0, -1.5, 1e30, float("nan"), float("inf")],
    pa.float64(): [None, 0.1, 1e300, -0.0, 123456789.125],
    pa.bool_(): [None, True, False],
    pa.date32(): [None, date(2026, 11, 1), date(1969, 12, 31)],
    pa.timestamp("ms", "UTC"): TIMES,
    pa.timestamp("ms"): TIMES,
    pa.timestamp("us", "UTC"): [None, DAY, DAY + timedelta(microseconds=7)],
    pa.timestamp("ms", "Europe/Rome"): [None, 0],
    pa.duration("s"): [None, timedelta(seconds=5)],
    pa.decimal128(10, 2): [None, 5, -7],
    pa.null(): [None],
}


def written(batches: list[pa.RecordBatch]) -> bytes:
    out = io.BytesIO()
    writer = CsvWriter(out, batches[0].schema)
    for batch in batches:
        writer.write(batch)
    writer.close()
    return out.getvalue()


def expected(batches: list[pa.RecordBatch]) -> bytes:
    out = io.BytesIO()
    with pyarrow.csv.CSVWriter(out, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return out.getvalue()


@pytest.mark.parametrize("seed", range(20))
def test_lines_equal_those_of_pyarrow(seed):
    draw = random.Random(seed)
    names = [f'column {n}"' if n % 5 == 0 else f"c{n}" for n in range(draw.randint(1, 12))]
    kinds = [draw.choice(list(VALUES)) for _ in names]
    batches = [
        pa.record_batch([pa.array(draw.choices(VALUES[kind], k=rows), kind) for kind in kinds], names)
        for rows in (draw.randint(1, 300), 0, draw.randint(1, 50))
    ]
    assert written(batches) == expected(batches)
    slices = [batch.slice(3, 20) for batch in batches]
    assert written(slices) == expected(slices)


@pytest.mark.parametrize("ms", [-62_135_596_800_001, 253_402_300_800_000, 2**62, -(2**62)])
def test_years_of_more_or_less_than_four_digits_equal_those_of_pyarrow(ms):
    batch = pa.record_batch({"at": pa.array([0, ms], pa.timestamp("ms", "UTC"))})
    assert written([batch]) == expected([batch])


def test_rejects_rows_with_other_columns():
    writer = CsvWriter(io.BytesIO(), pa.schema([("a", pa.int64())]))
    with pytest.raises(pa.ArrowInvalid, match=r"columns changed from a: int64 to a: string"):
        writer.write(pa.record_batch({"a": ["x"]}))


def test_a_large_batch_is_written_in_full():
    batch = pa.record_batch({"offset": pa.array(range(100_000)), "value": pa.array(['{"a":1}'] * 100_000)})
    assert written([batch]) == expected([batch])
