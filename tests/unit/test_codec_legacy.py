"""The message formats before Kafka 0.11, without a broker: encoding, decoding, mixed formats and damaged data."""

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
    """Encodes one uncompressed message with a null key by the specification. The CRC-32 covers the bytes from the magic
    on.
    """
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
def test_legacy_round_trip(magic, codec, layout):
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


def test_encoded_message_matches_the_specification():
    values = pa.record_batch({"value": [b"first", b"second"]})
    expected = message(0, 4, b"first") + message(0, 5, b"second")
    assert encode_batches(values, magic=0, base_offset=4) == expected
    time = dt.datetime.fromtimestamp(0.077, UTC)
    assert rows(message(1, 9, b"by the book")) == [(9, time, 0, None, b"by the book")]


def test_mixed_formats_can_be_decoded():
    parts = [encode_batches(ROWS, magic=magic, compression="gzip", base_offset=3 * magic) for magic in (0, 1, 2)]
    batch = decode_batches(b"".join(parts))
    assert batch["offset"].to_pylist() == list(range(9))
    assert batch["timestamp_type"].to_pylist() == [None] * 3 + [0] * 6


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("magic", [0, 1])
def test_every_flipped_bit_covered_by_the_crc_is_detected(magic, codec):
    # The data is a single message. Its checksum comes after the offset and the length, and covers all bytes after the
    # checksum.
    data = encode_batches(ROWS.slice(0, 1), compression=codec, magic=magic)
    for position in range(16, len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 8)
        with pytest.raises(CorruptRecordError):
            decode_batches(damaged)


@pytest.mark.parametrize("magic", [0, 1])
def test_legacy_formats_reject_unsupported_features(magic):
    with pytest.raises(ConfigurationError, match="zstd"):
        encode_batches(ROWS, magic=magic, compression="zstd")
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.record_batch({"value": [b"v"], "headers": pa.array([[{"key": "h", "value": b"1"}]], kind)})
    with pytest.raises(ConfigurationError, match="headers"):
        encode_batches(headers, magic=magic)
    empty = pa.record_batch({"value": [b"v"], "headers": pa.array([[]], kind)})
    assert rows(encode_batches(empty, magic=magic))[0][4] == b"v"
