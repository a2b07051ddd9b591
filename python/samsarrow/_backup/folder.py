"""Folder of a backup: the manifest, the journal of an unfinished run, and a lock."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

from samsarrow._backup.errors import BackupError
from samsarrow._backup.manifest import BackupFile, Manifest, TopicBackup, check_path
from samsarrow.offsets.disk import FileLockedError, sync_folder, take_lock, write_whole

MANIFEST, JOURNAL, LOCK = "manifest.json", "journal.ndjson", ".lock"


def read_manifest(folder: Path) -> Manifest:
    """Returns the manifest of the last complete backup in a folder.

    Raises:
        BackupError: there is none, or it cannot be read.
    """
    path = folder / MANIFEST
    try:
        return Manifest.from_json(path.read_text("utf-8"), str(path))
    except FileNotFoundError:
        pass
    except UnicodeDecodeError:
        raise BackupError(f"{path} is not text: restore the file from a copy, or make another backup") from None
    if (folder / JOURNAL).exists():
        raise BackupError(f"the backup in {folder} is not complete: run `samsarrow backup` again, which continues it")
    raise BackupError(f"{folder} has no backup: there is no {MANIFEST} in it")


class Plan(NamedTuple):
    """A run that is planned or has begun.

    Attributes:
        manifest: the manifest after the run, without the files that are not complete yet.
        positions: the next offset to read of each partition, by topic.
    """

    manifest: Manifest
    positions: dict[str, list[int]]


class Folder:
    """Folder of a backup that is being made. Only one process can write to it.

    While a backup runs, its journal has a line with the plan, and a line for each complete file. At the end the
    manifest replaces it.

    Args:
        path: the folder, which is created.

    Raises:
        BackupError: the folder has other files, or another process writes to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        existing = {entry.name for entry in path.iterdir()}
        if existing - {LOCK} and not existing & {MANIFEST, JOURNAL}:
            raise BackupError(
                f"{path} has other files, and no backup: name an empty folder, or one that does not exist"
            )
        try:
            self._lock: IO[str] = take_lock(path / LOCK)
        except FileLockedError as error:
            raise BackupError(
                f"{path}: process {error.holder} writes a backup to it; wait until it has ended"
            ) from None
        self._journal: IO[bytes] | None = None

    def finished(self) -> Manifest | None:
        """Returns the manifest of the last complete backup, None before the first."""
        return read_manifest(self.path) if (self.path / MANIFEST).exists() else None

    def unfinished(self) -> Plan | None:
        """Returns the plan of a run that did not end, with its complete files; None without such a run.

        Raises:
            BackupError: the journal cannot be read.
        """
        path = self.path / JOURNAL
        if not path.exists():
            return None
        raw = path.read_bytes()
        # A process that was killed may have left an incomplete last line, whose file is written again.
        whole = raw[: raw.rfind(b"\n") + 1]
        if not whole:
            path.unlink()
            return None
        try:
            first, *lines = [json.loads(line) for line in whole.splitlines()]
            plan = Manifest.from_tree(first["manifest"], str(path))
            positions = {name: list(offsets) for name, offsets in first["positions"].items()}
            topics = dict(plan.topics)
            for line in lines:
                name, number = line["topic"], line["partition"]
                topics[name] = _with_line(topics[name], number, line)
                after = line["lost"][1] if "lost" in line else line["file"]["last"] + 1
                positions[name][number] = max(positions[name][number], after)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            remedy = (
                "remove this file, and run the backup again, which reads the records of the interrupted run once more"
                if (self.path / MANIFEST).exists()
                else f"remove {self.path}, which has no complete backup, and make another one"
            )
            raise BackupError(f"{path} is not a journal ({error!r}): {remedy}") from None
        self._journal = path.open("r+b")
        self._journal.truncate(len(whole))
        self._journal.seek(0, os.SEEK_END)
        return Plan(Manifest(plan.cluster_id, plan.made, topics, plan.groups), positions)

    def begin(self, plan: Plan) -> None:
        """Starts the journal."""
        self._journal = (self.path / JOURNAL).open("wb")
        self._append({"manifest": plan.manifest.to_tree(), "positions": plan.positions})
        sync_folder(self.path)

    def add_file(self, topic: str, partition: int, file: BackupFile) -> None:
        """Records a complete file in the journal."""
        self._append({"topic": topic, "partition": partition, "file": asdict(file)})

    def add_loss(self, topic: str, partition: int, loss: tuple[int, int]) -> None:
        """Records lost offsets in the journal."""
        self._append({"topic": topic, "partition": partition, "lost": list(loss)})

    def _append(self, line: Any) -> None:
        assert self._journal is not None
        self._journal.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._journal.flush()
        os.fsync(self._journal.fileno())

    def finish(self, manifest: Manifest) -> None:
        """Writes the manifest, and removes the journal."""
        write_whole(self.path / MANIFEST, manifest.to_json())
        self._close_journal()
        (self.path / JOURNAL).unlink(missing_ok=True)
        sync_folder(self.path)

    def remove_unlisted(self, topics: Iterable[TopicBackup]) -> None:
        """Removes files of a killed run that are not in its journal, so that they are not read by other programs."""
        for topic in topics:
            listed = {file.path for file in topic.files}
            for partition in topic.partitions:
                place = f"{topic.name}/{partition.partition}"
                for path in (self.path / place).glob("*"):
                    own = path.name == ".part" or (path.suffix == ".parquet" and path.stem.isdecimal())
                    if own and f"{place}/{path.name}" not in listed:
                        path.unlink()

    def _close_journal(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def __enter__(self) -> Folder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close_journal()
        self._lock.close()


def _with_line(topic: TopicBackup, number: int, line: Any) -> TopicBackup:
    """Returns a topic with the file or the lost offsets of a line in the journal."""
    if "lost" in line:
        start, end = line["lost"]
        return topic.with_loss(number, (start, end))
    file = BackupFile(**line["file"])
    check_path(file.path, topic.name, number)
    return topic.with_file(number, file)
