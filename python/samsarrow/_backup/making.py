"""Making of backups."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
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
from samsarrow.exceptions import KafkaError, OffsetOutOfRangeError
from samsarrow.ranges import OffsetRange, Offsets, OnDataLoss, Split
from samsarrow.types import TopicPartition

# Settings with numbers of brokers, which another cluster does not have.
_OF_CLUSTER = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")


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
        timeout: float | None,
        bar: Bar,
    ) -> None:
        self._topics, self._path, self._options, self._groups = topics, path, options, groups
        self._on_data_loss, self._file_size, self._compression = on_data_loss, file_size, compression
        self._timeout, self._bar = timeout, bar
        # Read by the caller for the result.
        self.resumed = False
        self.new_rows = self.new_size = 0
        self.lost: list[DataLoss] = []

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
                self._check_same(plan.manifest)
            topics = dict(plan.manifest.topics)
            folder.remove_unlisted(topics.values())
            for name in topics:
                topics[name] = self._topic(folder, topics[name], plan.positions[name])
            done = replace(plan.manifest, topics=topics)
            folder.finish(done)
            return done

    def _check_same(self, unfinished: Manifest) -> None:
        """Raises an error if the unfinished run has other topics or groups than this one."""
        for kind, now, before in (
            ("topics", set(self._topics), set(unfinished.topics)),
            ("groups", set(self._groups) if self._groups != "all" else set(), set(unfinished.groups)),
        ):
            if now != before and (now or kind == "topics"):
                remedy = f"has the {kind} {_listed(before)}: name these" if before else f"has no {kind}: name none"
                raise BackupError(
                    f"the backup in {self._path} that was not completed {remedy} to complete it, or use another folder"
                )

    def _plan(self, admin: Admin, before: Manifest | None) -> Plan:
        """Looks up offsets, settings and groups. The first backup reads all records, others continue the last one."""
        known = {} if before is None else before.topics
        if missing := set(known) - set(self._topics):
            raise BackupError(
                f"the folder {self._path} has a backup of other topics, too ({_listed(missing)}): name them, or use "
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
        groups = self._find_groups(admin, () if before is None else before.groups)
        topics, positions = {}, {}
        for name in self._topics:
            topics[name], positions[name] = self._plan_topic(admin, name, known.get(name))
        groups = _existing(groups, topics)
        made = datetime.now(UTC).isoformat(timespec="seconds")
        return Plan(Manifest(cluster, made, topics, groups), positions)

    def _plan_topic(self, admin: Admin, name: str, before: TopicBackup | None) -> tuple[TopicBackup, list[int]]:
        start: ranges.Bound = "earliest"
        if before is not None:
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
        description = admin.describe_topics([name], timeout=self._timeout)[name]
        resource = ConfigResource.topic(name)
        entries = admin.describe_configs([resource], timeout=self._timeout)[resource].values()
        configs = {
            entry.name: entry.value
            for entry in entries
            if entry.source is ConfigSource.TOPIC and entry.value is not None and not entry.sensitive
            and entry.name not in _OF_CLUSTER
        }  # fmt: skip
        topic = TopicBackup(name, plan.topic_id, len(description.partitions[0].replicas), configs, tuple(partitions))
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
            f"the backup in {self._path} cannot continue: if the topic was created again, use another folder; if "
            "retention removed records, --skip-lost (on_data_loss='skip') backs up the rest"
        )
        return error

    def _find_groups(self, admin: Admin, before: Iterable[str]) -> Groups:
        """Returns the committed offsets of the groups, for the topics of the backup."""
        names = list(dict.fromkeys(self._groups or before)) if self._groups != "all" else self._all_groups(admin)
        found: dict[str, Any] = {}
        results = admin.fetch_offsets_many(names, timeout=self._timeout) if names else {}
        for name in names:
            offsets = {tp: at for tp, at in results[name].items() if at is not None and tp.topic in self._topics}
            if offsets:
                found[name] = offsets
            elif self._groups != "all" and name in self._groups:
                raise BackupError(
                    f"group {name} has committed no offsets of {_listed(self._topics)}: check its name, or leave it out"
                )
        return found

    def _all_groups(self, admin: Admin) -> list[str]:
        listed = admin.list_groups(timeout=self._timeout).values()
        return sorted(group.group for group in listed if (group.type or "classic").lower() != "share")

    def _topic(self, folder: Folder, topic: TopicBackup, positions: list[int]) -> TopicBackup:
        """Reads the rest of a topic into files, and returns it with all files."""
        starts = {TopicPartition(topic.name, p.partition): positions[p.partition] for p in topic.partitions}
        ends = {TopicPartition(topic.name, p.partition): p.end for p in topic.partitions}
        total = sum(max(0, ends[tp] - start) for tp, start in starts.items())
        if not total:
            return topic
        unread = [tp.partition for tp, start in starts.items() if start < ends[tp]]
        plan = self._ranges(
            topic.name,
            Offsets(topic.name, {tp: starts[tp] for tp in starts if tp.partition in unread}, topic.topic_id),
            Offsets(topic.name, {tp: ends[tp] for tp in ends if tp.partition in unread}, topic.topic_id),
            unread,
        )
        for loss in plan.losses:
            topic = self._lose(folder, topic, loss)
        with self._bar(f"backing up {topic.name}", total, "records") as advance:
            for split in plan.splits:
                [one] = split.ranges
                topic = self._partition(folder, topic, split, one, advance)
        return topic

    def _lose(self, folder: Folder, topic: TopicBackup, loss: DataLoss) -> TopicBackup:
        self.lost.append(loss)
        folder.add_loss(topic.name, loss.partition.partition, (loss.start, loss.end))
        return topic.with_loss(loss.partition.partition, (loss.start, loss.end))

    def _partition(
        self, folder: Folder, topic: TopicBackup, split: Split, one: OffsetRange, advance: Advance
    ) -> TopicBackup:
        number, position = one.partition.partition, one.start
        losses: list[DataLoss] = []
        reader = split.read(on_loss=losses.append)
        writer: FileWriter | None = None
        try:
            for batch in chain(reader, [None]):
                if writer is not None and (batch is None or losses or writer.bytes >= self._file_size):
                    file = writer.complete()
                    writer = None
                    folder.add_file(topic.name, number, file)
                    topic = topic.with_file(number, file)
                    self.new_rows += file.rows
                    self.new_size += file.size
                while losses:
                    topic = self._lose(folder, topic, losses.pop(0))
                if batch is not None:
                    batch = batch.select(list(COLUMNS))
                    if writer is None:
                        writer = FileWriter(folder.path, f"{topic.name}/{number}", batch.schema, self._compression)
                    writer.write(batch)
                    after = batch.column("offset")[-1].as_py() + 1
                    advance(after - position)
                    position = after
            advance(one.end - position)
            return topic
        except KafkaError as error:
            error.add_note(f"{name_of(one.partition)} was read up to offset {position}, and should be up to {one.end}")
            raise self._explained(error) if isinstance(error, OffsetOutOfRangeError) else error from None
        finally:
            reader.close()
            if writer is not None:
                writer.abandon()


def _existing(groups: Groups, topics: Mapping[str, TopicBackup]) -> Groups:
    """Returns the offsets of partitions that exist: a topic that was created again may have fewer than before."""
    return {
        name: found
        for name, offsets in groups.items()
        if (found := {tp: at for tp, at in offsets.items() if tp.partition < len(topics[tp.topic].partitions)})
    }


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names)) or "none"
