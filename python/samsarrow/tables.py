"""Topics as tables: `read` and `write`, each one call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pyarrow as pa

from samsarrow._sync import run_sync
from samsarrow._table_io import check_read, check_write, read_table, write_rows
from samsarrow.consumer import Consumer
from samsarrow.producer import Producer
from samsarrow.ranges.bounds import Bound
from samsarrow.ranges.plans import OnDataLoss, OnLoss
from samsarrow.types import Seconds, TopicPartition

if TYPE_CHECKING:
    from samsarrow.options import ConsumerOptions, ProducerOptions
    from samsarrow.values.decode import Format

__all__ = ["read", "write"]


def read(
    topic: str,
    config: Mapping[str, Any] | None = None,
    *,
    since: datetime | timedelta | str | None = None,
    start: Bound | None = None,
    end: Bound = "latest",
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    key_format: Format | None = None,
    value_format: Format | None = None,
    on_decode_error: Literal["raise", "null"] = "raise",
    raw_values: bool = False,
    on_data_loss: OnDataLoss = "raise",
    on_loss: OnLoss | None = None,
    timeout: Seconds | None = None,
    progress: bool | None = None,
    **options: Unpack[ConsumerOptions],
) -> pa.Table:
    """Reads a topic into a table, up to the end that it has at the time of the call.

        table = samsarrow.read("orders", since=timedelta(hours=1), bootstrap_servers="localhost:9092")

    It reads without a group and commits nothing. The table is in memory; for more rows than fit there, read the splits
    of `samsarrow.ranges.plan` one after another.

    Only committed records are read by default (`isolation.level=read_committed`). A partition then ends at its first
    open transaction. With `isolation_level="read_uncommitted"` records of open and aborted transactions are read, too.

    Args:
        topic: name of the topic.
        config: options of `Consumer` with dotted names.
        since: a time at which the read starts, in any form of a time that `start` takes. It replaces `start`.
        start: the first records to read, by default `"earliest"`, as in `samsarrow.ranges.plan`.
        end: the end, which is not included, as in `samsarrow.ranges.plan`.
        partitions: numbers of the partitions to read; by default all.
        columns: names of the columns to read, in this order; by default all columns of `Consumer.poll`. Keys and values
            that are not read are not decoded. `headers` and `leader_epoch` need no option here.
        key_format: format of keys, as in `Consumer`.
        value_format: format of values, as in `Consumer`.
        on_decode_error: effect of a key or value that cannot be decoded, `raise` or `null`, as in `Consumer`.
        raw_values: whether to add the columns `raw_key` and `raw_value`, as in `Consumer`.
        on_data_loss: effect of offsets that retention or `delete_records` removes before they are read: `raise`, or
            `skip` with a warning in the log.
        on_loss: with `on_data_loss="skip"`, called with each `samsarrow.ranges.DataLoss`.
        timeout: maximum seconds without progress; by default `default.api.timeout.ms`.
        progress: whether to show a progress bar on standard error; by default only if that is a terminal.
        **options: the same options as keywords.

    Returns:
        The rows. Rows of a partition are in the order of their offsets.

    Raises:
        ConfigurationError: an argument or option is invalid, or is for groups; or a column does not exist.
        UnknownTopicOrPartitionError: the topic does not exist.
        OffsetOutOfRangeError: retention removed records while they were read, an offset is not in the log, or the topic
            was deleted and created again.
        KafkaTimeoutError: no offset was read for `timeout` seconds. The message names the partitions.
        BadValueError: a value cannot be decoded.
        RegistryError: a schema cannot be fetched from the registry.
    """
    request = check_read(
        topic,
        config,
        options,
        since=since,
        start=start,
        end=end,
        partitions=partitions,
        columns=columns,
        key_format=key_format,
        value_format=value_format,
        on_decode_error=on_decode_error,
        raw_values=raw_values,
        on_data_loss=on_data_loss,
        timeout=timeout,
    )
    return run_sync(read_table(Consumer, request, on_loss, progress))


def write(
    topic: str,
    data: Any,
    config: Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
    value: str | Sequence[str] | None = None,
    headers: str | None = None,
    partition: str | None = None,
    timestamp: str | None = None,
    key_format: Format | None = None,
    value_format: Literal["json", "ipc"] | Format | None = None,
    progress: bool | None = None,
    **options: Unpack[ProducerOptions],
) -> dict[TopicPartition, int]:
    """Writes a table to a topic, and waits until the brokers have acknowledged all rows.

        counts = samsarrow.write("orders", frame, key="id", value_format="json", bootstrap_servers="localhost:9092")

    With a `transactional_id` the rows are written in one transaction: consumers with `read_committed` see all of them
    or none.

    Args:
        topic: name of the topic.
        data: a `pyarrow.Table`, `RecordBatch` or `RecordBatchReader`; a frame of Polars or pandas; a relation of
            DuckDB; or any other object with `__arrow_c_stream__`, `__arrow_c_array__` or `__dataframe__`. A reader is
            read batch by batch, so it may be larger than the memory.
        config: options of `Producer` with dotted names.
        key: name of the column of keys; by default the column `key`, if it exists.
        value: name of the column of values, or names of several columns, which form a struct. By default the column
            `value`; without such a column, and with a `value_format`, all columns except those of headers, partitions
            and timestamps.
        headers: name of the column of headers; by default the column `headers`.
        partition: name of the column of partition numbers. Null, and no column, let the partitioner choose by the key.
        timestamp: name of the column of timestamps. Null, and no column, stand for the current time.
        key_format: format of keys, as in `Producer.send_batch`.
        value_format: format of values, as in `Producer.send_batch`: `"json"`, `"ipc"`, `Avro(…)` and others.
        progress: whether to show a progress bar on standard error; by default only if that is a terminal.
        **options: the same options as keywords.

    Returns:
        The number of rows that were written to each partition.

    Raises:
        TypeError: `data` is of an unsupported type.
        ConfigurationError: a column is missing or has a type that cannot be sent, or an option is invalid. Nothing is
            written.
        KafkaError: some rows were not written. The `outcomes` of the error have the offset or the error of each run of
            rows that was queued, and a note has the number of rows that were written to each partition. With a
            `transactional_id` a note says that no row is visible, or after a timeout of the commit that its outcome is
            unknown.
    """
    work = check_write(
        topic,
        data,
        config,
        options,
        key=key,
        value=value,
        headers=headers,
        partition=partition,
        timestamp=timestamp,
        key_format=key_format,
        value_format=value_format,
    )
    return run_sync(write_rows(Producer, work, progress))
