"""Backups of topics: Parquet files with all records, settings and group offsets, and their restore."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from samsarrow._backup import calls
from samsarrow._backup.errors import BackupError, BackupIncompleteError, RestoreIncompleteError
from samsarrow._backup.manifest import BackupFile, Manifest, PartitionBackup, TopicBackup
from samsarrow._backup.results import BackupResult, Bar, RestoredTopic, RestoreResult
from samsarrow._table_io import progress_bar
from samsarrow.ranges import OnDataLoss
from samsarrow.types import Seconds, Setting

__all__ = [
    "BackupError",
    "BackupFile",
    "BackupIncompleteError",
    "BackupResult",
    "Manifest",
    "PartitionBackup",
    "RestoreIncompleteError",
    "RestoreResult",
    "RestoredTopic",
    "TopicBackup",
    "backup",
    "restore",
    "verify",
]


def backup(
    topics: Iterable[str],
    path: str | os.PathLike[str],
    config: Mapping[str, Any] | None = None,
    *,
    groups: Iterable[str] | Literal["all"] = (),
    on_data_loss: OnDataLoss = "raise",
    file_size: int = 256 << 20,
    compression: Literal["zstd", "snappy", "gzip", "lz4", "none"] = "zstd",
    if_exists: bool = False,
    timeout: Seconds | None = None,
    progress: bool | None = None,
    **options: Any,
) -> BackupResult:
    """Backs up topics to a folder, up to the ends that they have at the time of the call.

        result = samsarrow.backup.backup(["orders"], "backups/orders", bootstrap_servers="localhost:9092")

    Only committed records are read (`isolation.level=read_committed`): a partition ends at its first open transaction.

    A run that was interrupted, even by a kill, is completed by the next one with the same topics, up to the ends of the
    first. A run after a complete one adds the new records, settings, partitions and group offsets; the files of earlier
    runs stay as they are.

    If a topic fails, because it was deleted or created again, or retention has removed its records, its files stay in
    the backup, the other topics are backed up, and `BackupIncompleteError` is raised. If all fail, the first error is.

    Args:
        topics: names of the topics. Those of the last run must be among them, unless they do not exist any more.
        path: the folder, which is created.
        config: options of `Consumer` and `Admin` with dotted names. They are not stored.
        groups: names of groups whose committed offsets of these topics are stored, or `"all"`. By default those of the
            last run.
        on_data_loss: effect of offsets that retention or `delete_records` removes before they are read. `raise` raises
            `OffsetOutOfRangeError`. `skip` backs up the rest, and the manifest has the lost offsets.
        file_size: bytes of records in a file, before compression.
        compression: compression codec of the files.
        if_exists: whether topics that do not exist are no error. Their files stay in the backup.
        timeout: maximum seconds without progress, and for each lookup; by default `default.api.timeout.ms`.
        progress: whether to show progress bars on standard error; by default only if that is a terminal.
        **options: the same options as keywords.

    Raises:
        ConfigurationError: an argument or option is invalid.
        BackupError: the folder has other files, a backup of other topics, or another process writes to it; or a group
            has no offsets of the topics.
        BackupIncompleteError: some topics failed. It has the result, and the error of each topic.
        UnknownTopicOrPartitionError: the topic does not exist.
        OffsetOutOfRangeError: retention removed records before they were read, or the topic was deleted and created
            again.
        KafkaTimeoutError: no offset was read for `timeout` seconds.
        OSError: a file cannot be written.
    """
    return calls.backup(
        topics,
        path,
        config,
        options,
        groups=groups,
        on_data_loss=on_data_loss,
        file_size=file_size,
        compression=compression,
        if_exists=if_exists,
        timeout=timeout,
        bar=_bar(progress),
    )


def restore(
    path: str | os.PathLike[str],
    config: Mapping[str, Any] | None = None,
    *,
    topics: Iterable[str] | None = None,
    topic_map: Mapping[str, str] | None = None,
    configs: Mapping[str, Setting | None] | None = None,
    replication_factor: int | None = None,
    groups: Iterable[str] | None = None,
    dry_run: bool = False,
    timeout: Seconds | None = None,
    progress: bool | None = None,
    **options: Any,
) -> RestoreResult:
    """Restores topics, their settings and group offsets from a backup.

        result = samsarrow.backup.restore("backups/orders", bootstrap_servers="localhost:9093")

    All files are checked before anything is written. Records get the partitions, order, keys, values, headers and
    timestamps of the backup. They are read back and compared by their digests. Each group offset is translated to the
    offset of the same record. An offset in a gap, which compaction or a transaction left, is translated to that of the
    next record, and one at the end to the end.

    A topic must not exist, or have no records. While records are written, the topic has settings that keep all of them
    as they are; the last step sets those of the backup. A restore that was interrupted is continued by another call,
    which recognises its topics by these settings and compares their records first. Topics that are restored already are
    compared and not changed.

    Args:
        path: the folder of the backup.
        config: options of `Producer`, `Consumer` and `Admin` with dotted names. `compression.type` is `lz4` by default.
        topics: names of the topics to restore; by default all.
        topic_map: new names by names in the backup.
        configs: settings that differ from those of the backup; None leaves a setting out.
        replication_factor: number of replicas; by default that of the backup, -1 for the default of the brokers.
        groups: names of groups whose offsets are restored; by default all of the backup. They must have no members.
        dry_run: whether to only check files, names and settings, and write nothing.
        timeout: maximum seconds without progress of reads, and for each request; by default `default.api.timeout.ms`.
            Records that cannot be written fail after `delivery.timeout.ms`.
        progress: whether to show progress bars on standard error; by default only if that is a terminal.
        **options: the same options as keywords.

    Raises:
        ConfigurationError: an argument or option is invalid.
        BackupError: the folder has no complete backup, or a newer version made it; a file is missing or changed; a
            topic exists with other records or another number of partitions; or a group has members. Nothing was
            written.
        RestoreIncompleteError: the restore failed after it had begun to write, for example because another client
            writes to a topic. It has the number of records that were written.
        KafkaError: a request failed before anything was written.
    """
    return calls.restore(
        path,
        config,
        options,
        topics=topics,
        topic_map=topic_map,
        configs=configs,
        replication_factor=replication_factor,
        groups=groups,
        dry_run=dry_run,
        timeout=timeout,
        bar=_bar(progress),
    )


def verify(path: str | os.PathLike[str], *, progress: bool | None = None) -> Manifest:
    """Reads all files of a backup, and compares bytes, offsets and records with its manifest. Needs no cluster.

    Args:
        path: the folder of the backup.
        progress: whether to show a progress bar on standard error; by default only if that is a terminal.

    Returns:
        The content of the backup.

    Raises:
        BackupError: the folder has no complete backup, or a newer version made it; or a file is missing or changed.
    """
    return calls.verify(path, bar=_bar(progress))


def _bar(shown: bool | None) -> Bar:
    return lambda label, length, unit: progress_bar(label, length, shown, unit)
