"""Every Arrow type of text or bytes as key and as value, and every timestamp unit."""

import struct
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from samsarrow import decode_batches, encode_batches
from samsarrow.exceptions import ConfigurationError

TEXTS = ["a", None, "", "é", "long enough not to be inlined in a view", "a"]
BYTES = [None if t is None else t.encode() for t in TEXTS]
PLAIN = [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()]
ENCODED = [
    pa.dictionary(index, kind)
    for index in (pa.int8(), pa.int32(), pa.int64(), pa.uint16())
    for kind in (pa.binary(), pa.string(), pa.large_string())
]


def column(kind):
    inner = kind.value_type if pa.types.is_dictionary(kind) else kind
    values = pa.array(TEXTS if "string" in str(inner) else BYTES, inner)
    return values.dictionary_encode().cast(kind) if pa.types.is_dictionary(kind) else values


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("kind", [*PLAIN, *ENCODED], ids=str)
def test_null_and_empty_values_round_trip(kind, layout):
    batch = pa.record_batch({"key": column(kind), "value": column(kind)})
    back = decode_batches(encode_batches(batch), layout=layout)
    back.validate(full=True)
    assert back["key"].to_pylist() == BYTES
    assert back["value"].to_pylist() == BYTES


@pytest.mark.parametrize("kind", [*PLAIN, *ENCODED], ids=str)
def test_slices_are_encoded_with_their_offset(kind):
    batch = pa.record_batch({"value": column(kind)}).slice(1, 4)
    assert decode_batches(encode_batches(batch))["value"].to_pylist() == BYTES[1:5]


@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.bool_(), pa.list_(pa.string())], ids=str)
def test_unsupported_types_name_the_column(kind):
    batch = pa.record_batch({"key": ["k"], "payload": pa.array([None], kind)})
    with pytest.raises(ConfigurationError, match="payload"):
        encode_batches(batch, value="payload")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize(
    ("unit", "raw"),
    [("s", 1_356_998_400), ("ms", 1_356_998_400_000), ("us", 1_356_998_400_000_000), ("ns", 1_356_998_400 * 10**9)],
)
def test_timestamp_units_and_zones(unit, raw, zone):
    times = pa.array([raw, None], pa.timestamp(unit, zone))
    back = decode_batches(encode_batches(pa.record_batch({"value": ["x", "y"], "at": times}), timestamp="at"))
    assert back["timestamp"].to_pylist() == [datetime(2013, 1, 1, tzinfo=UTC), None]


@pytest.mark.parametrize(("unit", "per_ms"), [("us", 1_000), ("ns", 1_000_000)])
def test_timestamps_are_truncated_to_milliseconds(unit, per_ms):
    times = pa.array([7 * per_ms, 8 * per_ms - 1], pa.timestamp(unit, "UTC"))
    back = decode_batches(encode_batches(pa.record_batch({"value": ["x", "y"], "at": times}), timestamp="at"))
    assert back["timestamp"].cast(pa.int64()).to_pylist() == [7, 7]


def test_missing_timestamp_is_encoded_as_minus_one():
    for none in (None, -1):
        at = pa.array([none, 0, 5], pa.int64())
        data = encode_batches(pa.record_batch({"value": list("abc"), "at": at}), timestamp="at")
        assert struct.unpack_from(">q", data, 27) == (-1,)
        assert decode_batches(data)["timestamp"].cast(pa.int64()).to_pylist() == [None, 0, 5]


def test_timestamps_before_1970_name_the_row():
    rows = pa.record_batch({"value": ["a", "b"], "at": pa.array([0, -2], pa.int64())})
    with pytest.raises(ConfigurationError, match=r"row 1: timestamp -2 ms is before 1970"):
        encode_batches(rows, timestamp="at")


def test_descending_and_distant_timestamps():
    # The difference from the first timestamp exceeds 32 bits, so it must be encoded as a varlong instead of a varint.
    at = [4_102_444_800_000, 0, 1_356_998_400_000]
    rows = pa.record_batch({"value": list("abc"), "at": pa.array(at, pa.timestamp("ms", "UTC"))})
    assert decode_batches(encode_batches(rows, timestamp="at"))["timestamp"].cast(pa.int64()).to_pylist() == at


@pytest.mark.parametrize("batch_size", [100, 1000, 1 << 20])
def test_offsets_continue_across_batches(batch_size):
    rows = pa.table({"value": [str(i) for i in range(500)]})
    back = decode_batches(encode_batches(rows, base_offset=2**40, batch_size=batch_size))
    assert back["offset"].to_pylist() == list(range(2**40, 2**40 + 500))
    assert back["value"].to_pylist() == [str(i).encode() for i in range(500)]


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list], ids=["list", "large_list"])
@pytest.mark.parametrize("text", [pa.string(), pa.large_string()], ids=str)
def test_headers_of_each_type_keep_order_and_duplicates(kind, text):
    headers_by_row = [[("a", b"1"), ("b", None), ("a", b"")], [("z", b"9"), ("a", b"0")], []]
    rows = [[{"key": k, "value": v} for k, v in row] for row in headers_by_row]
    headers = pa.array(rows, kind(pa.struct([("key", text), ("value", pa.binary())])))
    batch = pa.record_batch({"value": list("xyz"), "headers": headers})
    back = decode_batches(encode_batches(batch), include_headers=True)
    assert [[(h["key"], h["value"]) for h in row] for row in back["headers"].to_pylist()] == headers_by_row
