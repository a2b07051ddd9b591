"""Store of offsets in a file."""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from samsarrow.offsets.disk import FileLockedError, take_lock, write_whole
from samsarrow.offsets.store import Found, Offsets, OffsetStoreError, StoreLockedError, normal, only
from samsarrow.types import OffsetAndMetadata, TopicPartition

_FORMAT = 1


class FileOffsetStore:
    """Store of offsets in a JSON file, which is replaced atomically: a crash leaves the old or the new file.

    Only one store can write at a time. It holds a lock on `PATH.lock` until it is closed or its process ends. Reading
    needs no lock. A store belongs to the process that created it, and is read-only in the child of a fork.

    Args:
        path: path of the file, which the first `store` creates. Its folder must exist.
        read_only: whether to take no lock and to reject `store`.

    Raises:
        StoreLockedError: another store has the lock.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = Path(path)
        self._mutex = threading.Lock()
        self._process = os.getpid()
        self._lock: IO[str] | None = None if read_only else self._take_lock()
        _locking.add(self)

    def _take_lock(self) -> IO[str]:
        name = f"{self.path}.lock"
        try:
            return take_lock(name)
        except FileLockedError as error:
            raise StoreLockedError(f"{self.path}: process {error.holder} is writing to it and holds {name}") from None

    def __repr__(self) -> str:
        return f"<{type(self).__name__} path={str(self.path)!r}{'' if self._lock else ', read-only or closed'}>"

    def load(self, partitions: Iterable[TopicPartition] | None = None) -> Found:
        """Returns stored offsets.

        Args:
            partitions: partitions to return; by default all stored ones.

        Raises:
            OffsetStoreError: the content of the file is not that of an offset store.
        """
        return only(self._read(), partitions)

    def _read(self) -> dict[TopicPartition, OffsetAndMetadata]:
        try:
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            return {}
        try:
            content = json.loads(text)
            if content["format"] != _FORMAT:
                raise ValueError(f"format {content['format']!r} is not {_FORMAT}")
            return {
                TopicPartition(topic, int(partition)): _offset(entry)
                for topic, entries in content["offsets"].items()
                for partition, entry in entries.items()
            }
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            text = f"{self.path} is not a file of offsets ({error!r}): restore it or move it away"
            raise OffsetStoreError(text) from error

    def store(self, offsets: Offsets) -> None:
        """Stores offsets. On return the offsets are on the disk.

        Args:
            offsets: offsets by partition; other partitions stay unchanged.

        Raises:
            OffsetStoreError: the store is read-only or closed, belongs to the parent of this process, or the content of
                the file is not that of an offset store.
        """
        new = normal(offsets)
        if self._process != os.getpid():
            text = f"{self.path}: process {self._process} made this store and has its lock: make another one here"
            raise OffsetStoreError(text)
        with self._mutex:
            if self._lock is None:
                raise OffsetStoreError(f"{self.path}: this store is read-only or closed")
            self._replace(self._read() | new)

    def _replace(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        tree: dict[str, dict[str, Any]] = {}
        for (topic, partition), offset in sorted(offsets.items()):
            tree.setdefault(topic, {})[str(partition)] = offset._asdict()
        text = json.dumps({"format": _FORMAT, "offsets": tree}, indent=1, ensure_ascii=False)
        write_whole(self.path, text + "\n")

    def close(self) -> None:
        """Releases the lock. May be called again. In the child of a fork, the parent keeps the lock."""
        if self._process != os.getpid():
            return
        with self._mutex:
            lock, self._lock = self._lock, None
            if lock is not None:
                lock.close()


def _close_inherited() -> None:
    # Closes the file in the child of a fork. The child inherits the open file, which would keep the lock after the
    # parent has closed the store.
    for store in list(_locking):
        if store._lock is not None:
            store._lock.close()


_locking: weakref.WeakSet[FileOffsetStore] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


def _offset(entry: Any) -> OffsetAndMetadata:
    offset, metadata, epoch = entry["offset"], entry.get("metadata", ""), entry.get("leader_epoch")
    valid = isinstance(offset, int) and offset >= 0 and isinstance(metadata, str)
    if not valid or not (epoch is None or isinstance(epoch, int)):
        raise ValueError(f"{entry!r} is not a valid offset")
    return OffsetAndMetadata(offset, metadata, epoch)
