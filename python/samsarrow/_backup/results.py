"""Results of backups and restores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal

from samsarrow._backup.manifest import Manifest
from samsarrow._range_reader import DataLoss
from samsarrow.types import OffsetAndMetadata, TopicPartition

Advance = Callable[[int], None]
"""Advances a progress bar."""

Bar = Callable[[str, int, str], AbstractContextManager[Advance]]
"""Shows a progress bar: label, length and unit."""


@dataclass(frozen=True, slots=True)
class BackupResult:
    """Result of `backup`.

    Attributes:
        manifest: content of the backup, with the files of earlier runs.
        rows: number of records that this run has written.
        size: number of bytes of the files that this run has written.
        resumed: whether this run completed one that was interrupted.
        losses: offsets that retention had removed before they were read, with `on_data_loss="skip"`.
        added: number of records that this run has written, by topic.
        missing: topics of the backup that do not exist any more.
    """

    manifest: Manifest
    rows: int
    size: int
    resumed: bool
    losses: tuple[DataLoss, ...]
    added: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RestoredTopic:
    """A topic of `restore`.

    Attributes:
        name: name in the cluster.
        source: name in the backup.
        rows: number of records in the topic.
        written: number of records that this run has written; the others were written by a run that was interrupted.
        state: state before this run: `new`: the topic did not exist; `empty`: it had no records; `unfinished`: an
            interrupted restore had written to it; `present`: it was restored already, and is unchanged.
        warnings: settings with which retention will delete restored records, and how to keep these.
        backup_error: reason for which the last run of the backup has read nothing new of the topic, or only a part.
    """

    name: str
    source: str
    rows: int
    written: int
    state: Literal["new", "empty", "unfinished", "present"]
    warnings: tuple[str, ...] = ()
    backup_error: str | None = None


@dataclass(frozen=True, slots=True)
class RestoreResult:
    """Result of `restore`.

    Attributes:
        topics: the topics.
        offsets: committed offsets, by group.
    """

    topics: tuple[RestoredTopic, ...]
    offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]
