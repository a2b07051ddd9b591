"""The driver's side of a streaming query: offsets of micro-batches and the ranges between them."""

from __future__ import annotations

import logging
from uuid import UUID

from samsarrow.exceptions import KafkaError
from samsarrow.spark.admission import Patience, share
from samsarrow.spark.bounds import PerPartition
from samsarrow.spark.brokers import Brokers
from samsarrow.spark.errors import report_loss
from samsarrow.spark.options import ReadOptions
from samsarrow.spark.ranges import OffsetRange, split
from samsarrow.types import TopicPartition

_log = logging.getLogger(__name__)

# A commit to the group must not hold up the query for longer.
COMMIT_TIMEOUT_S = 5.0


class StreamPlanner:
    """Lives in the process that Spark keeps for the query; nothing here survives a restart, nor needs to."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._brokers = Brokers(options)
        self._patience = Patience(options.min_offsets, options.max_delay_s) if options.min_offsets else None
        self._initial: PerPartition | None = None
        self._opened = False
        self._first_batch: tuple[PerPartition, PerPartition] | None = None
        self._freezing = False
        self._frozen: PerPartition | None = None
        self._committed: PerPartition | None = None
        self._topic_ids: dict[str, UUID] = {}
        self._remade: set[str] = set()
        self._planned = False
        self.reported: PerPartition | None = None

    def initial(self) -> PerPartition:
        """Where a new query starts; asked twice, and the same both times."""
        if self._initial is None:
            self._initial = self._brokers.resolve(self._options.starting, self._brokers.partitions())
        return self._initial

    def opening(self) -> bool:
        """Whether the micro-batch to be planned is the empty one that fixes a start which moves.

        Spark keeps the ends of micro-batches, not where the first one started: if that one is repeated after a restart,
        the start is asked for again. So where it can be another by then, the first micro-batch ends where it starts.
        """
        opening = not self._opened and self._initial is not None and self._options.start_moves
        self._opened = True
        return opening

    def freeze(self) -> None:
        """Trigger.AvailableNow: what is there as the first micro-batch is planned, and nothing that comes later."""
        self._freezing = True

    def latest(self, start: PerPartition, limit: int | None, everything: bool) -> PerPartition:
        """The end of the next micro-batch.

        Args:
            start: the end of the last one, which is finished.
            limit: the most offsets, or None.
            everything: whether the trigger wants all there is, whatever the options say (Trigger.Once).
        """
        self.finished(start)
        latest = self.available(start) if self._frozen is None else self._frozen
        if self._freezing:
            self._frozen = latest
        self.reported = latest
        if self.opening():
            return start
        if everything:
            return latest
        # What AvailableNow should read would be left unread by waiting.
        if self._patience is not None and self._frozen is None and self._patience.wait(start, latest):
            return start
        if limit is None:
            return latest
        known = {tp: at for tp, at in start.items() if tp.topic not in self._remade}
        return share(limit, known, latest, self._brokers.earliest([tp for tp in latest if tp not in known]))

    def everything(self) -> PerPartition:
        """The end of all partitions, not before the last one: Spark 4.0 and 4.1 do not say where a query is."""
        self.reported = self.available(self.reported or {})
        return self.reported

    def available(self, known: PerPartition) -> PerPartition:
        """The end of all partitions, which is not before what is `known`."""
        partitions = self._brokers.partitions(all_must_exist=self._options.fail_on_data_loss)
        self._compare_topic_ids()
        return self._brokers.latest(partitions, {tp: at for tp, at in known.items() if tp.topic not in self._remade})

    def _compare_topic_ids(self) -> None:
        """Notes the topics that were made again since the end of the last micro-batch was planned."""
        if self._planned:
            self._planned = False
            self._remade.clear()
        now = {name: topic_id for name, topic_id in self._brokers.topic_ids.items() if topic_id is not None}
        self._remade |= {name for name, topic_id in now.items() if self._topic_ids.get(name, topic_id) != topic_id}
        self._topic_ids |= now

    def finished(self, offsets: PerPartition) -> None:
        """Commits offsets to the group if that is asked for; a failure is written into the log and tried again.

        Everything before these offsets is in the sink. Offsets at which the query started are nobody's work.
        """
        if not self._options.commit or offsets in (self._committed, self._initial):
            return
        changed = {tp: at for tp, at in offsets.items() if (self._committed or {}).get(tp) != at}
        try:
            self._brokers.commit(changed, COMMIT_TIMEOUT_S)
        except KafkaError as error:
            _log.warning(
                "offsets of the query could not be committed to group %s; tried again with the next micro-batch: %s",
                self._options.group,
                error,
            )
        else:
            self._committed = dict(offsets)

    def ranges(self, start: PerPartition, end: PerPartition) -> list[OffsetRange]:
        """The tasks of a micro-batch. After a restart this is asked first, for a micro-batch that was not finished."""
        fail = self._options.fail_on_data_loss
        self._opened = True
        self._first_batch = self._first_batch or (start, end)
        new = [tp for tp in end if tp not in start]
        first = self._first(new)
        for tp in new:
            if tp not in first:
                report_loss(f"the new partition {_name(tp)} is gone already: its records were not read", fail)
            elif first[tp] > 0:
                report_loss(f"the new partition {_name(tp)} starts at {first[tp]}: records before were deleted", fail)
        for tp in start:
            if tp not in end:
                report_loss(f"partition {_name(tp)} is gone: what it had from offset {start[tp]} on was not read", fail)
        ranges = []
        for tp, until in end.items():
            begin = start.get(tp, first.get(tp))
            if begin is None:
                continue
            if tp in start and tp.topic in self._remade:
                report_loss(
                    f"topic {tp.topic} was deleted and made again: what {_name(tp)} had from offset {begin} on was not "
                    "read",
                    fail,
                )
                begin = self._first([tp]).get(tp, until)
            elif until < begin:
                if not self._started_later(start, end):
                    report_loss(
                        f"the end of {_name(tp)} went from offset {begin} back to {until}: the topic was deleted and "
                        "made again, or its log was truncated",
                        fail,
                    )
                # Which of the two it was cannot be known: reading from the first offset could repeat records.
                continue
            ranges.append(OffsetRange(tp.topic, tp.partition, begin, until))
        self._planned = True
        return split(ranges, self._options.min_partitions, self._options.max_records_per_partition)

    def _started_later(self, start: PerPartition, end: PerPartition) -> bool:
        """Whether this is a query's first micro-batch, repeated, and its start has moved on since it was planned."""
        return self._options.start_moves and start == self._initial and (start, end) == self._first_batch

    def _first(self, partitions: list[TopicPartition]) -> PerPartition:
        """First offsets of those partitions that are still there."""
        if not partitions:
            return {}
        there = set(self._brokers.partitions(all_must_exist=False))
        return self._brokers.earliest([tp for tp in partitions if tp in there])

    def close(self) -> None:
        """Ends all connections."""
        self._brokers.close()


def _name(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"
