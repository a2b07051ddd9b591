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
    """Decodes the record batches of one partition, in the format of the wire protocol and of log segments.

    Supports batches of format v2 (KIP-98), and messages of v0 and v1 from before Kafka 0.11, in any combination.

    Args:
        data: consecutive batches. An incomplete batch at the end is ignored.
        layout: `binary` copies keys and values, `view` points into the bytes.
        include_headers: adds the column `headers`, `list<struct<key: string, value: binary>>`.
        include_control: whether to return the records of control batches too.
        check_crcs: whether the checksum of each batch is checked, and of each message of v0 and v1.

    Returns:
        One row per record: `key`, `value`, `topic`, `partition`, `offset`, `timestamp` and `timestamp_type` as from
        `Consumer.poll`; `topic` and `partition` are null, because the bytes do not contain them. Records of format v0
        have neither timestamp nor timestamp type: both are null.

    Raises:
        CorruptRecordError: the bytes are not valid batches, or a batch expands to more than 256 MiB or exceeds the
            allowed ratio; the message has position and reason.
        ConfigurationError: the records exceed one Arrow batch (2 GiB); the message has the position to split at.
        TypeError: `data` is not a buffer.
    """
    # Not `bytes(data)`, which would turn an integer into zero bytes.
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
        key: column of keys, any binary or string type; by default the column `key`, if it exists.
        value: column of values; by default the column `value`.
        headers: column of headers, `list<struct<key: string, value: binary>>`; by default the column `headers`.
        timestamp: column of timestamps, or of integers in milliseconds; without it records have no timestamp (-1).
        compression: codec of the batches.
        compression_level: None for the codec's default.
        magic: format: 2, or 1 and 0 for messages from before Kafka 0.11 and 0.10. Those have no headers and no zstd, 0
            has no timestamps either, which are omitted.
        base_offset: offset of the first record.
        batch_size: maximum bytes of a batch before compression.

    Raises:
        TypeError: `data` is not Arrow data.
        ConfigurationError: a column is missing or has a type that cannot be encoded, or an option is invalid.
    """
    return _core.encode_batches(
        data, key, value, headers, timestamp, compression, compression_level, magic, base_offset, batch_size
    )
