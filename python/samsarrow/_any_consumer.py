"""Common parts of consumers and share consumers, blocking and async."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from inspect import isawaitable
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa

from samsarrow import _core
from samsarrow._names import unknown_method
from samsarrow._sync import Awaiting, Blocking, Runner, base_of_clients, run_sync
from samsarrow._threads import allocate_lock
from samsarrow._unclosed import close_consumer, close_consumer_in_background, watch_consumer
from samsarrow.config import identity
from samsarrow.exceptions import ClosedError, ForkError, IllegalStateError
from samsarrow.types import ConsumerRecord, Seconds, to_seconds

if TYPE_CHECKING:
    from samsarrow.values.dead_letter import DeadLetter
    from samsarrow.values.decode import Format
    from samsarrow.values.typed_columns import OnDecodeError, TypedColumns

CLOSE_TIMEOUT = 30.0
"""Default timeout of `close` in seconds, as in Java's client; also the default grace period of Kubernetes pods."""


@base_of_clients
class AnyConsumer(Runner):
    """Base of all consumers. Methods without I/O are plain functions; all others are coroutines that use `_run`."""

    # Name in the error of a closed consumer.
    _kind = "consumer"
    # Functions of the application whose results a blocking class does not await, for error texts.
    _called = "callbacks"

    _core: Any
    # The Rust consumer from the call of `close` until it is closed, which may be after the call has returned.
    _closing: Any
    _typed: TypedColumns | None

    async def _on_result(self, returned: object) -> None:
        """Awaits or checks the return value of a listener or a callback."""
        raise NotImplementedError

    @staticmethod
    def _finalize(core: Any) -> None:
        """Closes the Rust consumer of a garbage-collected consumer."""
        raise NotImplementedError

    @staticmethod
    async def _wait_delivered(delivery: _core.BatchDelivery) -> None:
        """Waits until the brokers have acknowledged the rows of a dead letter."""
        raise NotImplementedError

    def _prepare_typed(self, typed: TypedColumns) -> None:
        """Fetches schemas from a registry outside a coroutine."""
        raise NotImplementedError

    def _check_dead_letter(self, dead_letter: DeadLetter) -> None:
        """Rejects a `DeadLetter` with a producer of the wrong kind, blocking or async."""
        raise NotImplementedError

    def _topics(self) -> set[str]:
        """Returns the topics that are read."""
        raise NotImplementedError

    def _reads(self) -> str:
        """Returns the end of the `repr`: topics and partitions."""
        raise NotImplementedError

    async def _close(self, everything: bool, timeout: Seconds | None) -> None:
        """Closes the consumer. If `everything` is false, the rows of the last poll may not be processed."""
        raise NotImplementedError

    def _set_formats(
        self,
        options: list[tuple[str, Any]],
        key_format: Format | None,
        value_format: Format | None,
        on_decode_error: OnDecodeError,
        raw_values: bool,
    ) -> list[tuple[str, Any]]:
        """Creates the decoder of typed columns. Returns the options, with `include.headers` if decoding needs it."""
        self._typed = None
        if key_format is None and value_format is None and on_decode_error == "raise" and not raw_values:
            return options
        # Imported here because applications that read undecoded bytes do not need the module.
        from samsarrow.values.typed_columns import TypedColumns

        name = "include.headers"
        include = [str(value).strip().lower() for option, value in options if option.replace("_", ".") == name]
        self._typed = typed = TypedColumns(key_format, value_format, on_decode_error, raw_values, include == ["true"])
        if typed.letters is not None:
            self._check_dead_letter(typed.letters)
        # Invalid values are passed on to the Rust client, which rejects them.
        if typed.needs_headers and include in ([], ["false"]):
            options = [(option, value) for option, value in options if option.replace("_", ".") != name]
            options.append((name, True))
        return options

    def _start(self, core: Any, options: list[tuple[str, Any]]) -> None:
        """Takes a new Rust consumer, which is closed when this object is garbage collected."""
        self._core, self._closing = core, None
        self._identity = identity(options)
        self._polling = allocate_lock()
        self._completed: deque[Any] = deque()
        self._finalizer = watch_consumer(self, core, type(self)._finalize)

    @property
    def _open(self) -> Any:
        if self._core is None:
            raise ClosedError(f"the {self._kind} is closed")
        return self._core

    @property
    def closed(self) -> bool:
        """True if the consumer is closed."""
        return self._core is None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise unknown_method(self, name)

    def __repr__(self) -> str:
        # The attributes are missing if the constructor raised.
        name = f"{type(self).__name__} {getattr(self, '_identity', '')}".rstrip()
        if getattr(self, "_core", None) is None:
            return f"<{name}, closed>"
        try:
            return f"<{name}{self._reads()}>"
        except ForkError:
            return f"<{name}, of the process that forked this one>"

    def _schema_of(self, raw: pa.RecordBatch) -> pa.Schema:
        """Returns the schema of every batch, from an empty batch with undecoded bytes."""
        if self._typed is None:
            return raw.schema
        if not self._typed.ready:
            self._prepare_typed(self._typed)
        return self._typed.empty(raw).schema

    def _empty_batch(self, core: Any) -> pa.RecordBatch:
        return core.empty_batch() if self._typed is None else self._typed.empty(core.empty_batch())

    def _records_of(self, batch: pa.RecordBatch) -> Iterator[ConsumerRecord]:
        return _core.RecordIter(batch) if self._typed is None else self._typed.records(batch)

    async def _client_instance_id(self, timeout: Seconds | None) -> UUID:
        from samsarrow.metrics.client import to_uuid

        return to_uuid(await self._run(self._open.client_instance_id(to_seconds(timeout))))

    async def _run_or_cancel(self, call: _core.Call[Any]) -> Any:
        """Waits for a call, and cancels the call if the wait is cancelled."""
        try:
            return await self._run(call)
        finally:
            call.cancel()


class BlockingConsumer(Blocking, AnyConsumer):
    """Common part of the blocking consumers."""

    async def _on_result(self, returned: object) -> None:
        if isawaitable(returned):
            if (close := getattr(returned, "close", None)) is not None:
                close()
            name = type(self).__name__
            raise TypeError(f"a {name} does not await its {self._called}: use an Async{name}")

    @staticmethod
    def _finalize(core: Any) -> None:
        close_consumer(core)

    @staticmethod
    async def _wait_delivered(delivery: _core.BatchDelivery) -> None:
        delivery.result()

    def _prepare_typed(self, typed: TypedColumns) -> None:
        run_sync(typed.prepare(self._run, self._topics()))

    def _check_dead_letter(self, dead_letter: DeadLetter) -> None:
        if not isinstance(dead_letter.producer, Blocking):
            raise TypeError(f"the DeadLetter of a {type(self).__name__} needs a Producer")


class AwaitingConsumer(Awaiting, AnyConsumer):
    """Common part of the consumers for event loops."""

    async def _on_result(self, returned: object) -> None:
        if isawaitable(returned):
            await returned

    @staticmethod
    def _finalize(core: Any) -> None:
        close_consumer_in_background(core)

    @staticmethod
    async def _wait_delivered(delivery: _core.BatchDelivery) -> None:
        await delivery

    def _prepare_typed(self, typed: TypedColumns) -> None:
        raise IllegalStateError("the first poll() fetches the schema from the registry: call poll() first")

    def _check_dead_letter(self, dead_letter: DeadLetter) -> None:
        if not isinstance(dead_letter.producer, Awaiting):
            raise TypeError(f"the DeadLetter of an {type(self).__name__} needs an AsyncProducer")

    async def _close(self, everything: bool, timeout: Seconds | None) -> None:
        if self._core is None and self._closing is not None:
            # An earlier `close` was cancelled and continues in the background, so this call waits for it.
            await self._run(self._closing.closed(to_seconds(timeout)))
            self._closing = None
        else:
            await super()._close(everything, timeout)


class AsyncRecords:
    """Iterator over the rows of one poll, which starts when the first row is requested."""

    def __init__(self, consumer: AnyConsumer, poll: Callable[[], Awaitable[pa.RecordBatch]]) -> None:
        self._consumer, self._poll = consumer, poll
        self._rows: Iterator[ConsumerRecord] | None = None

    def __aiter__(self) -> AsyncRecords:
        return self

    async def __anext__(self) -> ConsumerRecord:
        if self._rows is None:
            self._rows = self._consumer._records_of(await self._poll())
        for row in self._rows:
            return row
        raise StopAsyncIteration
