"""Digest of records, which does not depend on how they are cut into batches."""

from __future__ import annotations

import hashlib
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

ALGORITHM = "sha256-streams-1"
"""Name of the digest in manifests."""

_STREAMS = 10


class RecordDigest:
    """Digest of keys, values, headers and timestamps of consecutive records of one partition.

    The records are written as ten streams of little-endian integers and bytes: lengths and bytes of keys, lengths and
    bytes of values, timestamps, numbers of headers, lengths and bytes of the names of headers, lengths and bytes of
    their values. Lengths and numbers have 32 bits, and -1 is the length of null. Timestamps are milliseconds in 64
    bits, and -1 stands for none. The digest is the SHA-256 of the SHA-256 digests of the streams. Offsets are not part
    of it, because records have other offsets in another topic, and neither are the types of timestamps.
    """

    def __init__(self) -> None:
        self.rows = 0
        self._streams = [hashlib.sha256() for _ in range(_STREAMS)]

    def update(self, batch: pa.RecordBatch) -> None:
        """Adds records with the columns `key`, `value`, `timestamp` and `headers`."""
        self.rows += batch.num_rows
        self._add_bytes(0, batch.column("key"))
        self._add_bytes(2, batch.column("value"))
        self._streams[4].update(_integers(batch.column("timestamp").cast(pa.int64()), -1, pa.int64()))
        headers = batch.column("headers")
        self._streams[5].update(_integers(pc.list_value_length(headers), 0, pa.int32()))
        pairs = headers.flatten()
        self._add_bytes(6, pc.struct_field(pairs, [0]))
        self._add_bytes(8, pc.struct_field(pairs, [1]))

    def _add_bytes(self, stream: int, column: Any) -> None:
        self._streams[stream].update(_integers(pc.binary_length(column), -1, pa.int32()))
        found = column.drop_null().cast(pa.binary())
        if len(found):
            _, offsets, data = found.buffers()
            bounds = memoryview(offsets).cast("i")[found.offset : found.offset + len(found) + 1]
            if data is not None:
                self._streams[stream + 1].update(memoryview(data)[bounds[0] : bounds[-1]])

    def copy(self) -> RecordDigest:
        """Returns a digest of the same records, to which others can be added."""
        copied = RecordDigest()
        copied.rows, copied._streams = self.rows, [stream.copy() for stream in self._streams]
        return copied

    def hexdigest(self) -> str:
        """Returns the digest in hexadecimal."""
        return hashlib.sha256(b"".join(stream.digest() for stream in self._streams)).hexdigest()


def _integers(column: Any, null: int, kind: pa.DataType) -> memoryview:
    """Returns the bytes of a column of integers, in which `null` replaces nulls."""
    column = pc.fill_null(column.cast(kind), null)
    width = kind.bit_width // 8
    start = column.offset * width
    return memoryview(column.buffers()[1])[start : start + len(column) * width] if len(column) else memoryview(b"")
