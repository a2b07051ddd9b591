"""Records of a backup that retention deletes after a restore."""

from __future__ import annotations

import time
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

from samsarrow._backup.files import older_rows
from samsarrow._backup.manifest import TopicBackup


class Retention(NamedTuple):
    """Retention of a topic: maximum age in milliseconds and maximum bytes of a partition, each -1 for none."""

    milliseconds: int
    size: int


def expiry_warnings(folder: Path, topic: TopicBackup, retention: Retention, name: str | None) -> list[str]:
    """Returns a warning for each setting with which retention will delete restored records.

    Args:
        folder: folder of the backup.
        topic: the topic in the backup.
        retention: retention of the restored topic.
        name: name of the topic that is being restored; None if the restore has not begun.
    """
    warnings = []
    if retention.milliseconds >= 0:
        limit = int(time.time() * 1000) - retention.milliseconds
        if older := sum(older_rows(folder, file, limit) for file in topic.files):
            age = timedelta(milliseconds=retention.milliseconds)
            warnings.append(
                f"retention will delete {older:,} of {topic.rows:,} records, which are older than "
                f"retention.ms={retention.milliseconds} ({age}): {_remedy('retention.ms', name)}"
            )
    if retention.size >= 0:
        # Files of a backup are usually smaller than the log, so retention may delete records of others, too.
        large = [p.partition for p in topic.partitions if sum(file.size for file in p.files) > retention.size]
        if large:
            warnings.append(
                f"retention will delete the first records of {len(large)} of {len(topic.partitions)} partitions "
                f"(the first is {large[0]}), whose files are larger than retention.bytes={retention.size}: "
                f"{_remedy('retention.bytes', name)}"
            )
    return warnings


def _remedy(setting: str, name: str | None) -> str:
    """Returns the advice for keeping the records."""
    option = f"--config {setting}=-1 (configs={{'{setting}': -1}})"
    if name is None:
        return f"restore with {option} to keep them"
    return (
        f"to keep them, interrupt this run and repeat it with {option}, or set {setting} as soon as it is complete: "
        f"samsarrow configs set topic:{name} {setting}=-1"
    )
