"""Readers of splits, each with its own consumer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import pyarrow as pa

from samsarrow._consumer import ConsumerBase
from samsarrow._range_reader import RangeReader
from samsarrow._sync import checkpoint, run_sync
from samsarrow._threads import allocate_lock
from samsarrow.aio_consumer import AsyncConsumer
from samsarrow.consumer import Consumer
from samsarrow.exceptions import ConfigurationError, IllegalStateError
from samsarrow.ranges.lookup import TopicIds, schema_of
from samsarrow.ranges.plans import OffsetRange, OnLoss, Source, count

# A Fetch response also has records past the end of a range, so small ranges use a smaller maximum size.
_SMALL_RANGE, _SMALL_FETCH = 10_000, 1 << 20


class SplitRead:
    """Read of one split, by a blocking or an async consumer, which is closed at the end and after an error."""

    def __init__(
        self, kind: type[ConsumerBase], source: Source, ranges: Sequence[OffsetRange], on_loss: OnLoss | None
    ) -> None:
        self._source = source
        self._consumer: ConsumerBase | None = open_consumer(kind, source, count(ranges))
        self._reader = range_reader(self._consumer, source, ranges, on_loss)
        self._checked = False
        self._error: Exception | None = None
        self._reading = allocate_lock()

    async def next_batch(self) -> pa.RecordBatch | None:
        """Returns the next rows, or None at the end. After an error, each call raises it again.

        Raises:
            IllegalStateError: another thread or task is reading.
        """
        if not self._reading.acquire(blocking=False):
            raise IllegalStateError("the reader is being read already: only one thread or task may read at a time")
        try:
            if self._error is not None:
                raise self._error.with_traceback(None)
            if self._consumer is None:
                return None
            batch = await self._next(self._consumer)
            if batch is None:
                await self.close()
            return batch
        except IllegalStateError:
            raise
        except Exception as error:
            self._error = error
            await self.close()
            raise
        finally:
            self._reading.release()

    async def _next(self, consumer: ConsumerBase) -> pa.RecordBatch | None:
        if not self._checked:
            await self._check_schema(consumer)
            self._checked = True
        batch = await self._reader.next_batch()
        columns = self._source.columns
        return batch if batch is None or columns is None else batch.select(list(columns))

    async def _check_schema(self, consumer: ConsumerBase) -> None:
        """Raises an error if a schema in the registry differs from the one with which the plan was made."""
        planned, found = self._source.schema, await schema_of(consumer, self._source.topic)
        if self._source.columns is not None:
            found = pa.schema([found.field(name) for name in self._source.columns])
        if not found.equals(planned):
            raise ConfigurationError(
                f"the rows of topic {self._source.topic} have another schema than in the plan, for example because "
                "the registry has a newer version: pass a schema or a version to the format, or make a new plan"
            )

    async def close(self) -> None:
        """Closes the consumer. May be called again."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer._close(False, None)


class BlockingBatches:
    """Iterator over the batches of a split."""

    def __init__(self, source: Source, ranges: Sequence[OffsetRange], on_loss: OnLoss | None) -> None:
        self._read = SplitRead(Consumer, source, ranges, on_loss)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = run_sync(self._read.next_batch())
        if batch is None:
            raise StopIteration
        return batch


class AwaitedBatches:
    """Async iterator over the batches of a split."""

    def __init__(self, source: Source, ranges: Sequence[OffsetRange], on_loss: OnLoss | None) -> None:
        self._read = SplitRead(AsyncConsumer, source, ranges, on_loss)

    def __aiter__(self) -> AsyncIterator[pa.RecordBatch]:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        await checkpoint()
        batch = await self._read.next_batch()
        if batch is None:
            raise StopAsyncIteration
        return batch

    async def aclose(self) -> None:
        """Ends the read."""
        await self._read.close()


def open_consumer(kind: type[ConsumerBase], source: Source, offsets: int) -> ConsumerBase:
    """Creates the consumer for a read.

    Args:
        kind: class of the consumer.
        source: topic and options.
        offsets: number of offsets to read.
    """
    options: dict[str, Any] = dict(source.options)
    if offsets <= _SMALL_RANGE:
        options.setdefault("max.partition.fetch.bytes", _SMALL_FETCH)
    return kind(
        options,
        key_format=source.key_format,
        value_format=source.value_format,
        on_decode_error=source.on_decode_error,
        raw_values=source.raw_values,
    )


def range_reader(
    consumer: ConsumerBase, source: Source, ranges: Sequence[OffsetRange], on_loss: OnLoss | None
) -> RangeReader:
    """Returns the reader of ranges, which compares topic ids and handles lost offsets as the plan defines."""
    return RangeReader(
        consumer,
        {one.partition: (one.start, one.end) for one in ranges},
        limit=source.timeout,
        on_loss=lambda loss: source.lose(loss, on_loss),
        find_topic_id=TopicIds(consumer._run, source.options, source.topic).find,
        topic_id=None if source.topic_id is None else source.topic_id.bytes,
    )
