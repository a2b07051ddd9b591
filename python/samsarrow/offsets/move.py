"""Moving of offsets between stores: plans the changes, applies them, and verifies them by reading back.

Each move first computes the target offset of every partition, and writes only offsets that differ. Therefore a repeated
run ends with the right offsets, even if the previous run failed halfway.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from samsarrow import _core
from samsarrow.exceptions import UnknownMemberIdError
from samsarrow.offsets.kafka import BATCH, ZooKeeperOffsetStore, batches
from samsarrow.offsets.store import Found, OffsetStore, OffsetStoreError
from samsarrow.types import OffsetAndMetadata, Seconds, TopicPartition, to_seconds

if TYPE_CHECKING:
    from samsarrow.consumer import Consumer

Progress = Callable[[int], None]
"""Called with the number of partitions written since the last call."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one partition's offset.

    Attributes:
        partition: the partition.
        before: stored offset; None if no offset is stored.
        after: offset to store.
    """

    partition: TopicPartition
    before: OffsetAndMetadata | None
    after: OffsetAndMetadata


class VerificationError(OffsetStoreError):
    """The offsets that were read back differ from the offsets that were written.

    Attributes:
        wrong: offsets that were read back, by partition, if they differ.
    """

    name = "VERIFICATION"

    def __init__(self, text: str, wrong: Found | None = None) -> None:
        super().__init__(text)
        self.wrong = wrong or {}


def _same(store: OffsetStore, current: OffsetAndMetadata | None, target: OffsetAndMetadata) -> bool:
    """Returns whether a stored offset equals the target, so that no write is needed. Ignores leader epochs."""
    if current is None or getattr(store, "offsets_only", False):
        return current is not None and current.offset == target.offset
    return (current.offset, current.metadata) == (target.offset, target.metadata)


def plan(target: OffsetStore, expected: Mapping[TopicPartition, OffsetAndMetadata]) -> list[Change]:
    """Returns the changes after which a store has the offsets in `expected`. Other partitions stay unchanged."""
    current = target.load(list(expected))
    changes = [Change(tp, current.get(tp), offset) for tp, offset in sorted(expected.items())]
    if getattr(target, "rewrites_equal", False):
        return changes
    return [change for change in changes if not _same(target, change.before, change.after)]


def apply(
    target: OffsetStore, changes: Iterable[Change], *, batch_size: int = BATCH, progress: Progress | None = None
) -> None:
    """Writes changes and reads them back.

    Args:
        target: store to write to.
        changes: changes from `plan`.
        batch_size: number of partitions that are written at a time.
        progress: called after each batch.

    Raises:
        VerificationError: offsets that were read back differ from the written offsets.
    """
    expected = {change.partition: change.after for change in changes}
    for batch in batches(expected.items(), batch_size):
        target.store(dict(batch))
        if progress is not None:
            progress(len(batch))
    verify(target, expected)


def verify(target: OffsetStore, expected: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Reads offsets back and compares them with the written offsets.

    Raises:
        VerificationError: the offset or the metadata of a partition differs.
    """
    current = target.load(list(expected))
    wrong = {tp: current.get(tp) for tp, offset in expected.items() if not _same(target, current.get(tp), offset)}
    _raise_mismatch(wrong, expected)


def _is_costly_to_list(store: OffsetStore) -> bool:
    """Returns whether loading all offsets of a store requires a request for every existing partition."""
    return isinstance(store, ZooKeeperOffsetStore)


def _verify_minimum(target: OffsetStore, expected: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    """Like `verify`, but accepts larger offsets, because consumers may have committed in the meantime."""
    current = target.load(list(expected))
    behind = {tp: offset for tp, offset in current.items() if offset is None or offset.offset < expected[tp].offset}
    _raise_mismatch(behind, expected)


def _raise_mismatch(wrong: Found, expected: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    if wrong:
        tp, read = next(iter(wrong.items()))
        content = "nothing" if read is None else f"offset {read.offset}"
        more = f", and {len(wrong) - 1} more partitions differ" if len(wrong) > 1 else ""
        name = f"{tp.topic}-{tp.partition}"
        raise VerificationError(
            f"{name} holds {content} after offset {expected[tp].offset} was written{more}: did another client commit?",
            wrong,
        )


def stored(
    source: OffsetStore, partitions: Iterable[TopicPartition] | None = None
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets in a store. Omits partitions without an offset."""
    return {tp: offset for tp, offset in source.load(partitions).items() if offset is not None}


def copy(
    source: OffsetStore,
    target: OffsetStore,
    partitions: Iterable[TopicPartition] | None = None,
    *,
    batch_size: int = BATCH,
    progress: Progress | None = None,
) -> list[Change]:
    """Copies offsets from one store to another and reads them back.

    Args:
        source: store to read from.
        target: store to write to; other partitions stay unchanged.
        partitions: partitions to copy; by default all in the source.
        batch_size: number of partitions that are written at a time.
        progress: called after each batch.

    Returns:
        The changes in the target.
    """
    changes = plan(target, stored(source, partitions))
    apply(target, changes, batch_size=batch_size, progress=progress)
    return changes


@dataclass(frozen=True, slots=True)
class To:
    """The target of a reset.

    Attributes:
        kind: to the `earliest` or `latest` offset, to an `offset`, by a `shift` from the current offset, or to the
            first record at or after a `time`.
        value: the offset, the shift, or the time in milliseconds since 1970.
    """

    kind: Literal["earliest", "latest", "offset", "shift", "time"]
    value: int = 0


def targets(
    consumer: Consumer,
    partitions: Iterable[TopicPartition],
    to: To,
    current: Mapping[TopicPartition, OffsetAndMetadata | None],
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the target offsets of a reset, limited to the beginning and the end of each partition.

    Args:
        consumer: consumer that looks up offsets at the partitions' leaders. It does not need a group.
        partitions: partitions to reset.
        to: target of the reset.
        current: stored offsets, which a shift is relative to.

    Raises:
        OffsetStoreError: the reset is a shift, and a partition has no stored offset.
    """
    selected = list(partitions)
    first, end = consumer.beginning_offsets(selected), consumer.end_offsets(selected)
    target: Mapping[TopicPartition, int]
    match to.kind:
        case "earliest":
            target = first
        case "latest":
            target = end
        case "offset":
            target = dict.fromkeys(selected, to.value)
        case "time":
            by_time = consumer.offsets_for_times(dict.fromkeys(selected, max(to.value, 0)))
            target = {tp: end[tp] if offset is None else offset.offset for tp, offset in by_time.items()}
        case "shift":
            target = {tp: _current(current, tp).offset + to.value for tp in selected}
    return {tp: OffsetAndMetadata(min(max(target[tp], first[tp]), end[tp])) for tp in selected}


def _current(current: Mapping[TopicPartition, OffsetAndMetadata | None], tp: TopicPartition) -> OffsetAndMetadata:
    offset = current.get(tp)
    if offset is None:
        name = f"{tp.topic}-{tp.partition}"
        raise OffsetStoreError(f"{name} has no offset to shift: name partitions that have one, or reset it first")
    return offset


def keep_equal(
    old: OffsetStore,
    new: OffsetStore,
    duration: Seconds,
    *,
    interval: Seconds = 1.0,
    on_round: Callable[[int, int], None] | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Keeps two stores equal for some time, while consumers migrate from one store to the other.

    Each partition gets the larger of its two offsets. A Kafka group that has members accepts only offsets from its
    members. While it has members, only the other store is updated.

    Args:
        old: store that consumers commit to before the migration.
        new: store that consumers commit to after the migration.
        duration: duration in seconds.
        interval: seconds between rounds.
        on_round: called after each round with the number of changed partitions in `old` and in `new`.

    Returns:
        The offsets of `old` that `new` did not accept at the end, because its group has members. In this case a
        consumer still commits to `old`.

    Raises:
        VerificationError: offsets that were read back at the end differ.
    """
    deadline = _core.Deadline(to_seconds(duration) or 0.0)
    known: set[TopicPartition] = set()
    rounds = 0
    while True:
        last = deadline.passed()
        # Brokers cannot list the offsets in ZooKeeper, so loading all of them requests every existing partition.
        load_all = rounds % 10 == 0 or last
        loaded: dict[int, dict[TopicPartition, OffsetAndMetadata]] = {}
        for store in sorted((old, new), key=_is_costly_to_list):
            loaded[id(store)] = stored(store, sorted(known) if _is_costly_to_list(store) and not load_all else None)
            known |= loaded[id(store)].keys()
        left, right = loaded[id(old)], loaded[id(new)]
        ahead = {tp: o for tp, o in left.items() if tp not in right or right[tp].offset < o.offset}
        behind = {tp: o for tp, o in right.items() if tp not in left or left[tp].offset < o.offset}
        rejected = False
        if ahead:
            try:
                new.store(ahead)
            except UnknownMemberIdError:
                rejected = True
        if behind:
            old.store(behind)
        if on_round is not None:
            on_round(len(behind), 0 if rejected else len(ahead))
        if last:
            _verify_minimum(old, behind)
            if not rejected:
                _verify_minimum(new, ahead)
            return ahead if rejected else {}
        rounds += 1
        time.sleep(min(to_seconds(interval) or 0.0, deadline.left()))
