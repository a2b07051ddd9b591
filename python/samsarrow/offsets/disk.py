"""Files that are there as a whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Replaces a file; when this returns the new one is on the disk, and before that the old one is.

    One process writes a file at a time: the draft has the same name for all. Devices, pipes and sockets are written to,
    and links are followed.
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
    """Returns whether a file can take the place of `path`: a file, or none yet, but no device, pipe or socket."""
    return path.is_file() or not path.exists()


def sync_folder(folder: Path) -> None:
    """Puts on the disk which files a folder has. Windows opens no folders; NTFS has its own log for them."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
