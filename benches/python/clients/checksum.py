"""Checksums for comparing values regardless of the layout of their arrays."""

import zlib
from collections.abc import Iterable

import pyarrow as pa


def checksum(arrays: Iterable[pa.Array]) -> tuple[int, int]:
    """Returns the number of values and a CRC-32 over all their bytes in order."""
    count = crc = 0
    for array in arrays:
        plain = array.cast(pa.large_binary())
        _, offsets, values = plain.buffers()
        starts = pa.Array.from_buffers(pa.int64(), len(plain) + 1, [None, offsets], offset=plain.offset)
        crc = zlib.crc32(memoryview(values)[starts[0].as_py() : starts[-1].as_py()], crc)
        count += len(array)
    return count, crc
