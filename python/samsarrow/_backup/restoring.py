"""Restoring of backups."""

from __future__ import annotations

import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc

from samsarrow import _core, ranges
from samsarrow._backup.comparing import Comparison, row_number
from samsarrow._backup.errors import BackupError, RestoreIncompleteError
from samsarrow._backup.expiry import expiry_warnings
from samsarrow._backup.files import check_bytes, check_layout, read_batches
from samsarrow._backup.groups import GroupOffsets
from samsarrow._backup.manifest import Manifest, PartitionBackup, TopicBackup
from samsarrow._backup.options import ClientOptions
from samsarrow._backup.results import Advance, Bar
from samsarrow._backup.settings import TopicSettings, final_settings, is_loading
from samsarrow._range_reader import name_of
from samsarrow.admin import Admin
from samsarrow.admin_types import OffsetSpec
from samsarrow.exceptions import KafkaError, KafkaTimeoutError
from samsarrow.producer import Producer
from samsarrow.types import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from samsarrow._core import BatchDelivery

_log = logging.getLogger("samsarrow.backup")

State = Literal["new", "unfinished", "empty", "present"]
# Maximum bytes of records that are sent and not acknowledged.
_PENDING_BYTES = 32 << 20
# Maximum size of batches, if the topic allows it. The limit of a topic includes the header of a batch.
_BATCH_SIZE, _BATCH_HEADER = 1_000_000, 1_000
# Seconds that a broker may need to handle the last requests of a killed restore. A request that is handled later is
# found by the offsets of the next records.
_SETTLE_SECONDS = 1.0
# Seconds that a new leader may need until consumers can read all acknowledged records.
_CATCH_UP_SECONDS = 30.0


@dataclass
class Target:
    """A topic to restore.

    Attributes:
        backup: the topic in the backup.
        name: name in the cluster.
        final: settings at the end.
        state: `new`: it does not exist; `unfinished`: an interrupted restore wrote to it; `empty`: it has no records;
            `present`: all its records and settings are those of the backup.
        written: number of records that this run has written.
        offsets: by partition, the offsets of groups in the topic by their offsets in the backup.
        warnings: settings with which retention will delete restored records.
    """

    backup: TopicBackup
    name: str
    final: dict[str, str]
    state: State = "new"
    written: int = 0
    offsets: dict[int, dict[int, int]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


class RestoreRun:
    """One run of `restore`, with its checked arguments."""

    def __init__(
        self,
        folder: Path,
        manifest: Manifest,
        options: ClientOptions,
        names: Mapping[str, str],
        configs: Mapping[str, str],
        unset: Sequence[str],
        replication_factor: int | None,
        groups: Sequence[str],
        timeout: float | None,
        bar: Bar,
        dry_run: bool,
    ) -> None:
        self._folder, self._options, self._timeout, self._bar = folder, options, timeout, bar
        self._replication_factor, self._dry_run = replication_factor, dry_run
        self.targets = [
            Target(manifest.topics[old], new, final_settings(manifest.topics[old].configs, configs, unset))
            for old, new in names.items()
        ]
        self._groups = GroupOffsets({name: manifest.groups[name] for name in groups}, names)
        self.offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]] = {}

    def run(self) -> None:
        """Restores all topics, and the offsets of groups.

        Raises:
            BackupError: a file is missing or changed, or a topic has other records.
            RestoreIncompleteError: the restore failed after it had begun to write.
            KafkaError: a request failed before any record was written.
        """
        self._check_files()
        with Admin(self._options.admin()) as admin:
            settings = TopicSettings(admin, self._timeout)
            for target in self.targets:
                target.state = self._state(admin, settings, target)
            self._groups.check_idle(admin, self._timeout)
            for target in self.targets:
                if target.state == "new":
                    self._create(settings, target, validate_only=True)
                if target.state != "present":
                    topic = None if self._dry_run else target.name
                    retention = settings.retention(target.final)
                    target.warnings = expiry_warnings(self._folder, target.backup, retention, topic)
                    for warning in target.warnings:
                        _log.warning("%s: %s", target.name, warning)
            if self._dry_run:
                return
            try:
                for target in self.targets:
                    if target.state != "present":
                        self._topic(admin, settings, target)
                restored = {t.backup.name: t for t in self.targets if t.state != "present"}
                self.offsets = self._groups.commit(
                    admin, lambda old: self._translated(old) if old.topic in restored else None
                )
                settings.finish({t.name: t.final for t in restored.values()})
            except Exception as error:
                text = (
                    error.strerror or error
                    if isinstance(error, OSError) and not isinstance(error, KafkaError)
                    else error
                )
                written = {target.name: target.written for target in self.targets}
                # Errors of backups are raised here for records in the topic that are not those of the backup.
                differs = isinstance(error, BackupError)
                incomplete = RestoreIncompleteError(f"{text}; {self._report(differs)}", written)
                incomplete.retriable = not differs
                for note in getattr(error, "__notes__", ()):
                    incomplete.add_note(note)
                raise incomplete from error
            except KeyboardInterrupt as interrupted:
                interrupted.add_note(self._report(False))
                raise

    def _report(self, differs: bool) -> str:
        """Returns the number of records that this run has written, and the remedy, for errors.

        Args:
            differs: whether a topic has other records than the backup, so that it cannot be continued.
        """
        written = ", ".join(f"{t.written:,} to {t.name}" for t in self.targets)
        if differs:
            remedy = "Stop other clients that write to this topic, delete it, and run the restore again"
        else:
            remedy = "Run it again to continue, or delete the topics, which keep all records until then"
        return f"the restore is not complete: this run has written {written}. {remedy}"

    def _check_files(self) -> None:
        """Compares all files with the manifest before anything is written."""
        files = [file for target in self.targets for file in target.backup.files]
        size = sum(file.size for file in files)
        with self._bar("checking files", size, "B") as advance:
            for file in files:
                check_bytes(self._folder, file, advance)
        for topic in (target.backup for target in self.targets):
            for partition in topic.partitions:
                for file in partition.files:
                    check_layout(self._folder, file, topic.name, partition.partition)

    def _state(self, admin: Admin, settings: TopicSettings, target: Target) -> State:
        listing = admin.list_topics([target.name], timeout=self._timeout).get(target.name)
        if listing is None:
            return "new"
        count = len(target.backup.partitions)
        # Deleting loses records, so it is named last.
        remedy = f"restore to another name with --topic-map {target.backup.name}=NAME (topic_map), or delete the topic"
        if listing.partitions != count:
            raise BackupError(
                f"topic {target.name} exists with {listing.partitions} partitions, and the backup of "
                f"{target.backup.name} has {count}: {remedy}"
            )
        own, _ = settings.of(target.name)
        if is_loading(own):
            return "unfinished"
        first, end = (self._offsets(admin, target, spec) for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST))
        filled = [tp for tp in first if first[tp] < end[tp]]
        changed = sorted(name for name in own.keys() | target.final if own.get(name) != target.final.get(name))
        if not changed and bool(filled) == bool(target.backup.rows) and self._is_equal(target):
            return "present"
        if not filled:
            return "empty"
        if changed and self._is_equal(target):
            raise BackupError(
                f"topic {target.name} has the records of the backup already, and other settings than the restore "
                f"would set ({', '.join(changed)}): set these with `samsarrow configs set topic:{target.name}`, or "
                f"{remedy}"
            )
        raise BackupError(
            f"topic {target.name} exists with other records than the backup: {name_of(filled[0])} has offsets "
            f"{first[filled[0]]} to {end[filled[0]] - 1}; {remedy}"
        )

    def _offsets(self, admin: Admin, target: Target, spec: OffsetSpec) -> dict[TopicPartition, int]:
        """Returns an offset of each partition of a topic."""
        tps = [TopicPartition(target.name, partition.partition) for partition in target.backup.partitions]
        found = admin.list_offsets(dict.fromkeys(tps, spec), timeout=self._timeout)
        return {tp: 0 if (at := found[tp]) is None else at.offset for tp in tps}

    def _is_equal(self, target: Target) -> bool:
        """Returns whether a topic has exactly the records of the backup. Stops at the first file that differs."""
        try:
            for partition in target.backup.partitions:
                comparison = Comparison(
                    self._folder, partition, name_of(TopicPartition(target.name, partition.partition))
                )
                self._compare(comparison, TopicPartition(target.name, partition.partition), "earliest", None)
                comparison.finish()
        except BackupError:
            return False
        return True

    def _create(self, settings: TopicSettings, target: Target, *, validate_only: bool) -> None:
        count = len(target.backup.partitions)
        replicas = self._replication_factor or target.backup.replication_factor
        try:
            settings.create(target.name, count, replicas, target.final, validate_only)
        except KafkaError as error:
            error.add_note(
                f"topic {target.name} cannot be created as in the backup: -r N (replication_factor) sets the number of "
                "replicas, --unset NAME (configs) leaves a setting out"
            )
            raise

    def _topic(self, admin: Admin, settings: TopicSettings, target: Target) -> None:
        if target.state == "new":
            self._create(settings, target, validate_only=False)
            self._wait_for_leaders(admin, target)
        elif target.state == "unfinished":
            time.sleep(_SETTLE_SECONDS)
        settings.begin(target.name)
        limit = int(target.final.get("max.message.bytes", _BATCH_SIZE + _BATCH_HEADER)) - _BATCH_HEADER
        producer = Producer(self._options.producer(max(1, min(_BATCH_SIZE, limit))))
        try:
            with self._bar(f"restoring {target.name}", 2 * target.backup.rows, "records") as advance:
                for partition in target.backup.partitions:
                    self._partition(producer, target, partition, advance)
        except BaseException:
            # Records that are not sent yet must not follow a record that failed. If some are pending, `close` raises an
            # error of its own, which must not replace the cause.
            with contextlib.suppress(KafkaTimeoutError):
                producer.close(0, errors="log")
            raise
        producer.close()

    def _wait_for_leaders(self, admin: Admin, target: Target) -> None:
        """Waits until all partitions of a new topic have leaders that brokers know."""
        deadline = _core.Deadline(60 if self._timeout is None else self._timeout)
        while True:
            try:
                self._offsets(admin, target, OffsetSpec.EARLIEST)
                return
            except KafkaError as error:
                if not error.retriable or deadline.passed():
                    raise
            time.sleep(0.1)

    def _partition(self, producer: Producer, target: Target, backup: PartitionBackup, advance: Advance) -> None:
        """Writes the rest of a partition, and compares all its records with the backup."""
        tp = TopicPartition(target.name, backup.partition)
        group_offsets = self._groups.positions(TopicPartition(target.backup.name, backup.partition))
        numbers = {offset: row_number(self._folder, backup, offset) for offset in group_offsets}
        comparison = Comparison(self._folder, backup, name_of(tp), numbers.values())
        end = 0
        if target.state != "new":
            end = self._compare(comparison, tp, "earliest", advance)
            comparison.check_start()
            advance(comparison.rows)
        if comparison.rows < backup.rows:
            start, written = end, target.written
            for count in self._send(producer, tp, backup, comparison.rows, end):
                target.written += count
                advance(count)
            expected = start + target.written - written
            end = self._compare(comparison, tp, {tp: start}, advance)
            deadline = _core.Deadline(_CATCH_UP_SECONDS)
            while end < expected and not deadline.passed():
                time.sleep(0.1)
                end = self._compare(comparison, tp, {tp: end}, advance)
            if end != expected:
                raise BackupError(
                    f"{name_of(tp)} ends at offset {end} in place of {expected}, after {expected - start:,} records "
                    f"were written from offset {start} on: another client writes to the topic, or it has lost records"
                )
        comparison.finish()
        target.offsets[backup.partition] = {offset: comparison.found.get(row, end) for offset, row in numbers.items()}

    def _compare(self, comparison: Comparison, tp: TopicPartition, start: ranges.Bound, advance: Advance | None) -> int:
        """Adds the records of a partition from `start` to the current end, which is returned."""
        plan = ranges.plan(
            tp.topic, self._options.consumer(), start=start, partitions=[tp.partition], timeout=self._timeout
        )
        for split in plan.splits:
            for batch in split.read():
                comparison.add(batch)
                if advance is not None:
                    advance(batch.num_rows)
        return plan.ranges[0].end

    def _send(
        self, producer: Producer, tp: TopicPartition, backup: PartitionBackup, skip: int, offset: int
    ) -> Iterator[int]:
        """Sends the records of a partition after the first `skip`; yields numbers of acknowledged records.

        Raises:
            BackupError: a record has another offset than the one after the record before it, so another client writes.
        """
        pending: deque[tuple[int, BatchDelivery]] = deque()
        size = 0

        def acknowledged() -> int:
            nonlocal offset, size
            bytes_, delivery = pending.popleft()
            size -= bytes_
            count = 0
            for receipt in delivery.result():
                if receipt.base_offset not in (offset, -1):
                    raise BackupError(
                        f"{name_of(tp)}: a record was written to offset {receipt.base_offset} in place of {offset}: "
                        "another client writes to the topic"
                    )
                offset += receipt.count
                count += receipt.count
            return count

        for file in backup.files:
            if skip >= file.rows:
                skip -= file.rows
                continue
            for batch in read_batches(self._folder, file, skip):
                pending.append((batch.nbytes, producer.send_batch(tp.topic, _rows(batch), key="key", value="value",
                                                                  headers="headers", partition="partition",
                                                                  timestamp="timestamp")))  # fmt: skip
                size += batch.nbytes
                while pending and (size > _PENDING_BYTES or pending[0][1].done()):
                    yield acknowledged()
            skip = 0
        while pending:
            yield acknowledged()

    def _translated(self, old: TopicPartition) -> Callable[[int], int]:
        """Returns the function that translates offsets of a restored partition."""
        target = next(t for t in self.targets if t.backup.name == old.topic)
        return target.offsets[old.partition].__getitem__


def _rows(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the columns to send. A record without a timestamp is sent with -1, because null stands for now."""
    names = ["key", "value", "headers", "partition"]
    times = pc.fill_null(batch.column("timestamp").cast(pa.int64()), -1)
    return batch.select(names).append_column("timestamp", times)
