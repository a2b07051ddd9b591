"""`read`, `write` and `plan` for event loops: asyncio, uvloop, trio and anyio."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal, Unpack

import pyarrow as pa

from samsarrow._sync import checkpoint
from samsarrow._table_io import check_read, check_write, read_table, write_rows
from samsarrow.aio_consumer import AsyncConsumer
from samsarrow.aio_producer import AsyncProducer
from samsarrow.ranges.bounds import Bound
from samsarrow.ranges.planning import check_request, make_plan
from samsarrow.ranges.plans import OnDataLoss, OnLoss, Plan
from samsarrow.types import Seconds, TopicPartition

if TYPE_CHECKING:
    from samsarrow.options import ConsumerOptions, ProducerOptions
    from samsarrow.values.decode import Format

__all__ = ["plan", "read", "write"]


async def read(
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
    """Reads a topic into a table. Arguments, results and errors are those of `samsarrow.read`.

    A cancelled call closes its consumer.
    """
    await checkpoint()
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
    return await read_table(AsyncConsumer, request, on_loss, progress)


async def write(
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
    """Writes a table to a topic. Arguments, results and errors are those of `samsarrow.write`.

    A cancelled call stops sending. Rows that were queued by then are still written, unless they are in a transaction.
    """
    await checkpoint()
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
    return await write_rows(AsyncProducer, work, progress)


async def plan(
    topic: str,
    config: Mapping[str, Any] | None = None,
    *,
    start: Bound = "earliest",
    end: Bound = "latest",
    splits: int | None = None,
    partitions: Iterable[int] | None = None,
    columns: Sequence[str] | None = None,
    key_format: Format | None = None,
    value_format: Format | None = None,
    on_decode_error: Literal["raise", "null"] = "raise",
    raw_values: bool = False,
    on_data_loss: OnDataLoss = "raise",
    timeout: Seconds | None = None,
    **options: Unpack[ConsumerOptions],
) -> Plan:
    """Plans a bounded read. Arguments, results and errors are those of `samsarrow.ranges.plan`.

    Read the splits with `Split.aread`.
    """
    await checkpoint()
    request = check_request(
        topic,
        config,
        options,
        start=start,
        end=end,
        splits=splits,
        partitions=partitions,
        columns=columns,
        key_format=key_format,
        value_format=value_format,
        on_decode_error=on_decode_error,
        raw_values=raw_values,
        on_data_loss=on_data_loss,
        timeout=timeout,
    )
    consumer = request.consumer(AsyncConsumer)
    try:
        return await make_plan(consumer, request)
    finally:
        await consumer._close(False, 0)
