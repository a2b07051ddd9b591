"""The message formats before Kafka 0.11, without a broker: written, read, mixed, damaged."""

import datetime as dt
import struct
import zlib

import pyarrow as pa
import pytest

from samsarrow import decode_batches, encode_batches
from samsarrow.exceptions import ConfigurationError, CorruptRecordError

CODECS = ["none", "gzip", "snappy", "lz4"]
ROWS = pa.record_batch(
    {
        "key": [b"k1", None, b""],
        "value": [b"one", b"a value that is not short", None],
        "time": pa.array([5, 3, None], pa.timestamp("ms", "UTC")),
    }
)
UTC = dt.UTC


def message(magic, offset, value):
    """One message by the book: CRC-32 from the magic on, null key, no codec."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", 77) if magic else b"")
    body += struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def rows(data, **options):
    batch = decode_batches(data, **options)
    batch.validate(full=True)
    columns = ("offset", "timestamp", "timestamp_type", "key", "value")
    return list(zip(*(batch[name].to_pylist() for name in columns), strict=True))


@pytest.mark.parametrize("layout", ["binary", "view"])
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_rows_come_back(magic, codec, layout):
    data = encode_batches(ROWS, timestamp="time", compression=codec, magic=magic, base_offset=10)
    assert data[16] == magic
    times = [None] * 3
    if magic:
        times = [dt.datetime.fromtimestamp(ms / 1000, UTC) for ms in (5, 3)] + [None]
    kind = 0 if magic else None
    assert rows(data, layout=layout) == [
        (10, times[0], kind, b"k1", b"one"),
        (11, times[1], kind, None, b"a value that is not short"),
        (12, times[2], kind, b"", None),
    ]


def test_the_bytes_of_a_message_are_those_of_the_book():
    values = pa.record_batch({"value": [b"first", b"second"]})
    wanted = message(0, 4, b"first") + message(0, 5, b"second")
    assert encode_batches(values, magic=0, base_offset=4) == wanted
    time = dt.datetime.fromtimestamp(0.077, UTC)
    assert rows(message(1, 9, b"by the book")) == [(9, time, 0, None, b"by the book")]


def test_formats_may_follow_each_other():
    parts = [encode_batches(ROWS, magic=magic, compression="gzip", base_offset=3 * magic) for magic in (0, 1, 2)]
    batch = decode_batches(b"".join(parts))
    assert batch["offset"].to_pylist() == list(range(9))
    assert batch["timestamp_type"].to_pylist() == [None] * 3 + [0] * 6


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_every_flipped_bit_behind_the_checksum_is_found(magic, codec):
    # One entry in any case; its checksum follows offset and length, and covers all that follows it.
    data = encode_batches(ROWS.slice(0, 1), compression=codec, magic=magic)
    for position in range(16, len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 8)
        with pytest.raises(CorruptRecordError):
            decode_batches(damaged)


@pytest.mark.parametrize("magic", [0, 1])
def test_what_the_old_formats_lack_is_refused(magic):
    with pytest.raises(ConfigurationError, match="zstd"):
        encode_batches(ROWS, magic=magic, compression="zstd")
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.record_batch({"value": [b"v"], "headers": pa.array([[{"key": "h", "value": b"1"}]], kind)})
    with pytest.raises(ConfigurationError, match="headers"):
        encode_batches(headers, magic=magic)
    empty = pa.record_batch({"value": [b"v"], "headers": pa.array([[]], kind)})
    assert rows(encode_batches(empty, magic=magic))[0][4] == b"v"
