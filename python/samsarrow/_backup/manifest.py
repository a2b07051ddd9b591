"""The manifest of a backup: topics, files and group offsets, as JSON with a format number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any
from uuid import UUID

from samsarrow._backup.digests import ALGORITHM
from samsarrow._backup.errors import BackupError
from samsarrow.types import OffsetAndMetadata, TopicPartition

FORMAT = 1
"""Version of manifests and journals."""

Groups = Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
"""Committed offsets by group."""


@dataclass(frozen=True, slots=True)
class BackupFile:
    """A Parquet file of a backup, with consecutive records of one partition.

    Attributes:
        path: path below the folder of the backup, with slashes.
        first: offset of the first record.
        last: offset of the last record.
        rows: number of records.
        size: number of bytes.
        sha256: SHA-256 of the bytes of the file, in hexadecimal.
        records: digest of the records, `sha256-streams-1`.
    """

    path: str
    first: int
    last: int
    rows: int
    size: int
    sha256: str
    records: str


@dataclass(frozen=True, slots=True)
class PartitionBackup:
    """The backup of one partition.

    Attributes:
        partition: number of the partition.
        start: first offset that was read.
        end: offset after the last one that was read, at which the next backup continues.
        files: the files, by rising offsets.
        lost: offsets that retention had removed before they were read, as pairs of start and end.
    """

    partition: int
    start: int
    end: int
    files: tuple[BackupFile, ...] = ()
    lost: tuple[tuple[int, int], ...] = ()

    @property
    def rows(self) -> int:
        """The number of records."""
        return sum(file.rows for file in self.files)


@dataclass(frozen=True, slots=True)
class TopicBackup:
    """The backup of one topic.

    Attributes:
        name: name of the topic.
        topic_id: id of the topic; None from brokers before Kafka 2.8.
        replication_factor: number of replicas of the first partition.
        configs: settings of the topic that are not those of its broker.
        partitions: the partitions, by their numbers.
        error: reason for which the last run has read nothing new of the topic, or only a part; None if it has read all.
    """

    name: str
    topic_id: UUID | None
    replication_factor: int
    configs: Mapping[str, str]
    partitions: tuple[PartitionBackup, ...]
    error: str | None = None

    @property
    def rows(self) -> int:
        """The number of records."""
        return sum(partition.rows for partition in self.partitions)

    @property
    def files(self) -> tuple[BackupFile, ...]:
        """The files of all partitions."""
        return tuple(file for partition in self.partitions for file in partition.files)

    def with_file(self, number: int, file: BackupFile) -> TopicBackup:
        """Returns the topic with another file of a partition."""
        partition = self.partitions[number]
        return self._with(replace(partition, files=(*partition.files, file)))

    def with_loss(self, number: int, loss: tuple[int, int]) -> TopicBackup:
        """Returns the topic with lost offsets of a partition."""
        partition = self.partitions[number]
        return self._with(replace(partition, lost=(*partition.lost, loss)))

    def _with(self, changed: PartitionBackup) -> TopicBackup:
        return replace(
            self, partitions=tuple(changed if p.partition == changed.partition else p for p in self.partitions)
        )


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a backup.

    Attributes:
        cluster_id: id of the cluster from which the topics were read; None if the brokers have none.
        made: time at which the offsets were looked up, in ISO 8601.
        topics: the topics, by name.
        groups: committed offsets, by group.
    """

    cluster_id: str | None
    made: str
    topics: Mapping[str, TopicBackup]
    groups: Groups = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """The number of records."""
        return sum(topic.rows for topic in self.topics.values())

    @property
    def files(self) -> tuple[BackupFile, ...]:
        """The files of all topics."""
        return tuple(file for topic in self.topics.values() for file in topic.files)

    @property
    def size(self) -> int:
        """The number of bytes of all files."""
        return sum(file.size for file in self.files)

    def to_tree(self) -> dict[str, Any]:
        """Returns the manifest as a tree for JSON."""
        topics: dict[str, dict[str, Any]] = {}
        for name, topic in sorted(self.topics.items()):
            topics[name] = {
                "topic_id": None if topic.topic_id is None else str(topic.topic_id),
                "replication_factor": topic.replication_factor,
                "configs": dict(sorted(topic.configs.items())),
                "partitions": [
                    {
                        "partition": p.partition,
                        "start": p.start,
                        "end": p.end,
                        "rows": p.rows,
                        "lost": [list(loss) for loss in p.lost],
                        "files": [asdict(file) for file in p.files],
                    }
                    for p in topic.partitions
                ],
            }
            if topic.error is not None:
                topics[name]["error"] = topic.error
        groups = {
            name: [{"topic": tp.topic, "partition": tp.partition, **at._asdict()} for tp, at in sorted(offsets.items())]
            for name, offsets in sorted(self.groups.items())
        }
        return {
            "format": FORMAT,
            "digest": ALGORITHM,
            "cluster_id": self.cluster_id,
            "made": self.made,
            "topics": topics,
            "groups": groups,
        }

    def to_json(self) -> str:
        """Returns the text of the file `manifest.json`."""
        return json.dumps(self.to_tree(), indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """Reads the result of `to_json`.

        Args:
            text: the text.
            where: name of the file, for errors.

        Raises:
            BackupError: the text is not a manifest, or a newer version of samsarrow has written it.
        """
        try:
            return cls.from_tree(json.loads(text), where)
        except ValueError:
            raise BackupError(f"{where} is not JSON: restore the file from a copy, or make another backup") from None

    @classmethod
    def from_tree(cls, tree: Any, where: str) -> Manifest:
        """Reads the result of `to_tree`.

        Raises:
            BackupError: the tree is not a manifest, or a newer version of samsarrow has written it.
        """
        try:
            if (number := tree["format"]) != FORMAT or tree.get("digest") != ALGORITHM:
                raise BackupError(
                    f"{where} has format {number!r} with digest {tree.get('digest')!r}, and this version of samsarrow "
                    f"reads format {FORMAT} with {ALGORITHM!r}: use the version that made the backup, or a newer one"
                )
            topics = {name: _topic(name, content) for name, content in tree["topics"].items()}
            groups = {name: _group(name, offsets, topics) for name, offsets in tree["groups"].items()}
            return cls(tree["cluster_id"], tree["made"], topics, groups)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise BackupError(
                f"{where} is not a manifest of a backup ({error!r}): restore the file from a copy, or make another "
                "backup"
            ) from None


def _topic(name: str, tree: Any) -> TopicBackup:
    partitions = []
    for number, one in enumerate(tree["partitions"]):
        if one["partition"] != number:
            raise ValueError(f"topic {name} has partition {one['partition']} in place of {number}")
        start, end = _number(one, "start"), _number(one, "end")
        files = tuple(BackupFile(**file) for file in one["files"])
        before = start - 1
        for file in files:
            check_path(file.path, name, number)
            _check_offsets(file, before, end)
            before = file.last
        rows = sum(file.rows for file in files)
        if rows != one["rows"]:
            raise ValueError(f"the files of {name}-{number} have {rows} rows in place of {one['rows']}")
        lost = tuple((first, after) for first, after in one["lost"])
        partitions.append(PartitionBackup(number, start, end, files, lost))
    found, error = tree["topic_id"], tree.get("error")
    if not isinstance(error, str | None):
        raise TypeError(f"error of topic {name} is not text: {error!r}")
    topic_id = None if found is None else UUID(found)
    configs = dict(tree["configs"])
    return TopicBackup(name, topic_id, _number(tree, "replication_factor"), configs, tuple(partitions), error)


def _group(name: str, offsets: Any, topics: Mapping[str, TopicBackup]) -> dict[TopicPartition, OffsetAndMetadata]:
    found = {}
    for one in offsets:
        topic, partition = one["topic"], _number(one, "partition")
        if topic not in topics or partition >= len(topics[topic].partitions):
            raise ValueError(f"group {name} has an offset of {topic}-{partition}, which is not in the backup")
        if not isinstance(one["metadata"], str):
            raise TypeError(f"metadata of {topic}-{partition} in group {name} is not text: {one['metadata']!r}")
        found[TopicPartition(topic, partition)] = OffsetAndMetadata(
            _number(one, "offset"), one["metadata"], one["leader_epoch"]
        )
    return found


def _number(tree: Any, name: str) -> int:
    """Returns a number that is not negative.

    Raises:
        ValueError: the value is another one.
    """
    value = tree[name]
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} is not a number from 0 on: {value!r}")
    return value


def _check_offsets(file: BackupFile, before: int, end: int) -> None:
    """Rejects files that overlap or are in another order, because a restore would repeat or reorder records.

    Args:
        file: the file.
        before: last offset of the file before it.
        end: offset after the last one of the partition.

    Raises:
        ValueError: the offsets are not between these, or are fewer than the rows.
    """
    if not before < file.first <= file.last < end:
        raise ValueError(
            f"the offsets of {file.path}, {file.first} to {file.last}, are not after {before} and before {end}"
        )
    if not 0 < file.rows <= file.last - file.first + 1:
        raise ValueError(f"{file.path} has {file.rows} rows at offsets {file.first} to {file.last}")


def check_path(path: str, topic: str, partition: int) -> None:
    """Rejects files outside of the folder of their partition, which an altered manifest might name.

    Raises:
        ValueError: the file is elsewhere.
    """
    folder, _, name = path.rpartition("/")
    if folder != f"{topic}/{partition}" or not name.endswith(".parquet") or topic in (".", "..", "") or "/" in topic:
        raise ValueError(f"{path!r} is not a file of {topic}-{partition}")
