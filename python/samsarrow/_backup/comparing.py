"""Comparison of a restored partition with its backup, by digests, while it is read from its beginning."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from samsarrow._backup.digests import RecordDigest
from samsarrow._backup.errors import BackupError
from samsarrow._backup.files import read_batches, rows_before
from samsarrow._backup.manifest import BackupFile, PartitionBackup


class Comparison:
    """Comparison of the records of a topic with those of a backup, and the offsets at which some records are.

    Args:
        folder: folder of the backup.
        backup: the partition in the backup.
        name: name of the partition in the cluster, for errors.
        numbers: numbers of records whose offsets are looked up, counted from 0.
    """

    def __init__(self, folder: Path, backup: PartitionBackup, name: str, numbers: Iterable[int] = ()) -> None:
        self._folder, self._files, self._name = folder, backup.files, name
        self._total = backup.rows
        self._numbers = sorted(set(numbers))
        self._digest = RecordDigest()
        # Number of the file that is compared, and the offset of its first record in the topic.
        self._file, self._since = 0, 0
        self.rows = 0
        self.found: dict[int, int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        """Adds the next records of the topic.

        Raises:
            BackupError: they are not those of the backup.
        """
        offsets = batch.column("offset")
        for row in self._numbers:
            if self.rows <= row < self.rows + batch.num_rows:
                self.found[row] = offsets[row - self.rows].as_py()
        while batch.num_rows:
            if self._file == len(self._files):
                raise BackupError(
                    f"{self._name} has more records than the backup: the first is at offset "
                    f"{batch.column('offset')[0].as_py()}; another client has written to the topic"
                )
            file = self._files[self._file]
            part = batch.slice(0, file.rows - self._digest.rows)
            if not self._digest.rows:
                self._since = part.column("offset")[0].as_py()
            self._digest.update(part)
            self.rows += part.num_rows
            batch = batch.slice(part.num_rows)
            if self._digest.rows == file.rows:
                if self._digest.hexdigest() != file.records:
                    raise self._differ(file, part.column("offset")[-1].as_py(), file.last)
                self._file += 1
                self._digest = RecordDigest()

    def check_start(self) -> None:
        """Checks that the added records equal the first records of the backup.

        Raises:
            BackupError: the records of an incomplete file differ.
        """
        count = self._digest.rows
        if not count:
            return
        file, digest, last = self._files[self._file], RecordDigest(), 0
        for batch in read_batches(self._folder, file):
            part = batch.slice(0, count - digest.rows)
            digest.update(part)
            last = part.column("offset")[-1].as_py()
            if digest.rows == count:
                break
        if digest.hexdigest() != self._digest.hexdigest():
            raise self._differ(file, self._since + count - 1, last)

    def finish(self) -> None:
        """Checks that all records of the backup were added.

        Raises:
            BackupError: records are missing.
        """
        if self.rows < self._total:
            raise BackupError(
                f"{self._name} has {self.rows:,} of {self._total:,} records of the backup: records were removed from "
                "the topic while it was restored, or another client aborted them"
            )

    def _differ(self, file: BackupFile, last: int, backup_last: int) -> BackupError:
        return BackupError(
            f"{self._name}: the records at offsets {self._since} to {last} are not those at offsets {file.first} to "
            f"{backup_last} of the backup ({file.path}): another client has written to the topic"
        )


def row_number(folder: Path, backup: PartitionBackup, offset: int) -> int:
    """Returns the number of records of a partition with smaller offsets.

    This is the number of the record at the offset; or, if there is none, of the record after the gap; or the number of
    all records if the offset is at the end.

    Raises:
        BackupError: a file is missing, or is not Parquet.
    """
    return sum(rows_before(folder, file, offset) for file in backup.files)
