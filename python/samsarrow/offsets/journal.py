"""What a relative change meant to do, kept until it is done.

A shift by -100 that is killed half-way and run again would shift twice what it had shifted before. So the offsets that
it leads to are written down first, and a second run goes on to those.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from samsarrow.offsets.disk import sync_folder, write_whole
from samsarrow.offsets.move import Change
from samsarrow.offsets.store import OffsetStoreError
from samsarrow.types import OffsetAndMetadata, TopicPartition


def default_folder() -> Path:
    """Where journals are, as the XDG base directories have it."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "samsarrow" / "offsets"


class Journal:
    """The plan of one command with these arguments.

    Args:
        folder: of all journals.
        arguments: what makes the command what it is.
    """

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self._arguments = list(arguments)
        digest = hashlib.sha256(json.dumps(self._arguments).encode()).hexdigest()[:32]
        self.path = folder / f"{digest}.json"

    def begin(self, changes: Sequence[Change]) -> None:
        """Writes the plan down before the first change."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = [[*c.partition, c.before, c.after] for c in changes]
        whole = {"arguments": self._arguments, "time": time.strftime("%F %T %z"), "changes": rows}
        write_whole(self.path, json.dumps(whole, ensure_ascii=False) + "\n")

    def unfinished(self) -> tuple[str, list[Change]] | None:
        """When a run began that did not end, and what it was to do.

        Raises:
            OffsetStoreError: the journal cannot be read.
        """
        try:
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            return None
        try:
            whole = json.loads(text)
            changes = [
                Change(TopicPartition(topic, partition), _offset(before), OffsetAndMetadata(*after))
                for topic, partition, before, after in whole["changes"]
            ]
            return whole["time"], changes
        except (ValueError, KeyError, TypeError) as error:
            raise OffsetStoreError(f"{self.path} is not a journal ({error!r}): look at it and remove it") from error

    def end(self) -> None:
        """All is done, or is not to be done."""
        self.path.unlink(missing_ok=True)
        if self.path.parent.is_dir():
            sync_folder(self.path.parent)


def resumable(changes: Sequence[Change], found: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
    """Whether a plan can still be carried out.

    Raises:
        OffsetStoreError: a partition is neither where it was nor where it is to go: another client has committed since.
    """
    for change in changes:
        now = found.get(change.partition)
        if (now and now.offset) not in (change.before and change.before.offset, change.after.offset):
            topic, partition = change.partition
            was, to = change.before and change.before.offset, change.after.offset
            raise OffsetStoreError(
                f"{topic}-{partition} is at {now and now.offset}, neither at {was} as before nor at {to} as planned: "
                "another client has committed since"
            )


def _offset(row: list[object] | None) -> OffsetAndMetadata | None:
    return None if row is None else OffsetAndMetadata(*row)  # type: ignore[arg-type]
