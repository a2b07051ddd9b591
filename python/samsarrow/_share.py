"""Base class of `ShareConsumer` and `AsyncShareConsumer`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

import pyarrow as pa

from samsarrow import _core
from samsarrow._any_consumer import CLOSE_TIMEOUT, AnyConsumer
from samsarrow._share_rows import ROW_COLUMNS, positions, type_codes
from samsarrow._sync import base_of_clients
from samsarrow._unclosed import unregister
from samsarrow.config import merge
from samsarrow.exceptions import (
    BadValueError,
    ConfigurationError,
    IllegalStateError,
    KafkaError,
)
from samsarrow.group import check_topics
from samsarrow.metrics.client import ShareConsumerMetrics, of_share_consumer
from samsarrow.types import Seconds, TopicPartition, to_seconds

if TYPE_CHECKING:
    from samsarrow._share_rows import AcknowledgeType, Rows
    from samsarrow.options import ConsumerOptions
    from samsarrow.values.dead_letter import DeadLetter
    from samsarrow.values.decode import Format

_log = logging.getLogger("samsarrow.consumer")

OffsetRanges: TypeAlias = list[tuple[int, int]]
"""Ranges of offsets, each with its first and its last offset."""

AcknowledgementCallback: TypeAlias = Callable[[dict[TopicPartition, OffsetRanges], KafkaError | None], object]
"""Called with the acknowledged offsets of a `commit_async`, and the error or None."""


@base_of_clients
class ShareConsumerBase(AnyConsumer):
    """Base of both share consumers."""

    _kind = "share consumer"

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        acknowledgement: Literal["implicit", "explicit"] | None = None,
        acquire_mode: Literal["batch_optimized", "record_limit"] | None = None,
        auto_renew: bool = False,
        key_format: Format | None = None,
        value_format: Format | None = None,
        on_decode_error: Literal["raise", "null", "release", "reject"] | DeadLetter = "raise",
        raw_values: bool = False,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        pairs = merge(config, options)
        for name, value in (
            ("share.acknowledgement.mode", acknowledgement),
            ("share.acquire.mode", acquire_mode),
        ):
            if value is not None:
                if any(given.replace("_", ".") == name for given, _ in pairs):
                    raise ConfigurationError(f"option {name} is given twice, as an option and as an argument")
                pairs.append((name, value))
        self._explicit = any(
            name.replace("_", ".") == "share.acknowledgement.mode" and str(value).lower() == "explicit"
            for name, value in pairs
        )
        # Acknowledgement of rows that cannot be decoded.
        self._undecoded: Literal["release", "reject"] | None = None
        if isinstance(on_decode_error, str) and on_decode_error not in ("raise", "null", "release", "reject"):
            raise ConfigurationError(
                f"on_decode_error must be raise, null, release, reject or a DeadLetter, not {on_decode_error!r}"
            )
        if on_decode_error == "release" or on_decode_error == "reject":
            self._undecoded, on_decode_error = on_decode_error, "raise"
            if key_format is None and value_format is None:
                raise ConfigurationError("on_decode_error needs a format: pass value_format")
        pairs = self._set_formats(pairs, key_format, value_format, on_decode_error, raw_values)
        # Rows that a poll has fetched and not decoded yet, and the error of the first of them.
        self._rest: pa.RecordBatch | None = None
        self._decode_error: BadValueError | None = None
        self._start(_core.ShareConsumer(pairs, auto_renew), pairs)
        self._callbacks: dict[int, AcknowledgementCallback | None] = {}

    if TYPE_CHECKING:

        @property
        def _open(self) -> _core.ShareConsumer: ...

    def _topics(self) -> set[str]:
        return self.subscription()

    def _reads(self) -> str:
        subscribed = sorted(self.subscription())
        return f", subscribed to {subscribed!r}" if subscribed else ""

    def subscribe(self, topics: Iterable[str]) -> None:
        """Subscribes to topics. Replaces an earlier subscription. The next `poll` joins the group.

        Members share the partitions of the topics, and several members read one partition. A topic that does not exist
        is read once it is created.

        Args:
            topics: topic names. The protocol of share groups has no patterns.

        Raises:
            ConfigurationError: no topic is passed, or a name starts with `^`.
        """
        names = check_topics(topics, with_patterns=False)
        if not names:
            raise ConfigurationError("subscribe takes the names of topics: pass one or more, or call unsubscribe()")
        self._open.subscribe(names)

    def unsubscribe(self) -> None:
        """Leaves the group. Rows that the application has can still be acknowledged."""
        self._open.unsubscribe()

    def subscription(self) -> set[str]:
        """The subscribed topics; empty without a subscription."""
        return set(self._open.subscription())

    def assignment(self) -> set[TopicPartition]:
        """The assigned partitions. Other members of the group can have the same ones."""
        return {TopicPartition(*tp) for tp in self._open.assignment()}

    def metrics(self) -> ShareConsumerMetrics:
        """Counts since the consumer was created. Makes no request."""
        return of_share_consumer(self._open.metrics())

    def acknowledge(self, rows: Rows, types: AcknowledgeType | Any = "accept") -> None:
        """Decides about rows of the last poll. The next `poll` or `commit` sends the decisions.

            consumer.acknowledge(batch)                          # accept all rows
            consumer.acknowledge(batch.filter(bad), "reject")    # do not deliver these again
            consumer.acknowledge(batch, types)                   # one type for each row

        Rows are identified by their topic, partition and offset. A row can be decided again until its decision is
        sent. Rows whose lock has ended are no error here but in the outcome of the next `commit`.

        Args:
            rows: a batch or table of the last poll with the columns topic, partition and offset: whole, filtered,
                sorted or joined, of pyarrow, Polars or another library with the Arrow interface; or a list of such
                batches. Or a `ConsumerRecord`, several of them, or a pair of a `TopicPartition` and an offset.
            types: `accept` (processed), `release` (deliver again, which counts as an attempt), `reject` (never
                deliver again) or `renew` (start the lock again). For several rows also a column with a type for each
                row: an array, series or list of these texts or of Kafka's numbers 1 to 4, where null leaves a row
                undecided.

        Raises:
            IllegalStateError: the consumer is implicit, or it does not have one of the rows; then none is decided.
            ConfigurationError: a type is unknown, or their number differs from the number of rows.
            TypeError: `rows` has no positions.
        """
        data = positions(rows)
        self._open.acknowledge(data, type_codes(types, data.num_rows), False)

    @property
    def lock_timeout(self) -> float | None:
        """Seconds for which a record is locked after a poll or a renewal; None before the first fetch.

        It is the group's option `share.record.lock.duration.ms`, 30 seconds by default.
        """
        return self._open.lock_timeout()

    def locked_for(self, rows: Rows) -> float | None:
        """Seconds until the first lock of these rows ends; None if the consumer has none of them.

        Args:
            rows: as in `acknowledge`.
        """
        return self._open.locked_for(positions(rows))

    def wakeup(self) -> None:
        """Makes the current waiting call, or the next one that may wait, raise `WakeupError`.

        May be called by other threads and signal handlers. `close` ignores the wakeup.
        """
        self._open.wakeup()

    def commit_async(self, callback: AcknowledgementCallback | None = None) -> None:
        """Sends the decisions in the background.

        In the implicit mode, the rows of the last poll are accepted.

        Args:
            callback: called with the acknowledged offsets, `{TopicPartition: [(first, last), …]}`, and the error of the
                first failed partition or None; its `partitions` has the others. The next `poll`, `commit` or `close`
                after the responses calls it, in the order of the calls. Without a callback errors are logged.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function such as callback(offsets, error), not {callback!r}")
        self._callbacks[self._open.commit_async()] = callback

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch. May request the schema of a format from a registry.

        Raises:
            IllegalStateError: the schema comes from a registry, and this is an `AsyncShareConsumer` that has not polled
                yet. Its first `poll` requests the schema.
        """
        return self._schema_of(self._open.empty_batch())

    # ---- bodies of the operations ----

    async def _poll(self, timeout: Seconds | None) -> pa.RecordBatch:
        if not self._polling.acquire(blocking=False):
            raise IllegalStateError(
                "the consumer is being polled already: only one thread, task or callback may poll at a time"
            )
        try:
            return await self._poll_exclusively(inf if timeout is None else timeout)
        finally:
            self._polling.release()

    async def _poll_exclusively(self, timeout: Seconds) -> pa.RecordBatch:
        """Runs a poll as a loop that drives the state machine of the Rust client.

        `try_poll` returns rows, True if commits in the background have completed, or None. `wait_ready` waits until
        `try_poll` may return something else. Only `try_poll` takes rows, so a cancelled poll leaves them to the next.
        """
        core, typed = self._open, self._typed
        if typed is not None and not typed.ready:
            await typed.prepare(self._run, self.subscription())
        deadline = core.begin_poll(to_seconds(timeout))
        remaining = deadline.left()
        if self._completed:
            await self._run_callbacks(core)
        self._drop_lost(core)
        while True:
            if self._rest is not None or self._decode_error is not None:
                rows = await self._decode_rest(core)
            else:
                # Values are decoded first, so a `commit` of another thread must not accept these rows yet.
                result = core.try_poll(typed is not None)
                if isinstance(result, pa.RecordBatch):
                    if typed is None:
                        return result
                    self._rest = result
                    continue
                if result:
                    await self._run_callbacks(core)
                    continue
                rows = None
            if rows is not None and rows.num_rows:
                return rows
            if rows is None and self._rest is None:
                if remaining <= 0.0:
                    return self._empty_batch(core)
                await self._run_or_cancel(core.wait_ready(remaining))
                remaining = deadline.left()

    def _drop_lost(self, core: _core.ShareConsumer) -> None:
        """Drops rows of an earlier fetch whose locks have ended, which the group delivers again."""
        if (raw := self._rest) is None:
            return
        held = core.still_held(raw.select(ROW_COLUMNS))
        if not all(held):
            if not held[0]:
                self._decode_error = None
            self._rest = raw.filter(pa.array(held)) if any(held) else None

    async def _decode_rest(self, core: _core.ShareConsumer) -> pa.RecordBatch | None:
        """Decodes the next fetched rows; raises the error of a row once the rows before it are returned."""
        if (error := self._decode_error) is not None:
            self._decode_error = None
            self._fail_first_row(core)
            if self._undecoded is None:
                raise error.with_traceback(None)
        raw, typed = self._rest, self._typed
        if raw is None or typed is None:
            return None
        read = await typed.read(self._run, raw)
        if read.dead and (dead_letter := typed.letters) is not None:
            await dead_letter._send(raw, read.dead, self._wait_delivered)
        taken = raw.slice(0, read.taken).select(ROW_COLUMNS)
        if read.dead:
            # The records are stored in the other topic, so the group does not deliver them again.
            _decide(core, taken.take(pa.array(sorted(read.dead))), _ACCEPT)
            taken = taken.filter(pa.array(row not in read.dead for row in range(read.taken)))
        core.set_returned(taken)
        self._rest = raw.slice(read.taken) if read.taken < raw.num_rows else None
        self._decode_error = read.error
        return read.rows

    def _fail_first_row(self, core: _core.ShareConsumer) -> None:
        """Hands over the first fetched row, which cannot be decoded.

        An explicit consumer leaves the decision to the application. An implicit one must not accept the row with the
        next poll, so it releases it, as Java's client does.
        """
        if (raw := self._rest) is None:
            return
        row = raw.slice(0, 1).select(ROW_COLUMNS)
        self._rest = raw.slice(1) if raw.num_rows > 1 else None
        if self._undecoded is not None:
            _decide(core, row, _REJECT if self._undecoded == "reject" else _RELEASE)
        elif self._explicit:
            core.set_returned(row)
        else:
            _decide(core, row, _RELEASE)

    async def _commit(self, timeout: Seconds | None) -> dict[TopicPartition, KafkaError | None]:
        return await self._outcomes(self._open.commit(to_seconds(timeout)))

    async def _outcomes(self, commit: _core.Call[_Outcomes]) -> dict[TopicPartition, KafkaError | None]:
        core = self._open
        outcomes = await self._run_or_cancel(commit)
        await self._run_callbacks(core)
        return {TopicPartition(*tp): error for tp, error in outcomes}

    async def _renew(self, rows: Rows, timeout: Seconds | None) -> dict[TopicPartition, KafkaError | None]:
        # Raises for an invalid timeout, before anything is decided.
        commit = self._open.commit(to_seconds(timeout))
        self._open.acknowledge(positions(rows), [_RENEW], False)
        return await self._outcomes(commit)

    async def _run_callbacks(self, core: _core.ShareConsumer) -> None:
        """Calls the callbacks of completed `commit_async` calls.

        If a callback raises, the next call of this method continues with the callback after it.
        """
        self._completed.extend(core.take_completed())
        unregistered: list[_Completed] = []
        try:
            while self._completed:
                completed = self._completed.popleft()
                number, ranges, outcomes = completed
                if number not in self._callbacks:
                    unregistered.append(completed)
                    continue
                callback = self._callbacks.pop(number)
                failures = {TopicPartition(*tp): failure for tp, failure in outcomes if failure is not None}
                error = next(iter(failures.values()), None)
                if error is not None:
                    error.partitions = dict(failures)
                if callback is not None:
                    await self._on_result(callback({TopicPartition(*tp): list(r) for tp, r in ranges}, error))
                elif error is not None:
                    _log.warning("commit_async failed, and has no callback: %s", error)
        finally:
            self._completed.extend(unregistered)

    async def _close(self, accepts: bool, timeout: Seconds | None) -> None:
        core, remaining = self._core, to_seconds(timeout)
        if core is None:
            return
        if remaining is None:
            remaining = min(core.default_timeout(), CLOSE_TIMEOUT)
        # Raises for an invalid timeout, while the consumer is still open.
        close = core.close(remaining, accepts)
        self._core, self._closing = None, core
        self._finalizer.detach()
        unregister(core)
        self._rest = self._decode_error = None
        await self._run(close)
        self._closing = None
        await self._run_callbacks(core)


_ACCEPT, _RELEASE, _REJECT, _RENEW = 1, 2, 3, 4


def _decide(core: _core.ShareConsumer, rows: pa.RecordBatch, kind: int) -> None:
    """Acknowledges rows that are not returned by a poll. Rows whose locks were lost are skipped."""
    try:
        core.acknowledge(rows, [kind], True)
    except IllegalStateError:
        # A call with a lost row acknowledges none of its rows.
        for row in range(rows.num_rows if rows.num_rows > 1 else 0):
            _decide(core, rows.slice(row, 1), kind)


_Outcomes = list[tuple[tuple[str, int], KafkaError | None]]
_Completed = tuple[int, list[tuple[tuple[str, int], OffsetRanges]], _Outcomes]
