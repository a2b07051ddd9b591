"""Record batches as bytes, without a broker."""

from __future__ import annotations

from typing import Any, Literal

import pyarrow as pa

from samsarrow import _core


def decode_batches(
    data: bytes | bytearray | memoryview,
    *,
    layout: Literal["binary", "view"] = "binary",
    include_headers: bool = False,
    include_control: bool = False,
    check_crcs: bool = True,
) -> pa.RecordBatch:
    """Decodes the record batches of one partition, as they are on the wire and in log segments.

    Batches of format v2 (KIP-98), and messages of v0 and v1 as Kafka had them before 0.11, in any mixture.

    Args:
        data: batches one after the other. An incomplete one at the end is left out.
        layout: `binary` copies keys and values, `view` points into the bytes.
        include_headers: adds the column `headers`, `list<struct<key: string, value: binary>>`.
        include_control: gives the records of control batches too.
        check_crcs: whether the checksum of each batch is checked, and of each message of v0 and v1.

    Returns:
        One row per record: `key`, `value`, `topic`, `partition`, `offset`, `timestamp` and `timestamp_type` as from
        `Consumer.poll`; `topic` and `partition` are null, as the bytes do not have them. Records of
        format v0 have neither timestamp nor timestamp type: both are null.

    Raises:
        CorruptRecordError: the bytes are no valid batches, or one of them expands to more than 256 MiB or out of all
            proportion; the text says where and why.
        ConfigurationError: the records are more than one Arrow batch can hold (2 GiB); the text says where to cut.
        TypeError: `data` is no buffer.
    """
    # Not bytes(data): of a number that would be as many zeros.
    raw = data if isinstance(data, bytes) else bytes(memoryview(data))
    return _core.decode_batches(raw, layout, include_headers, include_control, check_crcs)


def encode_batches(
    data: Any,
    *,
    key: str | None = None,
    value: str | None = None,
    headers: str | None = None,
    timestamp: str | None = None,
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none",
    compression_level: int | None = None,
    magic: int = 2,
    base_offset: int = 0,
    batch_size: int = 1 << 20,
) -> bytes:
    """Encodes rows as record batches, as a producer sends them and a log segment holds them.

    Args:
        data: a record batch, a table or anything else with `__arrow_c_array__` or `__arrow_c_stream__`.
        key: column of keys, any binary or string type; by default the column `key`, if there is one.
        value: column of values; by default the column `value`.
        headers: column of headers, `list<struct<key: string, value: binary>>`; by default the column `headers`.
        timestamp: column of timestamps, or of integers in milliseconds; without it records have none (-1).
        compression: codec of the batches.
        compression_level: None takes the codec's default.
        magic: format: 2, or 1 and 0 for messages as they were before Kafka 0.11 and 0.10. Those have no headers and
            no zstd, 0 no timestamps either, which are left out.
        base_offset: of the first record.
        batch_size: most bytes of a batch before compression.

    Raises:
        TypeError: `data` is no Arrow data.
        ConfigurationError: a column is missing or of a type that cannot be encoded, or an option cannot be.
    """
    return _core.encode_batches(
        data, key, value, headers, timestamp, compression, compression_level, magic, base_offset, batch_size
    )
