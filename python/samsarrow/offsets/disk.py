"""Atomic replacement of files."""

from __future__ import annotations

import os
from pathlib import Path


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
