"""Errors of backups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from samsarrow.exceptions import KafkaError

if TYPE_CHECKING:
    from samsarrow._backup.results import BackupResult


class BackupError(KafkaError):
    """A backup cannot be made, read or restored: a file is missing or changed, or a topic does not match."""

    name = "BACKUP"


class BackupIncompleteError(BackupError):
    """A backup has records of some topics, and failed for others. The cause is the first error.

    Attributes:
        result: the result; its manifest has the files of all topics, also those of earlier runs.
        failures: the error of each failed topic.
    """

    name = "BACKUP_INCOMPLETE"

    def __init__(self, text: str, result: BackupResult | None = None, failures: Mapping[str, KafkaError] = {}) -> None:
        super().__init__(text)
        self.result = result
        self.failures: Mapping[str, KafkaError] = dict(failures)


class RestoreIncompleteError(BackupError):
    """A restore failed after it had begun to write. The cause is the first error.

    The same call continues it, unless `retriable` is false, because a topic has other records than the backup.

    Attributes:
        written: number of records that the call has written, by topic.
    """

    name = "RESTORE_INCOMPLETE"
    retriable = True

    def __init__(self, text: str, written: Mapping[str, int] | None = None) -> None:
        super().__init__(text)
        self.written: Mapping[str, int] = dict(written or {})
