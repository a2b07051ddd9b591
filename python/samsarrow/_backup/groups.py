"""Group offsets of a backup, translated to the offsets of restored topics."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from samsarrow._backup.errors import BackupError
from samsarrow._backup.manifest import Groups
from samsarrow.admin import Admin
from samsarrow.exceptions import GroupIdNotFoundError, KafkaError, UnsupportedVersionError
from samsarrow.offsets.kafka import KafkaOffsetStore
from samsarrow.offsets.move import apply, plan
from samsarrow.types import OffsetAndMetadata, TopicPartition

Translate = Callable[[TopicPartition], Callable[[int], int] | None]
"""Returns the function that translates offsets of a partition, or None if they are not restored."""


class GroupOffsets:
    """Offsets of groups to restore.

    Args:
        groups: offsets in the backup, by group.
        names: new names of the topics that are restored, by their names in the backup.
    """

    def __init__(self, groups: Groups, names: Mapping[str, str]) -> None:
        self._names = names
        self._groups = {
            group: {tp: at for tp, at in offsets.items() if tp.topic in names} for group, offsets in groups.items()
        }

    def positions(self, partition: TopicPartition) -> set[int]:
        """Returns the offsets of all groups in a partition of the backup."""
        return {offsets[partition].offset for offsets in self._groups.values() if partition in offsets}

    def check_idle(self, admin: Admin, timeout: float | None) -> None:
        """Raises an error if a group has members, because brokers take offsets only from these.

        Raises:
            BackupError: a group has members.
        """
        for name, group in self._groups.items():
            if not group:
                continue
            try:
                description = admin.describe_groups([name], timeout=timeout)[name]
            except (GroupIdNotFoundError, UnsupportedVersionError):
                continue
            if description.active:
                raise BackupError(
                    f"group {name} is active ({description.state}): stop its consumers, or leave its offsets out "
                    "(--group or --no-groups)"
                )

    def commit(self, admin: Admin, translate: Translate) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Commits translated offsets, reads them back, and returns them by group.

        Leader epochs are left out, because those of another topic mean nothing.
        """
        done: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        for name, offsets in self._groups.items():
            translated_offsets = {}
            for old, at in offsets.items():
                translated = translate(old)
                if translated is not None:
                    new = TopicPartition(self._names[old.topic], old.partition)
                    translated_offsets[new] = OffsetAndMetadata(translated(at.offset), at.metadata)
            if not translated_offsets:
                continue
            try:
                store = KafkaOffsetStore(name, admin=admin)
                apply(store, plan(store, translated_offsets))
            except KafkaError as error:
                error.add_note(f"the offsets of group {name} were not restored")
                raise
            done[name] = translated_offsets
        return done
