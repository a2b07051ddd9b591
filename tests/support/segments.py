"""Batches in a broker's `.log` files. Their headers are parsed here, so that tests do not depend on a client."""

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


@dataclass(frozen=True)
class Stored:
    """A batch of format v2, or a message of format v0 or v1, which may be a wrapper."""

    magic: int
    offset: int
    last_offset: int
    codec: str
    records: int
    control: bool = False
    producer_id: int = -1
    epoch: int = -1


def stored(segments: Iterable[Path]) -> Iterator[Stored]:
    """Yields all batches, in order."""
    for path in segments:
        data = path.read_bytes()
        at = 0
        while at + 17 <= len(data):
            offset, size = struct.unpack_from(">qi", data, at)
            magic = data[at + 16]
            # A preallocated segment ends with zero bytes.
            if size <= 0:
                break
            if magic < 2:
                yield Stored(magic, offset, offset, CODECS[data[at + 17] & 7], 1)
            else:
                attributes, delta = struct.unpack_from(">hi", data, at + 21)
                producer_id, epoch, _, records = struct.unpack_from(">qhii", data, at + 43)
                codec, control = CODECS[attributes & 7], bool(attributes & 0x20)
                yield Stored(magic, offset, offset + delta, codec, records, control, producer_id, epoch)
            at += 12 + size
