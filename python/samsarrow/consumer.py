"""Reading Kafka as Arrow batches."""

from __future__ import annotations

import re
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from time import monotonic
from types import TracebackType
from typing import Any

import pyarrow as pa

from samsarrow import _core
from samsarrow.config import merge
from samsarrow.exceptions import ClosedError, ConfigurationError, KafkaError
from samsarrow.group import Assignor, ConsumerGroupMetadata, Offsets, RebalanceListener, to_offsets
from samsarrow.types import (
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Seconds,
    TopicPartition,
    to_milliseconds,
    to_pair,
    to_seconds,
)

CommitCallback = Callable[[dict[TopicPartition, OffsetAndMetadata] | None, KafkaError | None], object]

# For a consumer that nobody closed.
_LAST_SECONDS = 5.0


class Consumer:
    """Reads topics as a member of a group, or partitions assigned by hand; `poll` gives `pyarrow.RecordBatch`es.

    Columns: `key binary`, `value binary`, `topic dictionary<int32, string>`, `partition int32`, `offset int64`,
    `timestamp timestamp[ms, UTC]`, `timestamp_type int8` (0 the producer's time, 1 the broker's, null for records of
    message format v0, which have no time); with `include_headers` also `headers list<struct<key: string, value:
    binary>>`, with `include_leader_epoch` also `leader_epoch int32`. Null is null and empty is empty. With
    `layout="view"` keys and values are `binary_view`.

    No connection is made before the first call that needs one. A consumer belongs to the process that made it; its
    methods may be called from many threads, and listeners and callbacks run in the thread that polls.

    With `enable.auto.commit`, the default where there is a `group.id`, a `poll` commits what the polls before it gave:
    rows that the program has not come back from are never committed. `close` commits what the last poll gave too; a
    `with` block that ends by an exception does not.

    Args:
        config: options with dotted names, `{"bootstrap.servers": "localhost:9092", "group.id": "g"}`.
        **options: the same as keywords, `group_id="g"`. docs/options.md lists all. `partition_assignment_strategy` also
            takes a sequence of names and `Assignor`s of your own.

    Raises:
        ConfigurationError: an option is unknown, given twice or has a value that cannot be.
    """

    def __init__(self, config: Mapping[str, Any] | None = None, **options: Any) -> None:
        given, own = _split_assignors(merge(config, options))
        self._core: _core.Consumer | None = _core.Consumer(given, own)
        self._listener: RebalanceListener | None = None
        # Whether the listener is being told that partitions go: then they are told of already.
        self._giving_up = False
        self._completed: deque[_Completed] = deque()
        self._callbacks: dict[int, tuple[CommitCallback | None, dict[TopicPartition, OffsetAndMetadata] | None]] = {}
        # A consumer that is forgotten, or still open when the interpreter ends, leaves its group all the same.
        _open_cores[id(self._core)] = self._core
        self._finalizer = weakref.finalize(self, _abandon, self._core)
        self._finalizer.atexit = False

    @property
    def _open(self) -> _core.Consumer:
        if self._core is None:
            raise ClosedError("the consumer is closed")
        return self._core

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        pattern: str | re.Pattern[str] | None = None,
        listener: RebalanceListener | None = None,
    ) -> None:
        """Reads topics as a member of the group: its members share the partitions. Replaces an earlier subscription.

        Nothing happens before the next `poll`, which joins the group.

        Args:
            topics: names.
            pattern: instead of names, all topics whose whole name matches; new ones are noticed within
                `metadata.max.age.ms`. In RE2's syntax: no look-around, no back references. With
                `group.protocol=consumer` the broker matches.
            listener: told of partitions that come and go, by the thread that polls.

        Raises:
            ConfigurationError: there is no `group.id`, partitions are assigned by hand, the pattern cannot be read, or
                both or neither of topics and pattern are given.
        """
        if isinstance(topics, str):
            raise ConfigurationError(f"subscribe takes a list of topics: [{topics!r}]")
        names = list(topics)
        if bool(names) == (pattern is not None):
            raise ConfigurationError("subscribe takes topics or a pattern: one of them, and unsubscribe() for nothing")
        text = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
        self._open.subscribe(names, text)
        self._listener = listener

    def subscription(self) -> set[str] | str | None:
        """The topics that are subscribed to, or the pattern; None without a subscription."""
        names, pattern = self._open.subscription()
        return pattern if pattern is not None else set(names) or None

    def unsubscribe(self, *, timeout: Seconds | None = None) -> None:
        """Leaves the group, or drops what is assigned by hand; nothing is read any more.

        The listener is told that the partitions are revoked; with `enable.auto.commit` what is finished is committed.
        """
        try:
            self._open.commit_finished(True, to_seconds(timeout))
            self._tell_last(self._open)
        finally:
            self._open.unsubscribe()
            self._listener = None

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Reads these partitions from now on, and no others, without being a member of the group.

        Partitions that were assigned before keep their positions. Others start at the group's committed offset, without
        one where `auto.offset.reset` says.

        Args:
            partitions: all that are to be read.
        """
        self._open.assign([to_pair(tp) for tp in partitions])

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return {TopicPartition(*tp) for tp in self._open.assignment()}

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        return self._open.empty().schema

    def poll(self, timeout: Seconds = 1.0) -> pa.RecordBatch:
        """The next rows, of one partition or several.

        Args:
            timeout: seconds to wait for the first row.

        Returns:
            At most `max.poll.records` rows; none when nothing came in time. The schema is always the same. Positions
            move past the rows that are returned, and only those.

        Raises:
            ConfigurationError: nothing is subscribed to or assigned, so nothing could ever come.
            WakeupError: `wakeup` was called.
            Exception: what a listener or a callback raised, once the rebalance is done.
            OffsetOutOfRangeError: the position is gone and `auto.offset.reset` is `none`.
            CorruptRecordError: a fetched batch is damaged; seek past it to go on.
            KafkaError: anything else that keeps an assigned partition from being read, once each time it is met.
        """
        core, left = self._open, to_seconds(timeout) or 0.0
        deadline = monotonic() + left
        while not isinstance(found := core.poll(left), pa.RecordBatch):
            if found is None:
                self._complete(core)
            else:
                try:
                    self._rebalance(found.kind, found.partitions)
                finally:
                    core.acknowledge(found)
            left = max(0.0, deadline - monotonic())
        return found

    def enforce_rebalance(self, reason: str = "the program asked for it") -> None:
        """Has the group share its partitions anew, beginning with the next `poll`: an assignor may decide otherwise.

        Does nothing, with a warning, with `group.protocol=consumer`, where the coordinator decides.

        Args:
            reason: for the log of the broker (KIP-800).

        Raises:
            IllegalStateError: nothing is subscribed to.
        """
        self._open.enforce_rebalance(reason)

    def wakeup(self) -> None:
        """Makes the call that waits, or the next one that may wait, raise `WakeupError`.

        For other threads and signal handlers. `close` and `unsubscribe` do not heed it; a `commit` that is ended so may
        go through all the same.
        """
        self._open.wakeup()

    def _rebalance(self, kind: str, partitions: list[tuple[str, int]]) -> None:
        """Tells the listener of partitions that come and go."""
        if self._listener is None:
            return
        outer = self._giving_up
        self._giving_up = outer or kind != "assigned"
        try:
            getattr(self._listener, f"on_partitions_{kind}")([TopicPartition(*tp) for tp in partitions])
        finally:
            self._giving_up = outer

    def _complete(self, core: _core.Consumer) -> None:
        """Calls back for asynchronous commits that are done; after one that raises, the next call goes on."""
        self._completed.extend(core.take_completed())
        while self._completed:
            commit, failures, error = self._completed.popleft()
            callback, offsets = self._callbacks.pop(commit, (None, None))
            if callback is not None:
                callback(offsets, error or _joined(failures))

    def records(self, timeout: Seconds = 1.0) -> Iterator[ConsumerRecord]:
        """The rows of one `poll`, one by one."""
        batch = self.poll(timeout)
        columns = {field.name: batch.column(i) for i, field in enumerate(batch.schema)}
        columns["timestamp"] = columns["timestamp"].cast(pa.int64())
        names = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value")
        lists = [columns[name].to_pylist() for name in names]
        if "headers" in columns:
            headers = [[(h["key"], h["value"]) for h in row or ()] for row in columns["headers"].to_pylist()]
        else:
            headers = [[] for _ in range(batch.num_rows)]
        for row in zip(*lists, headers, strict=True):
            yield ConsumerRecord(*row)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Batches as they come, never an empty one, for ever or until the consumer is closed."""
        while self._core is not None:
            try:
                batch = self.poll(1.0)
            except ClosedError:
                return
            if batch.num_rows:
                yield batch

    def reader(self) -> pa.RecordBatchReader:
        """What is there now, as a reader that ends: every assigned partition up to its end at this moment.

        Reading moves the positions, as `poll` does. Polars, DuckDB and others take it as it is.
        """
        ends = self.end_offsets(self.assignment())
        return pa.RecordBatchReader.from_batches(self.schema, self._until(ends))

    def _until(self, ends: Mapping[TopicPartition, int]) -> Iterator[pa.RecordBatch]:
        """Polls until all `ends` are reached; rows beyond them are left for the next `poll`."""
        open_ends = {tp: end for tp, end in ends.items() if self.position(tp) < end}
        paused = self.assignment() - set(open_ends)
        self.pause(*paused)
        try:
            while open_ends:
                batch = self.poll(1.0)
                kept = batch
                for tp, end in list(open_ends.items()):
                    if self.position(tp) >= end:
                        del open_ends[tp]
                        self.pause(tp)
                        paused.add(tp)
                        if self.position(tp) > end:
                            kept = _before(kept, tp, end)
                            self.seek(tp, end)
                if kept.num_rows:
                    yield kept
        finally:
            if self._core is not None:
                self.resume(*paused)

    def commit(self, what: Offsets | pa.RecordBatch | None = None, *, timeout: Seconds | None = None) -> None:
        """Commits offsets to the group, and waits until that is done.

        Args:
            what: None for the positions of all assigned partitions; a batch for the offsets after its last rows; or
                offsets by partition, each the next one to read.
            timeout: seconds, by default `default.api.timeout.ms`.

        Raises:
            ConfigurationError: there is no `group.id`.
            OffsetMetadataTooLargeError: the metadata is longer than the broker allows.
            KafkaTimeoutError: it could not be done in time; the text has the last error.
        """
        core = self._open
        failures = core.commit(self._offsets(what), to_seconds(timeout))
        self._complete(core)
        if (error := _joined(failures)) is not None:
            raise error

    def commit_async(
        self, what: Offsets | pa.RecordBatch | None = None, callback: CommitCallback | None = None
    ) -> None:
        """Commits offsets in the background.

        Commits of one consumer are made one after the other, in the order of the calls, synchronous ones included: a
        late answer never undoes a newer commit. Those that wait for one under way go out together, the newest offset of
        each partition for all of them, and they are through before partitions go to others. What fails for now is tried
        again until `default.api.timeout.ms`.

        Args:
            what: as `commit` takes it. The offsets are those of this moment.
            callback: called with the offsets (None where `what` was None) and the error or None by the next `poll`,
                `commit`, `unsubscribe` or `close` after the answer came, in the order of the calls. An error that
                concerns some partitions only names them in its `partitions`.

        Raises:
            ConfigurationError: there is no `group.id`.
            RebalanceInProgressError: the group is rebalancing.
            UnknownMemberIdError: the consumer is no member of the group at the moment.
        """
        offsets = self._offsets(what)
        named = None if offsets is None else {TopicPartition(*tp): OffsetAndMetadata(*o) for tp, o in offsets}
        # The answer can be there before the number is: only this thread or one that polls takes answers out.
        self._callbacks[self._open.commit_async(offsets)] = (callback, named)

    def store_offsets(self, what: Offsets | pa.RecordBatch) -> None:
        """Says what is finished, with `enable.auto.offset.store=false`: automatic commits and `commit()` take it.

        Args:
            what: a batch, for the offsets after its last rows, or offsets by partition, each the next one to read.

        Raises:
            ConfigurationError: a partition is not assigned, so that it may be somebody else's; or offsets are stored by
                `poll` itself.
        """
        self._open.store_offsets(self._offsets(what) or [])

    def _offsets(self, what: Offsets | pa.RecordBatch | None) -> list[tuple[tuple[str, int], _Committed]] | None:
        return None if what is None else to_offsets(what)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """Who this consumer is in its group at this moment, for those that commit in its name.

        Raises:
            ConfigurationError: there is no `group.id`.
        """
        return ConsumerGroupMetadata(*self._open.group_metadata())

    def committed(
        self,
        partitions: Iterable[TopicPartition],
        *,
        require_stable: bool | None = None,
        timeout: Seconds | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed.

        Args:
            partitions: to ask for, in one request.
            require_stable: whether to wait for open transactions that commit offsets (KIP-447); by default with
                `isolation.level=read_committed`.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            For each partition its offset, None where nothing was committed.
        """
        found = self._open.committed([to_pair(tp) for tp in partitions], require_stable, to_seconds(timeout))
        return {TopicPartition(*tp): None if o is None else OffsetAndMetadata(*o) for tp, o in found}

    def position(self, partition: TopicPartition, *, timeout: Seconds | None = None) -> int:
        """The offset of the next row that `poll` will give of an assigned partition."""
        return self._open.position(to_pair(partition), to_seconds(timeout))

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition that is still there."""
        found = self._open.beginning_offsets([to_pair(tp) for tp in partitions], to_seconds(timeout))
        return {TopicPartition(*tp): offset for tp, offset in found}

    def end_offsets(
        self, partitions: Iterable[TopicPartition], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, int]:
        """The end of each partition: its high watermark, with `read_committed` its last stable offset."""
        found = self._open.end_offsets([to_pair(tp) for tp in partitions], to_seconds(timeout))
        return {TopicPartition(*tp): offset for tp, offset in found}

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime], *, timeout: Seconds | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after a time.

        Args:
            times: milliseconds since 1970 or a `datetime`, by partition.
            timeout: seconds, by default `default.api.timeout.ms`.

        Returns:
            None for a partition without such a record.
        """
        wanted = [(to_pair(tp), to_milliseconds(time)) for tp, time in times.items()]
        found = self._open.offsets_for_times(wanted, to_seconds(timeout))
        return {TopicPartition(*tp): None if o is None else OffsetAndTimestamp(*o) for tp, o in found}

    def lag(self, *, timeout: Seconds | None = None) -> dict[TopicPartition, int]:
        """How many offsets lie between position and end, of every assigned partition.

        Brokers tell the ends with the records: no request is made for partitions that were heard of within a second.
        """
        return {TopicPartition(*tp): lag for tp, lag in self._open.lag(to_seconds(timeout))}

    def partitions_for(self, topic: str, *, timeout: Seconds | None = None) -> list[TopicPartition]:
        """The partitions of a topic, in order.

        Raises:
            UnknownTopicOrPartitionError: the topic does not exist.
        """
        return [TopicPartition(*tp) for tp in self._open.partitions_for(topic, to_seconds(timeout))]

    def seek(self, partition: TopicPartition, offset: int | OffsetAndMetadata) -> None:
        """Goes on at `offset`; what was prefetched of the partition is dropped.

        Args:
            partition: an assigned one.
            offset: a number, or what `committed` gave or a store of your own kept: with the leader epoch in it the
                broker can say whether the record before it was lost since, and reading goes on where the log parted.
        """
        if isinstance(offset, OffsetAndMetadata):
            self._open.seek(to_pair(partition), offset.offset, offset.leader_epoch)
        else:
            self._open.seek(to_pair(partition), offset, None)

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Goes on at the first offset of these partitions, of all that are assigned if none is named."""
        self._seek_to("beginning", partitions)

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Goes on at the end of these partitions, of all that are assigned if none is named."""
        self._seek_to("end", partitions)

    def seek_to_committed(self, *partitions: TopicPartition) -> None:
        """Goes on at the group's committed offsets; without one, where `auto.offset.reset` says."""
        self._seek_to("committed", partitions)

    def seek_to_timestamp(self, when: int | datetime, *partitions: TopicPartition) -> None:
        """Goes on at the first record at or after a time; at the end where there is none.

        Args:
            when: milliseconds since 1970, or a `datetime`.
            *partitions: all that are assigned if none is named.
        """
        self._seek_to(to_milliseconds(when), partitions)

    def _seek_to(self, target: str | int, partitions: Sequence[TopicPartition]) -> None:
        self._open.seek_to([to_pair(tp) for tp in partitions], target, None)

    def pause(self, *partitions: TopicPartition) -> None:
        """Gives no rows of these partitions until `resume`; their positions stay.

        Rows that were prefetched are kept for then, as far as they take no more than half of `queued.max.bytes`.
        """
        self._open.pause([to_pair(tp) for tp in partitions])

    def resume(self, *partitions: TopicPartition) -> None:
        """Undoes `pause`."""
        self._open.resume([to_pair(tp) for tp in partitions])

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return {TopicPartition(*tp) for tp in self._open.paused()}

    def close(self, timeout: Seconds | None = None) -> None:
        """Commits what is finished (with `enable.auto.commit`), leaves the group and ends all connections.

        The listener is told that the partitions are revoked. Calls that wait in other threads raise `ClosedError`. May
        be called again, and by signal handlers and listeners: called within `on_partitions_revoked` or
        `on_partitions_lost` it closes at once and tells the listener nothing more; a `poll` that had called the
        listener then raises `ClosedError`.

        Whatever a signal handler raises, Ctrl-C too, ends the wait within 200 ms; what is left to do goes on in the
        background until the timeout.

        Args:
            timeout: seconds that it may take, by default `default.api.timeout.ms`; what a listener takes is its own.
        """
        self._close(True, timeout)

    def _close(self, everything: bool, timeout: Seconds | None) -> None:
        core, left = self._core, to_seconds(timeout)
        if core is None:
            return
        # Not waited for after an interruption: whoever interrupts does not want to wait.
        wait = False
        try:
            left = core.commit_finished(everything, left)
            wait = True
            self._tell_last(core)
        except Exception:
            raise
        except BaseException:
            wait = False
            raise
        finally:
            self._core = None
            self._finalizer.detach()
            _open_cores.pop(id(core), None)
            core.close(left, wait)

    def _tell_last(self, core: _core.Consumer) -> None:
        """Calls back for commits, and tells the listener that the partitions go, unless it is being told."""
        self._complete(core)
        if not self._giving_up and (event := core.to_give_up()):
            self._rebalance(*event)

    def __enter__(self) -> Consumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # After an exception the program may not be done with what the last poll gave.
        self._close(kind is None, None)


_Committed = tuple[int, str, int | None]
_Completed = tuple[int, list[tuple[tuple[str, int], KafkaError]], KafkaError | None]


_open_cores: dict[int, _core.Consumer] = {}


def _abandon(core: _core.Consumer, seconds: float = _LAST_SECONDS) -> None:
    _open_cores.pop(id(core), None)
    # After a fork it is the parent's.
    with suppress(KafkaError):
        core.close(seconds, True)


def leave_groups() -> None:
    """What the core calls as the interpreter ends, when no other thread uses a client any more."""
    deadline = monotonic() + _LAST_SECONDS
    for core in list(_open_cores.values()):
        _abandon(core, max(0.1, deadline - monotonic()))


def _split_assignors(options: list[tuple[str, Any]]) -> tuple[list[tuple[str, Any]], list[Assignor]]:
    """Assignors that are objects go to the core as such, and their names into the option."""
    own: list[Assignor] = []
    given = []
    for name, value in options:
        if name.replace("_", ".") == "partition.assignment.strategy" and not isinstance(value, str):
            chosen = [value] if isinstance(value, Assignor) else list(value)
            own = [assignor for assignor in chosen if isinstance(assignor, Assignor)]
            value = ",".join(a.name if isinstance(a, Assignor) else str(a) for a in chosen)
        given.append((name, value))
    return given, own


def _joined(failures: list[tuple[tuple[str, int], KafkaError]]) -> KafkaError | None:
    """One error for all partitions that failed: the first, which knows the others."""
    if not failures:
        return None
    error = failures[0][1]
    error.partitions = {TopicPartition(*tp): failure for tp, failure in failures}
    return error


def _before(batch: pa.RecordBatch, tp: TopicPartition, end: int) -> pa.RecordBatch:
    """The rows without those of `tp` from offset `end` on."""
    topics = batch.column("topic").to_pylist()
    partitions, offsets = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
    rows = zip(topics, partitions, offsets, strict=True)
    wanted = [i for i, (topic, partition, offset) in enumerate(rows) if (topic, partition) != tp or offset < end]
    # Rows of a partition lie together, so that slices serve both layouts; views have no `take`.
    return _slices(batch, wanted)


def _slices(batch: pa.RecordBatch, rows: list[int]) -> pa.RecordBatch:
    """The rows of these numbers, which rise, as one batch."""
    runs: list[list[int]] = []
    for row in rows:
        if runs and runs[-1][1] == row:
            runs[-1][1] = row + 1
        else:
            runs.append([row, row + 1])
    return pa.concat_batches([batch.slice(start, end - start) for start, end in runs] or [batch.slice(0, 0)])
