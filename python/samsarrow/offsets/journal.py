"""Journal of relative offset changes, kept until all changes are applied.

If a shift by -100 were killed and run again, it would shift some partitions twice. Therefore the target offsets are
written to a journal first, and a second run applies the offsets in the journal.
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
    """Returns the folder of journals, below the state directory of the XDG base directory specification."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "samsarrow" / "offsets"


class Journal:
    """Journal of the planned changes of one command.

    Args:
        folder: folder that contains all journals.
        arguments: arguments that identify the command.
    """

    def __init__(self, folder: Path, arguments: Sequence[str]) -> None:
        self._arguments = list(arguments)
        digest = hashlib.sha256(json.dumps(self._arguments).encode()).hexdigest()[:32]
        self.path = folder / f"{digest}.json"

    def begin(self, changes: Sequence[Change]) -> None:
        """Writes the planned changes to the disk. Called before the first change is applied."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        rows = [[*c.partition, c.before, c.after] for c in changes]
        content = {"arguments": self._arguments, "time": time.strftime("%F %T %z"), "changes": rows}
        write_whole(self.path, json.dumps(content, ensure_ascii=False) + "\n")

    def unfinished(self) -> tuple[str, list[Change]] | None:
        """Returns the start time and the changes of a run that did not finish; None without such a run.

        Raises:
            OffsetStoreError: the journal cannot be read.
        """
        try:
            text = self.path.read_text("utf-8")
        except FileNotFoundError:
            return None
        try:
            content = json.loads(text)
            changes = [
                Change(TopicPartition(topic, partition), _offset(before), OffsetAndMetadata(*after))
                for topic, partition, before, after in content["changes"]
            ]
            return content["time"], changes
        except (ValueError, KeyError, TypeError) as error:
            raise OffsetStoreError(f"{self.path} is not a journal ({error!r}): look at it and remove it") from error

    def end(self) -> None:
        """Removes the journal. Called when all changes were applied or abandoned."""
        self.path.unlink(missing_ok=True)
        if self.path.parent.is_dir():
            sync_folder(self.path.parent)


def resumable(changes: Sequence[Change], stored: Mapping[TopicPartition, OffsetAndMetadata | None]) -> None:
    """Checks that the planned changes can still be applied.

    Raises:
        OffsetStoreError: an offset equals neither the offset before the change nor the planned offset, because another
            client has committed in the meantime.
    """
    for change in changes:
        current = stored.get(change.partition)
        if (current and current.offset) not in (change.before and change.before.offset, change.after.offset):
            topic, partition = change.partition
            old, new = change.before and change.before.offset, change.after.offset
            offset = current and current.offset
            raise OffsetStoreError(
                f"{topic}-{partition} is at {offset}, neither at {old} as before nor at {new} as planned: "
                "another client has committed since"
            )


def _offset(row: list[object] | None) -> OffsetAndMetadata | None:
    return None if row is None else OffsetAndMetadata(*row)  # type: ignore[arg-type]
