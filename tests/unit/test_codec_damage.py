"""Damaged, truncated and old data: decoding raises an error or returns intact rows, but never a wrong row."""

import pyarrow as pa
import pytest

from samsarrow import decode_batches, encode_batches
from samsarrow.exceptions import ConfigurationError, CorruptRecordError

ROWS = pa.record_batch({"key": [b"k1", None, b""], "value": [b"one", b"", None]})
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
# Position of the attributes, from which the CRC covers the batch (KIP-98). The offset, length, leader epoch, magic and
# CRC precede it.
CRC_FROM = 21


@pytest.mark.parametrize("codec", CODECS)
def test_every_flipped_bit_covered_by_the_crc_is_detected(codec):
    data = encode_batches(ROWS, compression=codec)
    for position in range(CRC_FROM, len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 8)
        # The message may name a field instead of the checksum, since some fields are validated first.
        with pytest.raises(CorruptRecordError, match="corrupt"):
            decode_batches(damaged)


@pytest.mark.parametrize("codec", CODECS)
def test_flipped_bits_without_the_crc_check_are_an_error_or_valid_rows(codec):
    data = encode_batches(ROWS, compression=codec)
    errors = 0
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 1 << (position % 8)
        try:
            decode_batches(damaged, check_crcs=False).validate(full=True)
        except CorruptRecordError:
            errors += 1
    assert 0 < errors < len(data)


def test_check_crcs_false_returns_a_damaged_value():
    data = encode_batches(pa.record_batch({"value": [b"value"]})).replace(b"value", b"vAlue")
    with pytest.raises(CorruptRecordError):
        decode_batches(data)
    assert decode_batches(data, check_crcs=False)["value"].to_pylist() == [b"vAlue"]


@pytest.mark.parametrize("codec", CODECS)
def test_every_prefix_decodes_the_complete_batches(codec):
    one = encode_batches(ROWS, compression=codec)
    both = one + encode_batches(ROWS, compression=codec, base_offset=3)
    rows = [decode_batches(both[:length]).num_rows for length in range(len(both) + 1)]
    assert rows == [3 * (length // len(one)) for length in range(len(both))] + [6]


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_unknown_magic_is_rejected_when_decoding(magic):
    data = bytearray(encode_batches(ROWS))
    data[16] = magic
    with pytest.raises(CorruptRecordError, match=rf"magic {magic if magic < 128 else magic - 256}\b"):
        decode_batches(data)


@pytest.mark.parametrize("magic", [-1, 3])
def test_unknown_magic_is_rejected_when_encoding(magic):
    with pytest.raises(ConfigurationError, match=rf"magic {magic}\b"):
        encode_batches(ROWS, magic=magic)


@pytest.mark.parametrize("data", ["text", 5, None, [1, 2], object()], ids=repr)
def test_objects_without_the_buffer_protocol_are_a_type_error(data):
    with pytest.raises(TypeError):
        decode_batches(data)
