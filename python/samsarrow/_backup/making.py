"""Creation of backups."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from samsarrow import ranges
from samsarrow._backup.errors import BackupError
from samsarrow._backup.files import COLUMNS, FileWriter, check_size
from samsarrow._backup.folder import JOURNAL, LOCK, MANIFEST, Folder, Plan
from samsarrow._backup.manifest import Groups, Manifest, PartitionBackup, TopicBackup
from samsarrow._backup.options import ClientOptions
from samsarrow._backup.results import Advance, Bar
from samsarrow._range_reader import DataLoss, name_of
from samsarrow.admin import Admin
from samsarrow.admin_types import ConfigResource, ConfigSource
from samsarrow.exceptions import (
    KafkaError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from samsarrow.ranges import OffsetRange, Offsets, OnDataLoss, Split
from samsarrow.types import TopicPartition

# Settings with numbers of brokers, which another cluster does not have.
_OF_CLUSTER = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
# Errors of one topic, after which a run continues with the others.
_OF_TOPIC = (OffsetOutOfRangeError, UnknownTopicOrPartitionError, TopicAuthorizationFailedError)


@dataclass
class _Reading:
    """A topic that is being read.

    Attributes:
        topic: the topic with its complete files.
        positions: the next offset to read of each partition.
    """

    topic: TopicBackup
    positions: list[int]

    def stopped(self, error: KafkaError) -> TopicBackup:
        """Returns the topic with the records that were read before an error."""
        ends = (max(p.start, min(p.end, self.positions[p.partition])) for p in self.topic.partitions)
        partitions = (replace(p, end=end) for p, end in zip(self.topic.partitions, ends, strict=True))
        return replace(self.topic, partitions=tuple(partitions), error=str(error))


class BackupRun:
    """One run of `backup`, with its checked arguments."""

    def __init__(
        self,
        topics: Sequence[str],
        path: Path,
        options: ClientOptions,
        groups: Sequence[str] | Literal["all"],
        on_data_loss: OnDataLoss,
        file_size: int,
        compression: str,
        if_exists: bool,
        timeout: float | None,
        bar: Bar,
    ) -> None:
        self._topics, self._path, self._options, self._groups = topics, path, options, groups
        self._on_data_loss, self._file_size, self._compression = on_data_loss, file_size, compression
        self._if_exists, self._timeout, self._bar = if_exists, timeout, bar
        # Read by the caller for the result.
        self.resumed = False
        self.new_rows: Counter[str] = Counter()
        self.new_size = 0
        self.lost: list[DataLoss] = []
        self.failures: dict[str, KafkaError] = {}
        self.missing: list[str] = []

    def run(self) -> Manifest:
        """Makes the backup, or continues it, and returns its manifest."""
        try:
            return self._run()
        except OSError as error:
            # Errors of `write`, for example of a full disk, do not have the name of the file.
            if isinstance(error, KafkaError) or error.filename is not None or error.errno is None:
                raise
            named = OSError(error.errno, f"{error.strerror}; run the backup again to continue it", str(self._path))
            raise named from None

    def _run(self) -> Manifest:
        with Folder(self._path) as folder, Admin(self._options.admin()) as admin:
            plan = folder.unfinished()
            self.resumed = plan is not None
            before = folder.finished() if plan is None else plan.manifest
            # Otherwise a lost file would be noticed only by a restore, when its records may be gone from the topic.
            for file in before.files if before is not None else ():
                check_size(self._path, file)
            if plan is None:
                plan = self._plan(admin, before)
                folder.begin(plan)
            else:
                self._check_same(admin, plan.manifest)
                self._continue(admin, plan.manifest)
            topics = dict(plan.manifest.topics)
            folder.remove_unlisted(topics.values())
            for name in topics:
                reading = _Reading(topics[name], plan.positions[name])
                try:
                    self._topic(folder, reading)
                    topics[name] = reading.topic
                except _OF_TOPIC as error:
                    self.failures[name] = error
                    topics[name] = reading.stopped(error)
            self._check_any(topics)
            done = replace(plan.manifest, topics=topics)
            folder.finish(done)
            return done

    def _check_any(self, topics: Collection[str]) -> None:
        """Raises the first error if all topics failed."""
        if self.failures and not {*topics, *self._topics} - self.failures.keys() - set(self.missing):
            raise next(iter(self.failures.values()))

    def _check_same(self, admin: Admin, unfinished: Manifest) -> None:
        """Raises an error if this run does not have the topics and groups of the unfinished one.

        Further topics are left to the next run.
        """
        left_out = set(unfinished.topics) - set(self._topics)
        groups = set(self._groups) if self._groups != "all" else set()
        for kind, differ, before in (
            ("topics", bool(self._existing(admin, left_out)) or left_out == set(unfinished.topics), unfinished.topics),
            ("groups", bool(groups) and groups != set(unfinished.groups), unfinished.groups),
        ):
            if differ:
                remedy = f"has the {kind} {_listed(before)}: name these" if before else f"has no {kind}: name none"
                raise BackupError(
                    f"the backup in {self._path} that was not completed {remedy} to complete it, or use another folder"
                )

    def _continue(self, admin: Admin, unfinished: Manifest) -> None:
        """Takes over the failures of an unfinished run."""
        self.missing = sorted(set(unfinished.topics) - self._existing(admin, unfinished.topics))
        for name, topic in unfinished.topics.items():
            if topic.error is not None and not (name in self.missing and self._if_exists):
                self.failures[name] = BackupError(topic.error)

    def _existing(self, admin: Admin, names: Collection[str]) -> set[str]:
        """Returns the topics that exist."""
        return set(admin.list_topics(sorted(names), timeout=self._timeout)) if names else set()

    def _plan(self, admin: Admin, before: Manifest | None) -> Plan:
        """Looks up offsets, settings and groups. The first backup reads all records, others continue the last one."""
        known = {} if before is None else before.topics
        existing = self._existing(admin, {*known, *self._topics})
        if others := set(known) & existing - set(self._topics):
            raise BackupError(
                f"the folder {self._path} has a backup of other topics, too ({_listed(others)}): name them, or use "
                "another folder"
            )
        if reserved := {MANIFEST, JOURNAL, LOCK} & {name.lower() for name in self._topics}:
            raise BackupError(f"topic {reserved.pop()} cannot be backed up: the folder has a file of this name")
        # Compared in lower case, because file systems may not distinguish them.
        if len({name.lower() for name in self._topics}) < len(self._topics):
            raise BackupError("the names of two topics differ only in case: back them up to different folders")
        cluster = admin.describe_cluster(timeout=self._timeout).cluster_id
        if before is not None and before.cluster_id != cluster:
            raise BackupError(
                f"the backup in {self._path} is of cluster {before.cluster_id}, not of {cluster}: use another folder"
            )
        # Offsets of groups are looked up first, so that they are not past the ends.
        now = self._find_groups(admin, {} if before is None else before.groups)
        topics, positions = {}, {}
        self.missing = sorted({*known, *self._topics} - existing)
        for name in sorted({*known, *self._topics}):
            try:
                if name in self.missing:
                    raise self._is_missing(name, name in known)
                topics[name], positions[name] = self._plan_topic(admin, name, known.get(name))
            except _OF_TOPIC as error:
                if name not in self.missing or not self._if_exists:
                    self.failures[name] = error
                if name in known:
                    topics[name] = replace(known[name], error=str(error))
                    positions[name] = [p.end for p in known[name].partitions]
        self._check_any(topics)
        groups = self._combined(now, {} if before is None else before.groups, topics)
        made = datetime.now(UTC).isoformat(timespec="seconds")
        return Plan(Manifest(cluster, made, topics, groups), positions)

    def _is_missing(self, name: str, known: bool) -> KafkaError:
        text = f"topic {name} does not exist, or this client has no permission to describe it"
        if known:
            text += (
                "; its files stay in the backup. If the topic was deleted, use --if-exists (if_exists=True) from now on"
            )
        return UnknownTopicOrPartitionError(text)

    def _plan_topic(self, admin: Admin, name: str, before: TopicBackup | None) -> tuple[TopicBackup, list[int]]:
        start: ranges.Bound = "earliest"
        description = admin.describe_topics([name], timeout=self._timeout)[name]
        if before is not None:
            if None not in (before.topic_id, description.topic_id) and before.topic_id != description.topic_id:
                raise OffsetOutOfRangeError(
                    f"topic {name} was deleted and recreated since its last backup to {self._path}, which keeps the "
                    "records of the old topic: back up the new topic to another folder"
                )
            ends = {TopicPartition(name, p.partition): p.end for p in before.partitions}
            start = Offsets(name, ends, before.topic_id)
        plan = self._ranges(name, start, "latest")
        lost = {loss.partition.partition: (loss.start, loss.end) for loss in plan.losses}
        self.lost += plan.losses
        old = {} if before is None else {p.partition: p for p in before.partitions}
        partitions = []
        for tp, first, end in plan.ranges:
            kept = old.get(tp.partition, PartitionBackup(tp.partition, first, end))
            losses = (*kept.lost, lost[tp.partition]) if tp.partition in lost else kept.lost
            partitions.append(replace(kept, end=end, lost=losses))
        resource = ConfigResource.topic(name)
        entries = admin.describe_configs([resource], timeout=self._timeout)[resource].values()
        configs = {
            entry.name: entry.value
            for entry in entries
            if entry.source is ConfigSource.TOPIC and entry.value is not None and not entry.sensitive
            and entry.name not in _OF_CLUSTER
        }  # fmt: skip
        replicas = len(description.partitions[0].replicas)
        topic = TopicBackup(name, plan.topic_id, replicas, configs, tuple(partitions))
        return topic, [one.start for one in plan.ranges]

    def _ranges(self, topic: str, start: ranges.Bound, end: ranges.Bound, only: Collection[int] | None = None) -> Any:
        try:
            return ranges.plan(
                topic,
                self._options.consumer(),
                start=start,
                end=end,
                partitions=only,
                on_data_loss=self._on_data_loss,
                timeout=self._timeout,
            )
        except OffsetOutOfRangeError as error:
            raise self._explained(error) from None

    def _explained(self, error: OffsetOutOfRangeError) -> OffsetOutOfRangeError:
        error.add_note(
            f"the backup in {self._path} cannot continue: if the topic was deleted and recreated, back up the new "
            "topic to another folder; if retention removed records, --skip-lost (on_data_loss='skip') backs up the rest"
        )
        return error

    def _find_groups(self, admin: Admin, before: Groups) -> dict[str, Any]:
        """Returns the committed offsets of the groups, for the topics of this run."""
        names = list(dict.fromkeys(self._groups or before)) if self._groups != "all" else self._all_groups(admin)
        results = admin.fetch_offsets_many(names, timeout=self._timeout) if names else {}
        return {
            name: {tp: at for tp, at in results[name].items() if at is not None and tp.topic in self._topics}
            for name in names
        }

    def _combined(self, now: Groups, before: Groups, topics: Mapping[str, TopicBackup]) -> Groups:
        """Returns the offsets of groups. Topics without new records keep the offsets of the last run.

        Offsets of partitions that do not exist are left out: a topic that was created again may have fewer than before.
        """
        found = {}
        for name in {**now, **(before if self._groups == "all" else {})}:
            old, new = before.get(name, {}), now.get(name, {})
            offsets = {tp: at for tp, at in old.items() if (kept := topics.get(tp.topic)) and kept.error is not None}
            for tp, at in new.items():
                topic = topics.get(tp.topic)
                if topic is not None and topic.error is None and tp.partition < len(topic.partitions):
                    offsets[tp] = at
            if offsets:
                found[name] = offsets
            elif self._groups != "all" and name in self._groups and not new:
                raise BackupError(
                    f"group {name} has committed no offsets of {_listed(self._topics)}: check its name, or leave it out"
                )
        return found

    def _all_groups(self, admin: Admin) -> list[str]:
        listed = admin.list_groups(timeout=self._timeout).values()
        return sorted(group.group for group in listed if (group.type or "classic").lower() != "share")

    def _topic(self, folder: Folder, reading: _Reading) -> None:
        """Reads the rest of a topic into files."""
        topic = reading.topic
        starts = {TopicPartition(topic.name, p.partition): reading.positions[p.partition] for p in topic.partitions}
        ends = {TopicPartition(topic.name, p.partition): p.end for p in topic.partitions}
        total = sum(max(0, ends[tp] - start) for tp, start in starts.items())
        if not total:
            return
        unread = [tp.partition for tp, start in starts.items() if start < ends[tp]]
        plan = self._ranges(
            topic.name,
            Offsets(topic.name, {tp: starts[tp] for tp in starts if tp.partition in unread}, topic.topic_id),
            Offsets(topic.name, {tp: ends[tp] for tp in ends if tp.partition in unread}, topic.topic_id),
            unread,
        )
        for loss in plan.losses:
            self._lose(folder, reading, loss)
        with self._bar(f"backing up {topic.name}", total, "records") as advance:
            for split in plan.splits:
                [one] = split.ranges
                self._partition(folder, reading, split, one, advance)

    def _lose(self, folder: Folder, reading: _Reading, loss: DataLoss) -> None:
        self.lost.append(loss)
        number = loss.partition.partition
        folder.add_loss(reading.topic.name, number, (loss.start, loss.end))
        reading.topic = reading.topic.with_loss(number, (loss.start, loss.end))
        reading.positions[number] = max(reading.positions[number], loss.end)

    def _partition(self, folder: Folder, reading: _Reading, split: Split, one: OffsetRange, advance: Advance) -> None:
        name, number, position = reading.topic.name, one.partition.partition, one.start
        losses: list[DataLoss] = []
        reader = split.read(on_loss=losses.append)
        writer: FileWriter | None = None
        try:
            for batch in chain(reader, [None]):
                if writer is not None and (batch is None or losses or writer.bytes >= self._file_size):
                    file = writer.complete()
                    writer = None
                    folder.add_file(name, number, file)
                    reading.topic = reading.topic.with_file(number, file)
                    reading.positions[number] = file.last + 1
                    self.new_rows[name] += file.rows
                    self.new_size += file.size
                while losses:
                    self._lose(folder, reading, losses.pop(0))
                if batch is not None:
                    batch = batch.select(list(COLUMNS))
                    if writer is None:
                        writer = FileWriter(folder.path, f"{name}/{number}", batch.schema, self._compression)
                    writer.write(batch)
                    after = batch.column("offset")[-1].as_py() + 1
                    advance(after - position)
                    position = after
            advance(one.end - position)
            reading.positions[number] = one.end
        except KafkaError as error:
            error.add_note(f"{name_of(one.partition)} was read up to offset {position}, and should be up to {one.end}")
            raise self._explained(error) if isinstance(error, OffsetOutOfRangeError) else error from None
        finally:
            reader.close()
            if writer is not None:
                writer.abandon()


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"
