"""What the driver asks the brokers, and tells them."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from samsarrow.admin import Admin
from samsarrow.config import options_of
from samsarrow.consumer import Consumer
from samsarrow.exceptions import ConfigurationError, KafkaError, UnknownTopicOrPartitionError
from samsarrow.spark.bounds import EARLIEST, LATEST, Bound, PerPartition
from samsarrow.spark.options import ReadOptions
from samsarrow.types import TopicListing, TopicPartition

_log = logging.getLogger(__name__)

_T = TypeVar("_T")


class Brokers:
    """One client for the questions of a driver process; connects at the first of them.

    Args:
        options: of the read; what they say of retries holds for every question.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        kafka = {name: value for name, value in options.kafka.items() if name != "group.id"}
        self._consumer = Consumer(kafka)
        self._admin = Admin({name: value for name, value in kafka.items() if _for_admin(name)})
        # Of the topics that `partitions` found the last time.
        self.topic_ids: dict[str, UUID | None] = {}

    def close(self) -> None:
        """Ends all connections."""
        self._consumer.close()
        self._admin.close()

    def __enter__(self) -> Brokers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def partitions(self, *, all_must_exist: bool = True) -> list[TopicPartition]:
        """The partitions to be read, as they are at this moment.

        Args:
            all_must_exist: whether topics and partitions that are named must be there; else they are left out.

        Raises:
            UnknownTopicOrPartitionError: one is not there.
        """
        options = self._options
        if options.pattern is not None:
            pattern = re.compile(options.pattern)
            listed = self._ask(self._admin.list_topics).values()
            counts = self._found(t for t in listed if not t.internal and pattern.search(t.name))
            return [TopicPartition(t, p) for t in sorted(counts) for p in range(counts[t])]
        if options.topics is not None:
            counts = self._counts(options.topics)
            self._missing("subscribe", [t for t in options.topics if t not in counts], all_must_exist)
            return [TopicPartition(t, p) for t in options.topics for p in range(counts.get(t, 0))]
        assigned = options.assigned or {}
        counts = self._counts(assigned)
        wanted = [TopicPartition(t, p) for t, ps in assigned.items() for p in ps]
        there = [tp for tp in wanted if tp.partition < counts.get(tp.topic, 0)]
        self._missing("assign", [f"{t}-{p}" for t, p in wanted if p >= counts.get(t, 0)], all_must_exist)
        return there

    def _counts(self, topics: Iterable[str]) -> dict[str, int]:
        return self._found(self._ask(lambda: self._admin.list_topics(topics)).values())

    def _found(self, topics: Iterable[TopicListing]) -> dict[str, int]:
        found = {topic.name: topic for topic in topics}
        self.topic_ids = {name: topic.topic_id for name, topic in found.items()}
        return {name: topic.partitions for name, topic in found.items()}

    def _missing(self, option: str, names: Collection[str], raising: bool) -> None:
        if names and raising:
            raise UnknownTopicOrPartitionError(f"option {option} names what does not exist: {', '.join(names)}")

    def resolve(self, bound: Bound, partitions: Collection[TopicPartition]) -> PerPartition:
        """The offset of `bound` in every partition.

        Raises:
            ConfigurationError: given offsets do not cover exactly these partitions, or there is no record at or after
                a starting time.
        """
        if bound.group:
            return self._committed(partitions)
        if bound.time is not None or bound.times is not None:
            times = bound.times if bound.times is not None else dict.fromkeys(partitions, bound.time or 0)
            _same(bound.option, times, partitions)
            return self._at(bound, times)
        given = dict.fromkeys(partitions, bound.everywhere or LATEST) if bound.offsets is None else bound.offsets
        _same(bound.option, given, partitions)
        result = dict(given)
        result.update(self.earliest([tp for tp, offset in given.items() if offset == EARLIEST]))
        result.update(self.latest([tp for tp, offset in given.items() if offset == LATEST]))
        return result

    def _at(self, bound: Bound, times: PerPartition) -> PerPartition:
        found = self._ask(lambda: self._consumer.offsets_for_times(times))
        result = {tp: at.offset for tp, at in found.items() if at is not None}
        missing = [tp for tp in times if tp not in result]
        # Nothing at or after the time: a batch ends at the end then; whether it may start there must be said.
        if missing and bound.option.startswith("starting") and not self._options.no_match_is_latest:
            where = ", ".join(f"{tp.topic}-{tp.partition} ({times[tp]} ms)" for tp in sorted(missing))
            raise ConfigurationError(
                f"option {bound.option}: there is no record at or after the time in {where}; "
                "startingOffsetsByTimestampStrategy=latest starts at the end there"
            )
        result.update(self.latest(missing))
        return result

    def earliest(self, partitions: Collection[TopicPartition]) -> PerPartition:
        """The first offset of each partition that is still there."""
        return self._ask(lambda: self._consumer.beginning_offsets(partitions)) if partitions else {}

    def latest(
        self, partitions: Collection[TopicPartition], known: Mapping[TopicPartition, int] | None = None
    ) -> PerPartition:
        """The end of each partition.

        Args:
            partitions: to ask for.
            known: offsets that were read already. A broker that has just become leader may tell an older end (KIP-207):
                such an answer is asked for again.
        """
        if not partitions:
            return {}
        found = self._ask(lambda: self._consumer.end_offsets(partitions))
        for _ in range(self._options.retries):
            behind = [tp for tp, end in found.items() if end < (known or {}).get(tp, 0)]
            if not behind:
                break
            time.sleep(self._options.retry_interval_s)
            found.update(self._ask(lambda behind=behind: self._consumer.end_offsets(behind)))  # type: ignore[misc]
        return found

    def _committed(self, partitions: Collection[TopicPartition]) -> PerPartition:
        """The group's offsets; partitions without one start at their first record."""
        group = self._options.group or ""
        found = self._ask(lambda: self._admin.fetch_offsets(group, partitions))
        result = {tp: at.offset for tp, at in found.items() if at is not None}
        result.update(self.earliest([tp for tp in partitions if tp not in result]))
        return result

    def commit(self, offsets: PerPartition, timeout: float) -> None:
        """Commits offsets to the group, from outside of it.

        Raises:
            KafkaError: it did not work, for one partition at least.
        """
        done = self._admin.commit_offsets(self._options.group or "", offsets, timeout=timeout)
        failures = [(tp, error) for tp, error in done.items() if error is not None]
        if failures:
            (tp, error), *_ = failures
            raise KafkaError(
                f"{len(failures)} of {len(offsets)} offsets, the first of {tp.topic}-{tp.partition}: {error}"
            )

    def _ask(self, question: Callable[[], _T]) -> _T:
        for left in range(self._options.retries, 0, -1):
            try:
                return question()
            except KafkaError as error:
                if not error.retriable:
                    raise
                _log.warning("asking the brokers failed, %d tries left: %s", left, error)
                time.sleep(self._options.retry_interval_s)
        return question()


def _same(option: str, given: Collection[TopicPartition], partitions: Collection[TopicPartition]) -> None:
    if set(given) != set(partitions):
        specified, assigned = (
            ", ".join(f"{tp.topic}-{tp.partition}" for tp in sorted(tps)) for tps in (given, partitions)
        )
        hint = "an offset" if "Timestamp" not in option else "a time"
        raise ConfigurationError(
            f"option {option} must give {hint} for every partition that is read (-1 for latest, -2 for earliest): "
            f"given for {specified or 'none'}, read are {assigned or 'none'}"
        )


def _for_admin(name: str) -> bool:
    return name in options_of("admin") or name.startswith("api.version.")
