"""Errors of backups."""

from __future__ import annotations

from collections.abc import Mapping

from samsarrow.exceptions import KafkaError


class BackupError(KafkaError):
    """A backup cannot be made, read or restored: a file is missing or changed, or a topic does not match."""

    name = "BACKUP"


class RestoreIncompleteError(BackupError):
    """A restore failed after it had begun to write. The same call continues it. The cause is the first error.

    Attributes:
        written: number of records that the call has written, by topic.
    """

    name = "RESTORE_INCOMPLETE"
    retriable = True

    def __init__(self, text: str, written: Mapping[str, int] | None = None) -> None:
        super().__init__(text)
        self.written: Mapping[str, int] = dict(written or {})
