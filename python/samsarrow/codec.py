"""Decoding and encoding of record batches as bytes, without a broker."""

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
    """Decodes the record batches of one partition, in the format of the wire protocol and of log segments.

    Supports batches of format v2 (KIP-98), and messages of the older formats v0 and v1, in any combination.

    Args:
        data: consecutive batches. An incomplete batch at the end is ignored.
        layout: `binary` copies keys and values; with `view` they point into `data`.
        include_headers: whether to add the column `headers`, `list<struct<key: string, value: binary>>`.
        include_control: whether to return the records of control batches, such as transaction markers, too.
        check_crcs: whether to check the CRC of each batch, and of each message of v0 and v1.

    Returns:
        One row per record: `key`, `value`, `topic`, `partition`, `offset`, `timestamp` and `timestamp_type` as from
        `Consumer.poll`; `topic` and `partition` are null, because the bytes do not contain them. Records of format v0
        have neither timestamp nor timestamp type: both are null.

    Raises:
        CorruptRecordError: the bytes are not valid batches, or a batch expands to more than 256 MiB or by more than the
            allowed ratio. The message has the position and the reason.
        ConfigurationError: the records exceed one Arrow batch (2 GiB); the message has the position at which to split
            the bytes.
        TypeError: `data` is not a buffer.
    """
    # `bytes(data)` is not used, because it would turn an integer into that number of zero bytes.
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
    """Encodes rows as record batches, in the format that a producer sends and a log segment contains.

    Args:
        data: a record batch, a table or anything else with `__arrow_c_array__` or `__arrow_c_stream__`.
        key: name of the column of keys, which has any binary or string type; by default the column `key`, if it exists.
        value: name of the column of values; by default the column `value`.
        headers: name of the column of headers, `list<struct<key: string, value: binary>>`; by default the column
            `headers`.
        timestamp: name of the column of timestamps, or of integers in milliseconds. By default records have no
            timestamp (-1).
        compression: compression codec of the batches.
        compression_level: level of the codec; None for its default.
        magic: format of the batches: 2; or 1 or 0 for the message formats before Kafka 0.11 and 0.10. Formats 1 and 0
            do not support headers and zstd. Format 0 has no timestamps either, so that timestamps are omitted.
        base_offset: offset of the first record.
        batch_size: maximum size of a batch before compression, in bytes.

    Raises:
        TypeError: `data` is not Arrow data.
        ConfigurationError: a column is missing or has a type that cannot be encoded, or an option is invalid.
    """
    return _core.encode_batches(
        data, key, value, headers, timestamp, compression, compression_level, magic, base_offset, batch_size
    )
