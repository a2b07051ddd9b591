"""Round trips of encode_batches and decode_batches for every Arrow type."""

import struct
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from samsarrow import decode_batches, encode_batches
from samsarrow.exceptions import ConfigurationError, CorruptRecordError

KEYS = [b"a", None, b"", b"d" * 300]
VALUES = [b"1", b"", None, b"x" * 5000]


def table() -> pa.RecordBatch:
    return pa.record_batch({"key": pa.array(KEYS, pa.binary()), "value": pa.array(VALUES, pa.binary())})


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_round_trip(compression, layout):
    data = encode_batches(table(), compression=compression, base_offset=41)
    batch = decode_batches(data, layout=layout)
    batch.validate(full=True)
    assert batch["key"].to_pylist() == KEYS
    assert batch["value"].to_pylist() == VALUES
    assert batch["offset"].to_pylist() == [41, 42, 43, 44]
    assert batch["timestamp"].null_count == 4
    assert batch["topic"].null_count == 4


def test_decoded_schema():
    schema = decode_batches(b"", include_headers=True).schema
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    assert {f.name: f.type for f in schema if f.name != "headers"} == {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.dictionary(pa.int32(), pa.string()),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "timestamp": pa.timestamp("ms", "UTC"),
        "timestamp_type": pa.int8(),
    }
    headers = schema.field("headers").type
    assert pa.types.is_list(headers)
    assert [(f.name, f.type) for f in headers.value_type] == [(f.name, f.type) for f in header]
    assert decode_batches(b"", layout="view").schema.field("value").type == pa.binary_view()


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view()],
    ids=str,
)
def test_every_string_and_binary_type_can_be_encoded(kind):
    texts = ["a", None, "", "long enough not to be inlined in a view"]
    values = [t if t is None or "string" in str(kind) else t.encode() for t in texts]
    batch = pa.record_batch({"v": pa.array(values, kind)})
    back = decode_batches(encode_batches(batch, value="v"))
    assert back["value"].to_pylist() == [None if t is None else t.encode() for t in texts]
    assert back["key"].null_count == 4


def test_dictionary_columns_can_be_encoded():
    keys = pa.array(["AA", "UA", None, "AA"]).dictionary_encode()
    back = decode_batches(encode_batches(pa.record_batch({"key": keys, "value": keys})))
    assert back["key"].to_pylist() == [b"AA", b"UA", None, b"AA"]


def test_headers_keep_order_and_duplicates():
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = [[("a", b"1"), ("b", None), ("a", b"")], [], None]
    rows = [None if h is None else [{"key": k, "value": v} for k, v in h] for h in headers]
    batch = pa.record_batch({"value": pa.array([b"x", b"y", b"z"]), "headers": pa.array(rows, kind)})
    back = decode_batches(encode_batches(batch), include_headers=True)["headers"].to_pylist()
    assert [[(h["key"], h["value"]) for h in row or ()] for row in back] == [headers[0], [], []]


@pytest.mark.parametrize(
    "kind", [pa.int64(), pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC"), pa.timestamp("ns", "UTC")], ids=str
)
def test_timestamps_of_every_unit_decode_as_milliseconds(kind):
    when = datetime(2013, 1, 1, 5, tzinfo=UTC)
    ms = int(when.timestamp() * 1000)
    times = pa.array([ms, None], pa.timestamp("ms", "UTC")).cast(pa.int64())
    times = times if kind == pa.int64() else times.cast(pa.timestamp("ms", "UTC")).cast(kind)
    batch = pa.record_batch({"value": pa.array([b"x", b"y"]), "t": times})
    back = decode_batches(encode_batches(batch, timestamp="t"))
    assert back["timestamp"].to_pylist()[0] == when


def test_slices_are_encoded_with_their_offset():
    batch = table()
    back = decode_batches(encode_batches(batch.slice(1, 2)))
    assert back["key"].to_pylist() == KEYS[1:3]
    struct_slice = batch.to_struct_array().slice(2)
    assert decode_batches(encode_batches(struct_slice))["value"].to_pylist() == VALUES[2:]


def test_tables_and_readers_are_encoded_batch_by_batch():
    parts = pa.table({"value": pa.chunked_array([[b"a", b"b"], [], [b"c"]], pa.binary())})
    for data in (parts, parts.to_reader()):
        back = decode_batches(encode_batches(data))
        assert back["value"].to_pylist() == [b"a", b"b", b"c"]
        assert back["offset"].to_pylist() == [0, 1, 2]


class OnlyCapsules:
    """A table that supports only the PyCapsule interface, like tables of other libraries."""

    def __init__(self, batch):
        self._batch = batch

    def __arrow_c_array__(self, requested_schema=None):
        return self._batch.__arrow_c_array__(requested_schema)


class OnlyStream:
    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_any_class_with_the_capsule_protocol_is_accepted():
    expected = decode_batches(encode_batches(table()))
    assert decode_batches(encode_batches(OnlyCapsules(table()))) == expected
    assert decode_batches(encode_batches(OnlyStream(pa.table(table())))) == expected


def test_a_decoded_batch_can_be_encoded_again():
    first = decode_batches(encode_batches(table()))
    assert decode_batches(encode_batches(first)) == first


def test_empty_input():
    assert encode_batches(table().slice(0, 0)) == b""
    assert decode_batches(b"").num_rows == 0


@pytest.mark.parametrize("data", [[1, 2], {"value": [b"x"]}, b"x", None, 3], ids=repr)
def test_data_without_the_capsule_protocol_is_a_type_error(data):
    with pytest.raises(TypeError, match="__arrow_c_array__"):
        encode_batches(data)


def test_a_single_column_is_a_type_error():
    with pytest.raises(TypeError, match="record batch or table"):
        encode_batches(pa.array([b"x"]))


def test_null_struct_rows_are_a_type_error():
    rows = pa.array([{"value": b"x"}, None], pa.struct([("value", pa.binary())]))
    with pytest.raises(TypeError, match="null rows"):
        encode_batches(rows)


def test_error_names_a_missing_or_mistyped_column():
    with pytest.raises(ConfigurationError, match="nope"):
        encode_batches(table(), value="nope")
    with pytest.raises(ConfigurationError, match="value"):
        encode_batches(pa.record_batch({"value": pa.array([1, 2])}))


@pytest.mark.parametrize(
    ("option", "value"), [("compression", "brotli"), ("magic", 7), ("compression_level", 99)], ids=str
)
def test_invalid_options_are_rejected(option, value):
    arguments = {"compression": "zstd", option: value}
    if option == "compression_level":
        arguments["compression"] = "gzip"
    with pytest.raises(ConfigurationError):
        encode_batches(table(), **arguments)


def test_unknown_layout_is_rejected():
    with pytest.raises(ConfigurationError, match="binary or view"):
        decode_batches(b"", layout="rows")


def test_any_buffer_can_be_decoded():
    data = encode_batches(table())
    expected = decode_batches(data)
    assert decode_batches(bytearray(data)) == expected
    assert decode_batches(memoryview(data)) == expected


def test_wrong_checksum_is_an_error():
    data = bytearray(encode_batches(table()))
    data[-1] ^= 0x01
    with pytest.raises(CorruptRecordError, match=r"(?i)crc"):
        decode_batches(data)


def test_truncated_last_batch_is_skipped():
    one = encode_batches(table())
    two = one + encode_batches(table(), base_offset=4)
    for cut in (len(one), len(one) + 1, len(one) + 60, len(two) - 1):
        assert decode_batches(two[:cut]).num_rows == 4
    assert decode_batches(two).num_rows == 8


def test_negative_batch_length_is_an_error():
    data = bytearray(encode_batches(table()))
    struct.pack_into(">i", data, 8, -5)
    with pytest.raises(CorruptRecordError):
        decode_batches(data)


def test_a_view_keeps_its_bytes_alive():
    batch = decode_batches(encode_batches(table()), layout="view")
    values = batch["value"]
    del batch
    assert values.to_pylist() == VALUES


def test_views_point_into_the_input_bytes():
    data = encode_batches(table())
    buffer = pa.py_buffer(data)
    *_, pointed = decode_batches(data, layout="view")["value"].buffers()
    assert buffer.address <= pointed.address < buffer.address + buffer.size
    # Short values are stored inline in their views, so they reference no buffer.
    short = decode_batches(encode_batches(pa.record_batch({"value": [b"short"]})), layout="view")["value"]
    assert (short.to_pylist(), len(short.buffers())) == ([b"short"], 2)
