"""Atomic replacement of files, and locks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO


class FileLockedError(Exception):
    """Another process has a lock.

    Attributes:
        holder: number of the process, or `unknown`.
    """

    def __init__(self, holder: str) -> None:
        super().__init__(holder)
        self.holder = holder


def take_lock(path: str | os.PathLike[str]) -> IO[str]:
    """Takes a lock, which is held until the returned file is closed, or the process ends.

    Raises:
        FileLockedError: another process has the lock.
    """
    import fcntl  # not available on Windows, where the rest of this package works

    # The lock file is truncated only while the lock is held, and never removed, because a second file of that name
    # would be a second lock.
    lock = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666), "r+")  # noqa: SIM115
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise FileLockedError(holder) from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def write_whole(path: Path, text: str) -> None:
    """Replaces a file atomically. On return the new file is on the disk; after a failure the old file remains.

    Only one process may write to a file at a time, because all processes use the same temporary file name. Devices,
    pipes and sockets are written directly, and links are followed.
    """
    path = path.resolve()
    if not is_replaceable(path):
        path.write_text(text, encoding="utf-8")
        return
    draft = path.with_name(f"{path.name}.new")
    with draft.open("w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    draft.replace(path)
    sync_folder(path.parent)


def is_replaceable(path: Path) -> bool:
    """Returns whether `path` can be replaced: it is a regular file or does not exist."""
    return path.is_file() or not path.exists()


def sync_folder(folder: Path) -> None:
    """Flushes the entries of a folder to the disk.

    Does nothing on Windows, where folders cannot be opened and NTFS logs their changes.
    """
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
