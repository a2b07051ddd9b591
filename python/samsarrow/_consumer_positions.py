"""Bodies of the calls of both consumers about partitions: offsets, lookups, seeks and assignments of topics."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from datetime import datetime
from typing import Any

from samsarrow import _core
from samsarrow._sync import Runner, base_of_clients
from samsarrow.exceptions import BadValueError, ConfigurationError
from samsarrow.types import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    Partitions,
    Seconds,
    TopicPartition,
    check_topic,
    to_committed,
    to_milliseconds,
    to_pair,
    to_pairs,
    to_seconds,
)


@base_of_clients
class PositionCalls(Runner):
    """Calls about partitions, each a coroutine that uses `_run`."""

    # Decode error of the next row. Every poll raises it until the application seeks.
    _decode_error: BadValueError | None = None
    # Number of calls that may have moved positions: polls, seeks and assignments.
    _moves = 0

    @property
    def _open(self) -> _core.Consumer:
        raise NotImplementedError

    def _check_assigned(self, what: str) -> None:
        raise NotImplementedError

    def _pairs_or_assigned(self, partitions: tuple[Partitions, ...], call: str) -> list[tuple[str, int]]:
        """Returns partitions for the Rust client, all assigned partitions if none are passed."""
        if partitions:
            return to_pairs(partitions)
        self._check_assigned(call)
        return self._open.assignment()

    async def _committed(
        self, partitions: tuple[Partitions, ...], require_stable: bool | None, timeout: Seconds | None
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        pairs = self._pairs_or_assigned(partitions, "committed() without partitions")
        rows = await self._run(self._open.committed(pairs, require_stable, to_seconds(timeout)))
        return {TopicPartition(*tp): None if o is None else OffsetAndMetadata(*o) for tp, o in rows}

    def _position(self, partition: TopicPartition, timeout: Seconds | None) -> Coroutine[Any, Any, int]:
        return self._run(self._open.position(to_pair(partition), to_seconds(timeout)))

    async def _beginning_offsets(
        self, partitions: tuple[Partitions, ...], timeout: Seconds | None
    ) -> dict[TopicPartition, int]:
        pairs = self._pairs_or_assigned(partitions, "beginning_offsets() without partitions")
        rows = await self._run(self._open.beginning_offsets(pairs, to_seconds(timeout)))
        return {TopicPartition(*tp): offset for tp, offset in rows}

    async def _end_offsets(
        self, partitions: tuple[Partitions, ...], timeout: Seconds | None
    ) -> dict[TopicPartition, int]:
        pairs = self._pairs_or_assigned(partitions, "end_offsets() without partitions")
        rows = await self._run(self._open.end_offsets(pairs, to_seconds(timeout)))
        return {TopicPartition(*tp): offset for tp, offset in rows}

    async def _offsets_for_times(
        self, times: Mapping[TopicPartition, int | datetime], timeout: Seconds | None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        pairs = [(to_pair(tp), to_milliseconds(time)) for tp, time in times.items()]
        rows = await self._run(self._open.offsets_for_times(pairs, to_seconds(timeout)))
        return {TopicPartition(*tp): None if o is None else OffsetAndTimestamp(*o) for tp, o in rows}

    async def _lag(self, timeout: Seconds | None) -> dict[TopicPartition, int]:
        self._check_assigned("lag()")
        return {TopicPartition(*tp): lag for tp, lag in await self._run(self._open.lag(to_seconds(timeout)))}

    async def _partitions_for(self, topic: str, timeout: Seconds | None) -> list[TopicPartition]:
        check_topic(topic)
        return [TopicPartition(*tp) for tp in await self._run(self._open.partitions_for(topic, to_seconds(timeout)))]

    def assign(self, *partitions: Partitions | Mapping[TopicPartition, int | OffsetAndMetadata | None]) -> None:
        """Assigns exactly these partitions to the consumer, which does not join the group.

        Partitions that were assigned before keep their positions. Other partitions start at the group's committed
        offset, or follow `auto.offset.reset` if the group has none. A mapping sets the first offset to read, as `seek`
        does: `consumer.assign({TopicPartition("orders", 0): 5})`.

        Args:
            *partitions: all partitions to read, one by one or as an iterable; `assign([])` removes all.
                `assign_topics` assigns all partitions of topics. In a mapping each partition has its offset, a number
                or an `OffsetAndMetadata`, or None for the rule above; so the results of `committed` and
                `beginning_offsets` are such mappings.

        Raises:
            ConfigurationError: an offset or the number of a partition is out of range.
        """
        if not partitions:
            raise TypeError("assign takes partitions: assign([]) removes all, assign_topics(…) assigns whole topics")
        pairs = to_pairs(partitions)
        starts = [
            (to_pair(partition), to_committed(offset))
            for argument in partitions
            if isinstance(argument, Mapping)
            for partition, offset in argument.items()
            if offset is not None
        ]
        for (topic, number), (position, _, _) in starts:
            if position < 0:
                raise ConfigurationError(f"cannot assign {topic}-{number} at offset {position}: offsets start at 0")
        self._moves += 1
        self._open.assign(pairs)
        if starts:
            self._decode_error = None
        for pair, (position, _, epoch) in starts:
            self._open.seek(pair, position, epoch)

    async def _assign_topics(self, topics: tuple[str | Iterable[str], ...], timeout: Seconds | None) -> None:
        names = to_topics(topics)
        limit = self._open.default_timeout() if timeout is None else to_seconds(timeout) or 0.0
        deadline = _core.Deadline(limit)
        partitions: list[TopicPartition] = []
        for name in names:
            partitions += await self._partitions_for(name, deadline.left())
        self.assign(partitions)

    async def _seek_to(
        self,
        seek: Callable[[list[tuple[str, int]], float | None], _core.Call[None]],
        partitions: tuple[Partitions, ...],
        timeout: Seconds | None,
    ) -> None:
        pairs = self._pairs_or_assigned(partitions, "seeking without naming partitions")
        # Without partitions, the Rust client seeks all.
        if not pairs:
            return
        self._decode_error = None
        self._moves += 1
        await self._run(seek(pairs, to_seconds(timeout)))

    async def _seek_to_timestamp(
        self, when: int | datetime, partitions: tuple[Partitions, ...], timeout: Seconds | None
    ) -> None:
        timestamp = to_milliseconds(when)
        await self._seek_to(lambda to, limit: self._open.seek_to_timestamp(to, timestamp, limit), partitions, timeout)


def to_topics(arguments: tuple[str | Iterable[str], ...]) -> list[str]:
    """Returns topic names, which may be passed alone or in iterables, without repetitions."""
    names: dict[str, None] = {}
    for argument in arguments:
        # Bytes and named tuples, such as a TopicPartition, are iterable too.
        if not isinstance(argument, Iterable) or isinstance(argument, bytes) or hasattr(argument, "_fields"):
            raise TypeError(f"assign_topics takes names of topics, not {type(argument).__name__}")
        names.update(dict.fromkeys([argument] if isinstance(argument, str) else argument))
    if invalid := [name for name in names if not isinstance(name, str)]:
        raise TypeError(f"assign_topics takes names of topics, not {invalid[0]!r}")
    if not names:
        raise TypeError('assign_topics takes names of topics: assign_topics("orders")')
    return list(names)
