"""Bodies of `read` and `write`, for blocking and async clients."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import pyarrow as pa

from samsarrow._consumer import ConsumerBase
from samsarrow._producer import ProducerBase
from samsarrow._range_reader import name_of
from samsarrow._sync import Awaiting, checkpoint
from samsarrow.config import kafka_name, merge
from samsarrow.exceptions import ConfigurationError, KafkaError, KafkaTimeoutError
from samsarrow.partitioner import reader_of
from samsarrow.ranges.planning import Request, check_request, make_plan
from samsarrow.ranges.plans import OnLoss
from samsarrow.ranges.split_read import range_reader
from samsarrow.types import PartOutcome, TopicPartition, check_topic

if TYPE_CHECKING:
    from samsarrow._core import BatchDelivery
    from samsarrow.types import PartitionReceipt
    from samsarrow.values.decode import Format

# Maximum number of rows in a batch that is passed to the producer while a progress bar is shown.
_BAR_ROWS = 100_000
# Prefix of columns that pandas adds for an index without a name.
_PANDAS_INDEX = "__index_level_"
# Remedies for objects that are not tables, by the names of their classes.
_HINTS = {
    "LazyFrame": ": collect() it first",
    "Series": ": pass series.to_frame()",
    "dict": ": pass pyarrow.table(data)",
    "list": ": pass pyarrow.Table.from_pylist(rows), or pyarrow.Table.from_batches(batches)",
    "generator": ": pass pyarrow.RecordBatchReader.from_batches(schema, batches)",
    "ndarray": ': pass pyarrow.table({"value": array})',
}
Advance = Callable[[int], None]


def check_read(topic: str, config: Mapping[str, Any] | None, options: Mapping[str, Any], **arguments: Any) -> Request:
    """Checks the arguments of `read`.

    Raises:
        ConfigurationError: an argument or option is invalid.
        TypeError: an argument has the wrong type.
    """
    since, start = arguments.pop("since"), arguments.pop("start")
    if since is None:
        return check_request(topic, config, options, start="earliest" if start is None else start, **arguments)
    if start is not None:
        raise ConfigurationError("since and start contradict each other: pass one of them")
    request = check_request(topic, config, options, start=since, start_name="since", **arguments)
    if request.start.kind != "time":
        raise ConfigurationError(f"since is a time, not {since!r}: pass it as start")
    return request


async def read_table(
    kind: type[ConsumerBase], request: Request, on_loss: OnLoss | None, progress: bool | None
) -> pa.Table:
    """Plans a read and reads it, with one consumer."""
    consumer = request.consumer(kind)
    try:
        plan = await make_plan(consumer, request)
        reader = range_reader(consumer, plan._source, plan.ranges, on_loss)
        if on_loss is not None:
            for loss in plan.losses:
                on_loss(loss)
        batches = []
        with progress_bar(f"reading {request.topic}", reader.total, progress) as advance:
            shown = 0
            while (batch := await reader.next_batch()) is not None:
                batches.append(batch if request.columns is None else batch.select(list(request.columns)))
                done = reader.done
                advance(done - shown)
                shown = done
                if issubclass(kind, Awaiting):
                    await checkpoint()
            advance(reader.total - shown)
        return pa.Table.from_batches(batches, plan.schema)
    finally:
        await consumer._close(False, None)


class Write(NamedTuple):
    """Checked arguments of `write`.

    Attributes:
        rows: number of rows, None if it is unknown.
        transactional: whether the rows are written in one transaction.
    """

    topic: str
    options: list[tuple[str, Any]]
    reader: pa.RecordBatchReader
    rows: int | None
    key: str | None
    value: str | list[str] | None
    headers: str | None
    partition: str | None
    timestamp: str | None
    key_format: Format | None
    value_format: Literal["json", "ipc"] | Format | None
    transactional: bool


def check_write(
    topic: str,
    data: Any,
    config: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    *,
    key: str | None,
    value: str | Sequence[str] | None,
    headers: str | None,
    partition: str | None,
    timestamp: str | None,
    key_format: Format | None,
    value_format: Literal["json", "ipc"] | Format | None,
) -> Write:
    """Checks the arguments of `write`.

    Raises:
        ConfigurationError: a column does not exist.
        TypeError: an argument has the wrong type.
    """
    check_topic(topic)
    reader = _reader(data)
    names = reader.schema.names
    roles = {"key": key, "headers": headers, "partition": partition, "timestamp": timestamp}
    for role, name in roles.items():
        if name is not None and not isinstance(name, str):
            raise TypeError(f"{role} is the name of a column, not {type(name).__name__}")
        if name is not None and name not in names:
            raise ConfigurationError(f"{role}: there is no column {name!r} among {', '.join(names)}")
    if value is None and "value" not in names:
        if value_format is None:
            raise ConfigurationError(
                f"there is no column 'value' among {', '.join(names)}: name the column in value=, or pass "
                "value_format='json' to write each row as a JSON object"
            )
        # The default column of headers is not a field of the value.
        others = {partition, timestamp, headers or "headers"}
        value = [name for name in names if name not in others and not name.startswith(_PANDAS_INDEX)]
    pairs = merge(config, options)
    return Write(
        topic,
        pairs,
        reader,
        _row_count(data),
        key,
        value if value is None or isinstance(value, str) else list(value),
        headers,
        partition,
        timestamp,
        key_format,
        value_format,
        any(kafka_name(name) == "transactional.id" for name, _ in pairs),
    )


async def write_rows(kind: type[ProducerBase], work: Write, progress: bool | None) -> dict[TopicPartition, int]:
    """Writes all rows, and returns the number of rows by partition."""
    producer = kind(dict(work.options))
    failure: BaseException | None = None
    step: Literal["begin", "send", "commit"] = "begin"
    try:
        if work.transactional:
            await producer._begin_transaction(None)
        step = "send"
        with progress_bar(f"writing {work.topic}", work.rows, progress) as advance:
            delivery = await producer._send_batch(
                work.topic,
                work.reader if advance is _ignore else _counted(work.reader, advance),
                work.key,
                work.value,
                work.headers,
                work.partition,
                work.timestamp,
                work.value_format,
                work.key_format,
            )
        receipts = await _result(kind, delivery)
        if work.transactional:
            step = "commit"
            await producer._commit_transaction(None)
        counts: Counter[TopicPartition] = Counter()
        for receipt in receipts:
            counts[TopicPartition(work.topic, receipt.partition)] += receipt.count
        return dict(sorted(counts.items()))
    except Exception as error:
        failure = error
        if not work.transactional:
            await _add_outcomes(kind, work, error)
        elif step == "send" or (isinstance(error, KafkaError) and error.abortable):
            await producer._abort_after(error)
            error.add_note(f"the transaction was not committed: no row is visible in {work.topic} with read_committed")
        elif step == "commit" and isinstance(error, KafkaTimeoutError):
            error.add_note(
                f"it is unknown whether the transaction was committed: all rows are visible in {work.topic} with "
                "read_committed, or none"
            )
        raise
    except BaseException as error:
        failure = error
        raise
    finally:
        await producer._exit_block(failure)


async def _add_outcomes(kind: type[ProducerBase], work: Write, error: Exception) -> None:
    """Adds the outcomes of the queued rows to an error, and a note with the number of written rows."""
    outcomes: Sequence[PartOutcome] = getattr(error, "outcomes", ())
    queued: BatchDelivery | None = getattr(error, "delivery", None)
    if queued is not None:
        # Waits for the rows that were queued before the error. An error of theirs is in the outcomes.
        with suppress(KafkaError):
            await _result(kind, queued)
        outcomes = queued.outcomes()
        if isinstance(error, KafkaError):
            error.outcomes = outcomes
    if isinstance(error, ConfigurationError) and not outcomes:
        return
    written: Counter[str] = Counter()
    for outcome in outcomes:
        if outcome.error is None:
            written[name_of(TopicPartition(outcome.topic, outcome.partition))] += outcome.count
    total = "" if work.rows is None else f" of {work.rows:,}"
    where = ", ".join(f"{name} {count:,}" for name, count in sorted(written.items()))
    error.add_note(
        f"{written.total():,}{total} rows were written to topic {work.topic}{f' ({where})' if where else ''}, the "
        "others were not"
    )


async def _result(kind: type[ProducerBase], delivery: BatchDelivery) -> list[PartitionReceipt]:
    return await delivery if issubclass(kind, Awaiting) else delivery.result()


def _reader(data: Any) -> pa.RecordBatchReader:
    """Returns a reader of a table, frame or relation.

    Raises:
        TypeError: the type of the data is not supported.
    """
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return reader_of(data)
    if hasattr(data, "__dataframe__"):
        # Imported here because few libraries have only this older protocol.
        from pyarrow.interchange import from_dataframe

        return reader_of(from_dataframe(data))
    hint = next(
        (text for kind, text in _HINTS.items() if any(kind == base.__name__ for base in type(data).__mro__)), ""
    )
    raise TypeError(
        f"data is a table, frame or reader with __arrow_c_stream__, __arrow_c_array__ or __dataframe__, not "
        f"{type(data).__name__}{hint}"
    )


def _row_count(data: Any) -> int | None:
    """Returns the number of rows if it is known without a query, as `len()` of a relation of DuckDB needs."""
    # The attributes are those of pyarrow and Polars, and pandas has a length.
    found = getattr(data, "num_rows", None) or getattr(data, "height", None)
    if found is None and hasattr(data, "iloc"):
        found = len(data)
    return found if isinstance(found, int) else None


def _counted(reader: pa.RecordBatchReader, advance: Advance) -> pa.RecordBatchReader:
    """Returns a reader that reports the number of rows that were read from it."""

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            for start in range(0, max(batch.num_rows, 1), _BAR_ROWS):
                part = batch.slice(start, _BAR_ROWS)
                yield part
                advance(part.num_rows)

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _ignore(_: int) -> None:
    """Takes progress that is not shown."""


def progress_bar(
    label: str, length: int | None, shown: bool | None, unit: str = "records"
) -> AbstractContextManager[Advance]:
    """Returns a progress bar, whose function advances it.

    Args:
        label: text before the bar.
        length: sum of all advances; None, and 0, show no bar.
        shown: whether to show the bar; None shows it if standard error is a terminal.
        unit: unit of the length, as in `samsarrow.cli.progress`.
    """
    if shown is None:
        shown = sys.stderr is not None and sys.stderr.isatty()
    if not shown or not length:
        return nullcontext(_ignore)
    # Imported here because the bar needs the modules of the command line.
    from samsarrow.cli.progress import progress

    return progress(label, length, unit, force=True)
