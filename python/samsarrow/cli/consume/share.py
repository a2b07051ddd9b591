"""Reader of a share group, which acknowledges records once they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from samsarrow import _core
from samsarrow._share_rows import ROW_COLUMNS
from samsarrow.cli.errors import PartialFailure
from samsarrow.exceptions import GroupIdNotFoundError, KafkaError, KafkaTimeoutError, WakeupError

if TYPE_CHECKING:
    from samsarrow import ShareConsumer, TopicPartition
    from samsarrow.share import AcknowledgeType

# Maximum seconds of a poll. Signals interrupt a poll.
POLL_SECONDS = 0.5
# Seconds without a record after which a read without --follow ends. A member cannot detect the end of a share group,
# because other members may have locked the last records.
IDLE_SECONDS = 3.0


class ShareReader:
    """Reads as a member of a share group.

    Rows that are not acknowledged when the consumer closes return to the group at once.

    Args:
        consumer: consumer with explicit acknowledgement.
        accepts: whether written rows are accepted. Otherwise all rows are released at the end; until then they stay
            locked, because released rows would be delivered again.
        follow: whether to read without an end.
        limit: maximum seconds until the group assigns partitions.
        is_durable: returns true if the written rows would survive a crash of the process.
    """

    def __init__(
        self, consumer: ShareConsumer, accepts: bool, follow: bool, limit: float, is_durable: Callable[[], bool]
    ) -> None:
        self._consumer, self._accepts, self._follow, self._limit = consumer, accepts, follow, limit
        self._is_durable = is_durable
        # Positions of rows that are locked until the end, or until their file is complete.
        self._held: list[pa.RecordBatch] = []
        self._shown: set[tuple[str, int, int]] = set()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields batches, also empty ones, until no row arrives for `IDLE_SECONDS`; with `follow`, never ends.

        Raises:
            GroupIdNotFoundError: the group has another type.
            PartialFailure: records that were shown are delivered again, because their locks have ended.
            KafkaTimeoutError: the group assigned no partitions in time.
        """
        consumer = self._consumer
        join, idle, assigned = _core.Deadline(self._limit), _core.Deadline(IDLE_SECONDS), False
        while True:
            self._renew()
            try:
                batch = consumer.poll(POLL_SECONDS)
            except GroupIdNotFoundError as error:
                error.add_note("--ack is for share groups; `samsarrow groups list` shows the type of each group")
                raise
            if not self._accepts:
                self._check_unseen(batch)
            yield batch
            if batch.num_rows or not assigned:
                assigned, idle = bool(batch.num_rows or consumer.assignment()), _core.Deadline(IDLE_SECONDS)
                if not assigned and join.passed():
                    raise KafkaTimeoutError(
                        f"the share group gave this member no partitions within {self._limit:g} s: "
                        "--timeout SECONDS waits longer"
                    )
            elif not self._follow and idle.passed():
                return

    def _renew(self) -> None:
        """Renews the locks of held rows at half of their time."""
        if not self._held:
            return
        left, lock = self._consumer.locked_for(self._held), self._consumer.lock_timeout
        if left is None or lock is None or left < lock / 2:
            # A failure is in the outcome of `finish`, or the rows are delivered again.
            self._consumer.renew(self._held)

    def _check_unseen(self, batch: pa.RecordBatch) -> None:
        """Raises an error if rows were shown already. Each delivery costs one of a few."""
        rows = set(zip(*(batch.column(name).to_pylist() for name in ROW_COLUMNS), strict=True))
        if again := rows & self._shown:
            topic, partition, offset = min(again)
            raise PartialFailure(
                f"the locks of {len(again)} records that were shown have ended, the first of {topic}-{partition} with "
                f"offset {offset}: other members may have them now. -n N shows fewer records"
            )
        self._shown |= rows

    def add_written(self, rows: pa.RecordBatch) -> None:
        """Accepts written rows, or keeps their locks until they may be accepted or released."""
        if not rows.num_rows:
            return
        positions = rows.select(ROW_COLUMNS)
        if self._accepts and self._is_durable():
            self._decide("accept", [*self._held, positions])
            self._held = []
        else:
            self._held.append(positions)
            # A decision, so that the next poll is allowed.
            self._consumer.acknowledge(positions, "renew")

    def commit_written(self) -> None:
        """Accepts rows of files that are complete. The next poll sends the acknowledgements."""
        if self._held and self._accepts and self._is_durable():
            self._decide("accept", self._held)
            self._held = []

    def finish(self) -> None:
        """Acknowledges the remaining rows, and waits until the brokers have all decisions.

        Raises:
            PartialFailure: rows were written that the group may deliver again.
        """
        self._decide("accept" if self._accepts and self._is_durable() else "release", self._held)
        self._held = []
        try:
            outcomes = self._consumer.commit()
        except WakeupError:
            # A signal arrived during the wait.
            outcomes = self._consumer.commit()
        failed: dict[TopicPartition, KafkaError] = {tp: error for tp, error in outcomes.items() if error is not None}
        if failed and self._accepts:
            names = ", ".join(f"{tp.topic}-{tp.partition} ({error})" for tp, error in sorted(failed.items()))
            raise PartialFailure(f"records were written that the group may deliver again: {names}")

    def _decide(self, kind: AcknowledgeType, batches: list[pa.RecordBatch]) -> None:
        for batch in batches:
            self._consumer.acknowledge(batch, kind)
