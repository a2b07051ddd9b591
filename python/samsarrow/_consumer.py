"""Base class of `Consumer` and `AsyncConsumer`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from samsarrow import _core
from samsarrow._any_consumer import CLOSE_TIMEOUT, AnyConsumer
from samsarrow._consumer_positions import PositionCalls
from samsarrow._sync import base_of_clients
from samsarrow._unclosed import unregister
from samsarrow.config import max_poll_records, merge
from samsarrow.exceptions import (
    BadValueError,
    ConfigurationError,
    IllegalStateError,
    KafkaError,
    KafkaTimeoutError,
)
from samsarrow.group import (
    Assignor,
    Committable,
    ConsumerGroupMetadata,
    MemberMetadata,
    RebalanceListener,
    check_listener,
    check_rows,
    check_topics,
    to_offsets,
)
from samsarrow.types import (
    ConsumerRecord,
    OffsetAndMetadata,
    Partitions,
    Seconds,
    TopicPartition,
    to_committed,
    to_count,
    to_pair,
    to_pairs,
    to_seconds,
)

_log = logging.getLogger("samsarrow.consumer")

CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata] | None, KafkaError | None], object]
"""Called with the offsets passed to `commit_async` (None if none were passed), and the error or None."""

if TYPE_CHECKING:
    from samsarrow.metrics.client import ConsumerMetrics
    from samsarrow.options import ConsumerOptions
    from samsarrow.values.decode import Format
    from samsarrow.values.typed_columns import OnDecodeError, TypedColumns


@base_of_clients
class ConsumerBase(AnyConsumer, PositionCalls):
    """Base of both consumers of consumer groups."""

    _called = "listeners and callbacks"

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        key_format: Format | None = None,
        value_format: Format | None = None,
        on_decode_error: OnDecodeError = "raise",
        raw_values: bool = False,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        pairs, assignors = _split_assignors(merge(config, options))
        pairs = self._set_formats(pairs, key_format, value_format, on_decode_error, raw_values)
        self._start(_core.Consumer(pairs, assignors), pairs)
        self._max_poll_records = max_poll_records(pairs)
        self._listener: RebalanceListener | None = None
        # True while the listener is being called for revoked or lost partitions.
        self._revoking = False
        # True once the group has sent an assignment, possibly an empty one, until it revokes all partitions.
        self._has_assignment = False
        # A signal that ended a loop over a stream before the stream could report it.
        self._unreported_signal: int | None = None
        self._callbacks: dict[int, tuple[CommitCallback | None, dict[TopicPartition, OffsetAndMetadata] | None]] = {}

    if TYPE_CHECKING:

        @property
        def _open(self) -> _core.Consumer: ...

    def _reads(self) -> str:
        subscribed, assigned = self.subscription(), sorted(self.assignment())
        names = ", ".join(f"{tp.topic}-{tp.partition}" for tp in assigned[:5])
        more = f", {len(assigned) - 5} more" if len(assigned) > 5 else ""
        topics = sorted(subscribed) if isinstance(subscribed, set) else subscribed
        what = "" if topics is None else f", subscribed to {topics!r}"
        return f"{what}{f', reads {names}{more}' if assigned else ''}"

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Subscribes to topics. The members of the group share their partitions. Replaces an earlier subscription.

        The next `poll` joins the group.

        Args:
            topics: topic names. A name is never a regular expression, unlike in librdkafka, where `^` starts one.
            pattern: regular expression to pass instead of names. It must match a whole topic name. New topics that
                match are found within `metadata.max.age.ms`. RE2 syntax: no look-around, no back references. With
                `group.protocol=consumer` the broker does the matching.
            listener: called when partitions are assigned or revoked, in the thread that polls. `AsyncConsumer` awaits
                awaitable results of its methods.

        Raises:
            ConfigurationError: `group.id` is not set, partitions are manually assigned, the pattern is invalid, a
                topic name starts with `^`, or both or neither of topics and pattern are set.
            TypeError: `listener` is not a `RebalanceListener`.
        """
        names = check_topics(topics)
        check_listener(listener)
        if bool(names) == (pattern is not None):
            raise ConfigurationError(
                "subscribe needs either topics or a pattern: call unsubscribe() to end a subscription"
            )
        text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
        self._open.subscribe(names, text)
        self._listener = listener
        self._has_assignment = False

    def subscription(self) -> set[str] | str | None:
        """The subscribed topics or pattern; None without a subscription."""
        names, pattern = self._open.subscription()
        return pattern if pattern is not None else set(names) or None

    def assignment(self) -> set[TopicPartition]:
        """The assigned partitions."""
        return {TopicPartition(*tp) for tp in self._open.assignment()}

    def metrics(self) -> ConsumerMetrics:
        """Counts, lag and latencies since the consumer was created. Makes no request."""
        # Imported here because the import takes as long as the rest of this module, and few applications need it.
        from samsarrow.metrics.client import of_consumer

        return of_consumer(self._open.metrics())

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch. May request the schema of a format from a registry.

        Raises:
            IllegalStateError: the schema comes from a registry, and this is an `AsyncConsumer` that has not polled yet.
                Its first `poll` requests the schema.
        """
        return self._schema_of(self._open.empty())

    def _topics(self) -> set[str]:
        """Returns the subscribed topics; for a pattern or a manual assignment, the topics of assigned partitions."""
        subscribed = self.subscription()
        return subscribed if isinstance(subscribed, set) else {tp.topic for tp in self.assignment()}

    async def _decode(self, core: _core.Consumer, raw: pa.RecordBatch, typed: TypedColumns) -> pa.RecordBatch:
        """Decodes fetched rows, and sends rows that cannot be decoded to the dead letter topic.

        Seeks back to the first rows that are not returned, so that positions are right after the returned rows.
        """
        try:
            read = await typed.read(self._run, raw)
            if read.dead and (dead_letter := typed.letters) is not None:
                await dead_letter._send(raw, read.dead, self._wait_delivered)
        except BaseException:
            _seek_back(core, raw)
            raise
        if read.taken < raw.num_rows:
            _seek_back(core, raw.slice(read.taken))
            self._decode_error = read.error
        if read.error is not None and not read.taken:
            raise read.error
        return read.rows

    def enforce_rebalance(self, reason: str = "requested by the application") -> None:
        """Requests a rebalance of the group in the next `poll`, for example because an assignor may decide differently.

        With `group.protocol=consumer` the call only logs a warning, because the coordinator decides about rebalances.

        Args:
            reason: reason for the broker's log (KIP-800).

        Raises:
            IllegalStateError: the consumer has no subscription.
        """
        self._open.enforce_rebalance(reason)

    def wakeup(self) -> None:
        """Makes the current waiting call, or the next one that may wait, raise `WakeupError`.

        May be called by other threads and signal handlers. `close` and `unsubscribe` ignore the wakeup. A `commit` that
        raises `WakeupError` may still take effect.
        """
        self._open.wakeup()

    def commit_async(self, what: Committable | None = None, callback: CommitCallback | None = None) -> None:
        """Commits offsets in the background.

        Commits of one consumer run one after another, in the order of the calls, including synchronous ones: a late
        response never undoes a newer commit. Pending commits are merged, with the newest offset of each partition, and
        finish before partitions are reassigned. Temporary errors are retried until `default.api.timeout.ms`.

        Args:
            what: as in `commit`, evaluated at the time of the call.
            callback: called with the offsets (None if `what` was None) and the error or None, by the next `poll`,
                `commit`, `unsubscribe` or `close` after the response, in the order of the calls. An error that affects
                only some partitions lists them in `partitions`. The callback also gets an error if the group is
                rebalancing, or if the consumer is not a member. Without a callback errors are logged.

        Raises:
            ConfigurationError: `group.id` is not set, or an offset or its metadata is invalid.
        """
        if callback is not None and not callable(callback):
            raise TypeError(f"callback must be a function such as callback(offsets, error), not {callback!r}")
        offsets = self._offsets(what)
        named = None if offsets is None else {TopicPartition(*tp): OffsetAndMetadata(*o) for tp, o in offsets}
        # Another thread may take the completion before the callback is registered here. `_run_commit_callbacks` keeps
        # such completions for later.
        self._callbacks[self._open.commit_async(offsets)] = (callback, named)

    def store_offsets(self, what: Committable) -> None:
        """Marks rows as finished, so that automatic commits and `commit()` include them.

        Needs `enable.auto.offset.store=false`.

        Args:
            what: as in `commit`.

        Raises:
            ConfigurationError: a partition is not assigned, so another member may own it; or `enable.auto.offset.store`
                is on, so that `poll` itself stores offsets.
        """
        self._open.store_offsets(self._offsets(what) or [])

    def _offsets(self, what: Committable | None) -> list[tuple[tuple[str, int], _Committed]] | None:
        """Returns offsets by partition for the Rust client.

        Offsets after rows lie past the transaction markers and aborted records that follow the rows.
        """
        if what is None:
            return None
        if isinstance(what, Mapping):
            return to_offsets(what)
        if isinstance(what, ConsumerRecord):
            return self._open.offsets_of_ends([(*end, bytes(16)) for end in to_offsets(what)])
        check_rows(what)
        return self._open.offsets_after(what)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's identity in its group, for `send_offsets_to_transaction`.

        After the membership was lost, for example because `max.poll.interval.ms` was exceeded, this is the last
        identity. Brokers reject it, so that offsets of partitions that other members may own are not committed.

        Raises:
            ConfigurationError: `group.id` is not set.
        """
        metadata = MemberMetadata(*self._open.group_metadata())
        metadata.topic_ids = self._open.topic_ids()
        return metadata

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Moves the position of a partition to `offset`, and drops its prefetched rows.

        Args:
            partition: an assigned partition.
            offset: a number, or an `OffsetAndMetadata` from `committed` or from your own store. If it has a leader
                epoch, the consumer detects that the record before the offset was lost, and continues where the logs
                diverged.
        """
        position, _, epoch = to_committed(offset)
        self._decode_error = None
        self._moves += 1
        self._open.seek(to_pair(partition), position, epoch)

    def _read_until(self, partition: TopicPartition, until: int | None) -> None:
        # Stops reading at the offset `until`; None removes the limit. Readers of offset ranges call this method.
        self._open.read_until(to_pair(partition), until)

    def pause(self, *partitions: Partitions) -> None:
        """Stops returning rows of these partitions, or of all assigned partitions, until `resume`.

        The positions do not change. Prefetched rows are kept, up to half of `queued.max.bytes`.

        Args:
            *partitions: partitions, one by one or as an iterable; by default all assigned partitions.

        Raises:
            IllegalStateError: no partitions are passed, and the group has not assigned any yet.
        """
        self._open.pause(self._pairs_or_assigned(partitions, "pause()"))

    def resume(self, *partitions: Partitions) -> None:
        """Resumes these partitions, or all paused partitions.

        Args:
            *partitions: partitions, one by one or as an iterable; by default all paused partitions.
        """
        self._open.resume(to_pairs(partitions) if partitions else self._open.paused())

    def paused(self) -> set[TopicPartition]:
        """The paused partitions."""
        return {TopicPartition(*tp) for tp in self._open.paused()}

    def _is_assigned(self) -> bool:
        """Returns true if partitions were assigned manually, or if the group has sent an assignment.

        Raises:
            ConfigurationError: nothing is subscribed or assigned.
        """
        assigned = bool(self._open.assignment())
        if self.subscription() is None:
            if not assigned:
                raise ConfigurationError("nothing is assigned to this consumer: call subscribe or assign first")
            return True
        return assigned or self._has_assignment

    def _check_assigned(self, what: str) -> None:
        if not self._is_assigned():
            raise IllegalStateError(
                f"{what} is about assigned partitions, and the group has not assigned any yet: call poll() first"
            )

    def _seek_back(self, rows: pa.RecordBatch) -> None:
        """Seeks each partition that is still assigned back to the first of its rows in the batch."""
        _seek_back(self._open, rows)

    # ---- bodies of the operations ----

    async def _commit_processed(self) -> None:
        """Commits all returned rows with `enable.auto.commit`, and waits for asynchronous commits, as `close` does."""
        core = self._open
        await self._run(core.commit_finished(True, min(core.default_timeout(), CLOSE_TIMEOUT)))
        await self._run_commit_callbacks(core)

    async def _unsubscribe(self, timeout: Seconds | None) -> None:
        core = self._open
        self._moves += 1
        try:
            await self._run(core.commit_finished(True, to_seconds(timeout)))
            await self._run_last_callbacks(core)
        finally:
            core.unsubscribe()
            self._listener = None

    async def _poll(
        self, timeout: Seconds | None, until_assigned: bool = False, max_records: int | None = None
    ) -> pa.RecordBatch:
        """Polls for rows; with `until_assigned`, polls without taking rows until the group has assigned partitions.

        Raises:
            IllegalStateError: another poll is running. Two concurrent polls would commit each other's rows.
        """
        limit = to_count("max_records", max_records)
        if not self._polling.acquire(blocking=False):
            raise IllegalStateError(
                "the consumer is being polled already: only one thread, task, listener or callback may poll at a time"
            )
        try:
            return await self._poll_exclusively(inf if timeout is None else timeout, until_assigned, limit)
        finally:
            self._polling.release()

    async def _poll_exclusively(
        self, timeout: Seconds, until_assigned: bool, max_records: int | None
    ) -> pa.RecordBatch:
        """Runs a poll as a loop that drives the state machine of the Rust client.

        `try_poll` returns rows, a rebalance to pass to the listener (then `prepare`, the listener, and `acknowledge` or
        `requeue_rebalance`), True if asynchronous commits have completed, or None. `wait_ready` waits until `try_poll`
        may return something else.
        """
        core, typed = self._open, self._typed
        if typed is not None and not typed.ready:
            await typed.prepare(self._run, self._topics())
        self._moves += 1
        deadline = core.begin_poll(to_seconds(timeout))
        # The remaining time is read once per iteration, so that a result of the last iteration is still returned after
        # the deadline.
        remaining = deadline.left()
        if self._completed:
            await self._run_commit_callbacks(core)
        # `try_poll` takes results without waiting, so a cancelled wait loses no result.
        while not (until_assigned and self._is_assigned()):
            error = self._next_decode_error(core)
            result = core.try_poll(not until_assigned and error is None, max_records)
            if isinstance(result, pa.RecordBatch):
                if typed is None:
                    return result
                # An empty batch means that a bounded read has reached its end.
                if not result.num_rows:
                    return self._empty_batch(core)
                # If all rows were sent to the dead letter topic, they are finished and the poll continues.
                if (rows := await self._decode(core, result, typed)).num_rows or deadline.passed():
                    return rows
                core.begin_poll(None)
            elif isinstance(result, _core.Rebalance):
                if not await self._dispatch_rebalance(core, result, remaining):
                    return self._empty_batch(core)
            elif result:
                await self._run_commit_callbacks(core)
            elif error is not None and not until_assigned:
                raise error.with_traceback(None)
            elif remaining <= 0.0:
                return self._empty_batch(core)
            else:
                await self._run_or_cancel(core.wait_ready(remaining))
            remaining = deadline.left()
        return self._empty_batch(core)

    def _next_decode_error(self, core: _core.Consumer) -> BadValueError | None:
        """Returns the stored decode error if the position is still at its row; otherwise clears the error."""
        error = self._decode_error
        if error is None or error.partition is None or error.offset is None:
            return None
        if not core.is_next(to_pair(error.partition), error.offset):
            self._decode_error = error = None
        return error

    async def _dispatch_rebalance(self, core: _core.Consumer, event: _core.Rebalance, remaining: float) -> bool:
        """Passes a rebalance to the listener; returns false if preparing took longer than `remaining` seconds."""
        prepared: bool = False
        try:
            prepared = await self._run_or_cancel(core.prepare(event, remaining))
        finally:
            if not prepared:
                core.requeue_rebalance()
        if prepared:
            notified = False
            try:
                await self._notify_listener(event.kind, event.partitions)
                notified = True
            except Exception:
                # The event counts as handled if the listener raises an exception, which the caller gets.
                notified = True
                raise
            finally:
                # If the listener is cancelled or interrupted, its seeks may be missing, so the next poll calls it
                # again.
                if notified:
                    core.acknowledge(event)
                    self._has_assignment = event.kind == "assigned" or bool(core.assignment())
                else:
                    core.requeue_rebalance()
        return prepared

    async def _notify_listener(self, kind: str, partitions: list[tuple[str, int]]) -> None:
        """Calls the listener's method for `kind`: `assigned`, `revoked` or `lost`."""
        if self._listener is None:
            return
        outer = self._revoking
        self._revoking = outer or kind != "assigned"
        try:
            await self._on_result(
                getattr(self._listener, f"on_partitions_{kind}")([TopicPartition(*tp) for tp in partitions])
            )
        finally:
            self._revoking = outer

    async def _run_commit_callbacks(self, core: _core.Consumer) -> None:
        """Calls the callbacks of completed asynchronous commits.

        If a callback raises, the next call of this method continues with the callback after it.
        """
        self._completed.extend(core.take_completed())
        unregistered: list[_Completed] = []
        try:
            while True:
                try:
                    completed = self._completed.popleft()
                except IndexError:
                    # Another thread that polls or commits may have taken the last completion.
                    break
                commit, failures, error = completed
                if (registered := self._callbacks.pop(commit, None)) is None:
                    unregistered.append(completed)
                elif registered[0] is None:
                    if (failure := error or _first_of(failures)) is not None:
                        _log.warning("commit_async failed, and has no callback: %s", failure)
                else:
                    try:
                        await self._on_result(registered[0](registered[1], error or _first_of(failures)))
                    except Exception:
                        raise
                    except BaseException:
                        # If the callback is cancelled or interrupted, the next call of this method repeats it, as polls
                        # do with listeners.
                        self._callbacks[commit] = registered
                        self._completed.appendleft(completed)
                        raise
        finally:
            self._completed.extend(unregistered)

    async def _current_ends(self, timeout: Seconds | None) -> dict[TopicPartition, int]:
        """Joins the group if the consumer is subscribed, and returns the end offsets of partitions that are not paused.

        Polls without taking rows, which would be lost if the lookup of the ends failed.
        """
        limit = self._open.default_timeout() if timeout is None else to_seconds(timeout) or 0.0
        deadline = _core.Deadline(limit)
        if not self._is_assigned():
            await self._poll(limit, until_assigned=True)
            if not self._is_assigned():
                raise KafkaTimeoutError(f"joining the group took longer than {limit:g} s: the log has the reason")
        return await self._end_offsets((self.assignment() - self.paused(),), deadline.left())

    async def _commit(self, what: Committable | None, timeout: Seconds | None) -> None:
        core = self._open
        failures = await self._run(core.commit(self._offsets(what), to_seconds(timeout)))
        await self._run_commit_callbacks(core)
        if (error := _first_of(failures)) is not None:
            raise error

    async def _close(self, everything: bool, timeout: Seconds | None) -> None:
        core, remaining = self._core, to_seconds(timeout)
        if core is None:
            return
        if remaining is None:
            remaining = min(core.default_timeout(), CLOSE_TIMEOUT)
        # Raises for an invalid timeout, while the consumer is still open.
        commit = core.commit_finished(everything, remaining)
        # False if the wait was interrupted. The rest of the close then runs in the background.
        wait = False
        try:
            remaining = await self._run(commit)
            wait = True
            await self._run_last_callbacks(core)
        except Exception:
            raise
        except BaseException:
            wait = False
            raise
        finally:
            self._core, self._closing = None, core
            self._finalizer.detach()
            unregister(core)
            close = core.close(remaining)
            if wait:
                await self._run(close)
                self._closing = None
            else:
                close.start()

    async def _run_last_callbacks(self, core: _core.Consumer) -> None:
        """Calls commit callbacks, and the listener for the partitions that the consumer loses by closing.

        Does not call the listener if it is already running.
        """
        await self._run_commit_callbacks(core)
        if not self._revoking and (event := core.final_rebalance()):
            await self._notify_listener(*event)


_Committed = tuple[int, str, int | None]
_Completed = tuple[int, list[tuple[tuple[str, int], KafkaError]], KafkaError | None]


def _split_assignors(options: list[tuple[str, Any]]) -> tuple[list[tuple[str, Any]], list[Assignor]]:
    """Replaces `Assignor` objects in the options by their names. Returns the options and these objects."""
    assignors: list[Assignor] = []
    pairs = []
    for name, value in options:
        if name.replace("_", ".") == "partition.assignment.strategy" and not isinstance(value, str):
            strategies = [value] if isinstance(value, Assignor) else list(value)
            assignors = [strategy for strategy in strategies if isinstance(strategy, Assignor)]
            value = ",".join(s.name if isinstance(s, Assignor) else str(s) for s in strategies)
        pairs.append((name, value))
    return pairs, assignors


def _seek_back(core: _core.Consumer, rows: pa.RecordBatch) -> None:
    """Seeks each partition that is still assigned back to the first of its rows in the batch."""
    assigned = set(core.assignment())
    positions = zip(*(rows.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True)
    first: dict[tuple[str, int], int] = {}
    for topic, partition, offset in positions:
        first.setdefault((topic, partition), offset)
    for tp, offset in first.items():
        if tp in assigned:
            core.seek(tp, offset, None)


def _first_of(failures: list[tuple[tuple[str, int], KafkaError]]) -> KafkaError | None:
    """Returns the first error, whose `partitions` contains all failures; None without failures."""
    if not failures:
        return None
    error = failures[0][1]
    error.partitions = {TopicPartition(*tp): failure for tp, failure in failures}
    return error
