"""Iterators over polls that end when idle, after a number of rows, or on a signal."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from samsarrow import _core
from samsarrow._sync import checkpoint, run_sync
from samsarrow.exceptions import ClosedError, ConfigurationError, IllegalStateError, KafkaTimeoutError
from samsarrow.types import ConsumerRecord, Seconds, to_count, to_seconds

if TYPE_CHECKING:
    from samsarrow._consumer import ConsumerBase

EndedBy = Literal["idle", "max_rows", "signal", "closed"]
"""The reason why a stream ended."""

# Maximum seconds of one poll. A consumer that another thread closes ends the stream after at most this time.
_POLL_SECONDS = 1.0
# Maximum seconds of one poll of a stream that ends on signals, because a signal does not interrupt a poll.
_POLL_SECONDS_WITH_SIGNALS = 0.1


class SignalHandlers:
    """Handlers of SIGTERM and SIGINT that store the first signal and restore the earlier handlers.

    A second signal therefore has the effect that it had before. The object does not refer to its stream, so that the
    stream is freed, and restores the handlers, if a loop over it is left.

    Attributes:
        received: number of the signal, None if none was received.
    """

    def __init__(self, received: int | None) -> None:
        self.received = received
        self._before: dict[int, Any] = {}
        self._process = os.getpid()
        self._closed = False

    def install(self) -> None:
        """Installs the handlers, unless they were installed before.

        Signals that are ignored, or handled by code outside of Python, stay as they are.
        """
        if self._before or self._closed or self.received is not None:
            return
        check_main_thread()
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.getsignal(number)
            if before is not None and before is not signal.SIG_IGN:
                self._before[number] = before
                signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        before = self._before.get(number)
        self._restore()
        if not self._closed and os.getpid() == self._process:
            self.received = number
        # The stream has ended in another thread, or this is the child of a fork, so the signal is not for the stream.
        elif callable(before):
            before(number, frame)
        else:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def _restore(self) -> None:
        # Python sets handlers in the main thread only. `_take` restores them if the stream ends in another thread.
        if not self._before or sys.is_finalizing() or threading.current_thread() is not threading.main_thread():
            return
        for number, before in self._before.items():
            # Another handler may have replaced this one, and may call it.
            if signal.getsignal(number) == self._take:
                signal.signal(number, before)

    def close(self) -> int | None:
        """Restores the earlier handlers, and returns the number of the signal that was received."""
        self._restore()
        self._closed = True
        return self.received


def check_main_thread() -> None:
    """Raises IllegalStateError in other threads than the main thread, which cannot set signal handlers."""
    if threading.current_thread() is not threading.main_thread():
        raise IllegalStateError(
            "stream(signals=True) sets signal handlers, which only the main thread can: read the stream there, or "
            "leave signals out and call wakeup() in your own handler"
        )


class StreamReader:
    """The polls of a stream, for blocking and async consumers. After an error, it continues with the next row.

    Attributes:
        ended_by: the reason why the stream ended, None before.
    """

    def __init__(self, consumer: ConsumerBase, idle: Seconds | None, max_rows: int | None, signals: bool) -> None:
        self.consumer = consumer
        self.ended_by: EndedBy | None = None
        self._idle = to_seconds(idle)
        if self._idle is not None and not self._idle > 0:
            raise ConfigurationError(f"idle must be more than 0 seconds, not {self._idle:g}: poll(0) does not wait")
        self._remaining = to_count("max_rows", max_rows)
        self._handlers: SignalHandlers | None = None
        if signals:
            check_main_thread()
            self._handlers = SignalHandlers(consumer._unreported_signal)

    @property
    def signal(self) -> int | None:
        """The number of the received signal, None if none was received."""
        return None if self._handlers is None else self._handlers.received

    async def next_batch(self) -> pa.RecordBatch | None:
        """Returns the next rows, None at the end of the stream.

        No row is taken before a step that may fail or be cancelled, so an error loses none.
        """
        if self.ended_by is not None:
            return None
        if self._handlers is not None:
            self._handlers.install()
        consumer, limit = self.consumer, _POLL_SECONDS if self._handlers is None else _POLL_SECONDS_WITH_SIGNALS
        idle = IdleClock(consumer, self._idle)
        while True:
            if (reason := self._reason()) is not None:
                await self._end(reason)
                return None
            try:
                rows = None if self._remaining is None else min(self._remaining, consumer._max_poll_records)
                batch = await consumer._poll(min(limit, idle.left()), max_records=rows)
            except ClosedError:
                if consumer.closed:
                    continue
                # The error comes from the producer of a listener or of a `DeadLetter`, not from this consumer.
                raise
            if batch.num_rows:
                if self._remaining is not None:
                    self._remaining -= batch.num_rows
                return batch
            if idle.passed():
                await self._end("idle")
                return None

    def _reason(self) -> EndedBy | None:
        """Returns the reason to end before the next poll, if any."""
        if self.consumer.closed:
            return "closed"
        if self.signal is not None:
            return "signal"
        return "max_rows" if self._remaining == 0 else None

    async def _end(self, reason: EndedBy) -> None:
        """Ends the stream: restores the signal handlers, and commits the rows, all of which are processed."""
        if self._handlers is not None and (received := self._handlers.close()) is not None:
            # Reported even if another condition is true as well, because the application must stop.
            reason = "closed" if reason == "closed" else "signal"
            self.consumer._unreported_signal = None if reason == "signal" else received
        self.ended_by = reason
        if not self.consumer.closed:
            await self.consumer._commit_processed()

    def close(self) -> None:
        """Ends the stream without a commit. The consumer's next stream reports a signal that this one has not."""
        if self.ended_by is None:
            self.ended_by = "closed"
            if self._handlers is not None and (received := self._handlers.close()) is not None:
                self.consumer._unreported_signal = received


class IdleClock:
    """The time without rows, counted while the consumer has an assignment.

    The time in which a member joins its group does not count: a stream would otherwise end before its first row.
    """

    def __init__(self, consumer: ConsumerBase, limit: float | None) -> None:
        self._consumer, self._limit = consumer, limit
        self._idle: _core.Deadline | None = None
        self._joining: _core.Deadline | None = None

    def left(self) -> float:
        """Returns the seconds of the next poll."""
        if self._limit is None:
            return _POLL_SECONDS
        if self._idle is None and self._consumer._is_assigned():
            self._idle = _core.Deadline(self._limit)
        return _POLL_SECONDS if self._idle is None else self._idle.left()

    def passed(self) -> bool:
        """Returns true if no row has arrived in time.

        Raises:
            KafkaTimeoutError: the group assigned no partitions within `default.api.timeout.ms`.
        """
        if self._limit is None:
            return False
        if self._consumer._is_assigned():
            self._joining = None
            return self._idle is not None and self._idle.passed()
        self._idle = None
        limit = self._consumer._open.default_timeout()
        self._joining = self._joining or _core.Deadline(limit)
        if self._joining.passed():
            self._joining = None
            raise KafkaTimeoutError(f"joining the group took longer than {limit:g} s: the log has the reason")
        return False


class RecordReader:
    """The records of a stream, for blocking and async consumers."""

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader
        self._batch: pa.RecordBatch | None = None
        self._records: Iterator[ConsumerRecord] = iter(())
        self._returned = 0
        self._moves = 0

    def buffered(self) -> ConsumerRecord | None:
        """Returns the next record of the current batch, None at its end, and after a signal."""
        if self._reader.signal is not None and self._batch is not None and self._return_rest():
            return None
        for record in self._records:
            self._returned += 1
            return record
        self._batch = None
        return None

    def _return_rest(self) -> bool:
        """Seeks back to the records of the batch that were not returned, so that they are not committed.

        Returns false if the application has moved positions since the poll of the batch. The seeks would then undo its
        own, so the batch is returned to its end.
        """
        consumer, batch = self._reader.consumer, self._batch
        if consumer._moves != self._moves or consumer.closed:
            return False
        if batch is not None and self._returned < batch.num_rows:
            consumer._seek_back(batch.slice(self._returned))
        self._batch, self._records = None, iter(())
        return True

    async def next_record(self) -> ConsumerRecord | None:
        """Returns the next record, None at the end of the stream."""
        while True:
            if (record := self.buffered()) is not None:
                return record
            batch = await self._reader.next_batch()
            if batch is None:
                return None
            self._batch, self._records, self._returned = batch, self._reader.consumer._records_of(batch), 0
            self._moves = self._reader.consumer._moves


class _Closing:
    """Closing of a stream."""

    _reader: StreamReader

    @property
    def ended_by(self) -> EndedBy | None:
        """The reason why the stream ended: `idle`, `max_rows`, `signal` or `closed`; None before."""
        return self._reader.ended_by

    @property
    def signal(self) -> int | None:
        """The number of the signal that ends the stream, None if none was received."""
        return self._reader.signal

    def close(self) -> None:
        """Ends the stream and restores the signal handlers. Commits nothing.

        If a signal was received, it is in `signal`, and the consumer's next stream with `signals` ends immediately.
        """
        self._reader.close()

    def __del__(self) -> None:
        # The attribute is missing if the constructor raised.
        if (reader := getattr(self, "_reader", None)) is not None:
            reader.close()


class BatchStream(_Closing):
    """Iterator over batches, returned by `Consumer.stream`. After an error it continues with the next row."""

    def __init__(
        self, consumer: ConsumerBase, idle: Seconds | None = None, max_rows: int | None = None, signals: bool = False
    ) -> None:
        self._reader = StreamReader(consumer, idle, max_rows, signals)
        # Shared by all calls of `records`, because it has the rest of a batch if a loop over records is left.
        self._records = RecordReader(self._reader)

    def __iter__(self) -> BatchStream:
        return self

    def __next__(self) -> pa.RecordBatch:
        batch = run_sync(self._reader.next_batch())
        if batch is None:
            raise StopIteration
        return batch

    def records(self) -> Iterator[ConsumerRecord]:
        """Iterates over the rows of the batches. After a loop that was left, a second call continues with the next row.

        A signal ends the loop after the current record. The rest of its batch is not committed and is read again.
        """
        return _Records(self)

    def __enter__(self) -> BatchStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Records:
    def __init__(self, stream: BatchStream) -> None:
        self._stream, self._reader = stream, stream._records

    def __iter__(self) -> _Records:
        return self

    def __next__(self) -> ConsumerRecord:
        record = self._reader.buffered() or run_sync(self._reader.next_record())
        if record is None:
            raise StopIteration
        return record


class AsyncBatchStream(_Closing):
    """Iterator over batches, returned by `AsyncConsumer.stream`. After an error it continues with the next row.

    It is not a generator, which would need a finalizer if the loop ends early.
    """

    def __init__(
        self, consumer: ConsumerBase, idle: Seconds | None = None, max_rows: int | None = None, signals: bool = False
    ) -> None:
        self._reader = StreamReader(consumer, idle, max_rows, signals)
        # Shared by all calls of `records`, because it has the rest of a batch if a loop over records is left.
        self._records = RecordReader(self._reader)

    def __aiter__(self) -> AsyncBatchStream:
        return self

    async def __anext__(self) -> pa.RecordBatch:
        await checkpoint()
        batch = await self._reader.next_batch()
        if batch is None:
            raise StopAsyncIteration
        return batch

    def records(self) -> AsyncRecords:
        """Iterates over the rows of the batches. After a loop that was left, a second call continues with the next row.

        A signal ends the loop after the current record. The rest of its batch is not committed and is read again.
        """
        return AsyncRecords(self)

    async def __aenter__(self) -> AsyncBatchStream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncRecords:
    """Iterator over the rows of an `AsyncBatchStream`."""

    def __init__(self, stream: AsyncBatchStream) -> None:
        self._stream, self._reader = stream, stream._records

    def __aiter__(self) -> AsyncRecords:
        return self

    async def __anext__(self) -> ConsumerRecord:
        record = self._reader.buffered()
        if record is None:
            await checkpoint()
            record = await self._reader.next_record()
        if record is None:
            raise StopAsyncIteration
        return record
