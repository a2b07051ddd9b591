"""Bounded reads of topics: a `Plan` has exact offset ranges, cut into `Split`s that any process can read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Unpack

from samsarrow._range_reader import DataLoss
from samsarrow._sync import run_sync
from samsarrow.consumer import Consumer
from samsarrow.ranges.bounds import Bound
from samsarrow.ranges.planning import check_request, make_plan
from samsarrow.ranges.plans import AsyncBatches, OffsetRange, Offsets, OnDataLoss, OnLoss, Plan, Split
from samsarrow.types import Seconds

if TYPE_CHECKING:
    from samsarrow.options import ConsumerOptions
    from samsarrow.values.decode import Format

__all__ = [
    "AsyncBatches",
    "Bound",
    "DataLoss",
    "OffsetRange",
    "Offsets",
    "OnDataLoss",
    "OnLoss",
    "Plan",
    "Split",
    "plan",
]


def plan(
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
    """Looks up the offsets of a bounded read, and divides them into splits. Reads no records.

        plan = samsarrow.ranges.plan("orders", start=timedelta(hours=1), splits=8, bootstrap_servers="localhost:9092")
        for split in plan.splits:  # on any machine
            table = split.read().read_all()

    Only committed records are read by default (`isolation.level=read_committed`). A partition then ends at its first
    open transaction, and the records after that offset belong to the next read. With `read_uncommitted` records of open
    and aborted transactions are read, too.

    Args:
        topic: name of the topic.
        config: options of `Consumer` with dotted names.
        start: the first records to read. `"earliest"`, `"latest"`, a `datetime`, a `timedelta` before now, a time as
            ISO 8601 text, `"group:NAME"` for the committed offsets of a group, or an offset for each partition, such as
            `Plan.next_start()` or its text. A time stands for the first record at or after it in each partition; later
            offsets can have earlier timestamps if producers set them. Partitions without an offset in a mapping or a
            group are read from their beginning.
        end: the end, which is not included, in the same forms. An end in the future is the current end.
        splits: number of splits of similar size. Large partitions are cut by offsets, small ones share a split. By
            default one split for each partition that is not empty.
        partitions: numbers of the partitions to read; by default all.
        columns: names of the columns to read, in this order; by default all columns of `Consumer.poll`. Keys and values
            that are not read are not decoded. `headers` and `leader_epoch` need no option here.
        key_format: format of keys, as in `Consumer`.
        value_format: format of values, as in `Consumer`.
        on_decode_error: effect of a key or value that cannot be decoded, `raise` or `null`, as in `Consumer`.
        raw_values: whether to add the columns `raw_key` and `raw_value`, as in `Consumer`.
        on_data_loss: effect of offsets that retention or `delete_records` removes before they are read, even after the
            plan is made. `raise` raises `OffsetOutOfRangeError`. `skip` logs a warning with the number of offsets, and
            reads the rest.
        timeout: seconds for the lookups, and maximum seconds without progress in each split; by default
            `default.api.timeout.ms`.
        **options: the same options as keywords.

    Returns:
        The plan, which pickles. Its end never moves: later records are not part of it.

    Raises:
        ConfigurationError: an argument or option is invalid, or is for groups; or a column does not exist.
        UnknownTopicOrPartitionError: the topic does not exist.
        OffsetOutOfRangeError: an offset is not in the log, or belongs to a topic that was deleted and created again.
        KafkaTimeoutError: no broker responded in time.
        RegistryError: the schema of the rows cannot be fetched from the registry.
    """
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
    consumer = request.consumer(Consumer)
    try:
        return run_sync(make_plan(consumer, request))
    finally:
        run_sync(consumer._close(False, 0))
