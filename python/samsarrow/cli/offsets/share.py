"""Start offsets of share groups as an offset store, for `samsarrow offsets reset`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from samsarrow.admin import Admin
from samsarrow.offsets.store import Found, Offsets, normal
from samsarrow.types import OffsetAndMetadata, TopicPartition


class ShareOffsetStore:
    """The start offsets of a share group (KIP-932). They have no metadata, and change only while it has no members."""

    offsets_only = True
    rewrites_equal = True
    """True because the group also stores which records after the start offset are finished. A write resets them."""

    def __init__(self, group: str, admin: Admin) -> None:
        self.group = group
        self._admin = admin

    def load(self, partitions: Iterable[TopicPartition] | None = None) -> Found:
        """Returns the start offsets of these partitions, by default of all that have one."""
        selected = None if partitions is None else list(partitions)
        found = self._admin.list_share_offsets({self.group: selected})[self.group]
        return {tp: None if (at := found[tp]) is None else OffsetAndMetadata(at.start) for tp in found}

    def store(self, offsets: Offsets) -> None:
        """Sets start offsets. The delivery counts and locks of the partitions' records are lost."""
        self._admin.alter_share_offsets(self.group, {tp: at.offset for tp, at in normal(offsets).items()})

    def close(self) -> None:
        """Does nothing: the admin client belongs to the command."""

    def check_idle(self, force: bool) -> None:
        """Rejects a group with members, as Kafka does.

        Raises:
            click.ClickException: the group has members.
        """
        described = self._admin.describe_share_groups([self.group])[self.group]
        if not described.members:
            return
        members = ", ".join(sorted({f"{m.client_id} at {m.host}" for m in described.members}))
        hint = "; --force has no effect, because Kafka rejects it" if force else ""
        raise click.ClickException(
            f"share group {self.group} is active ({described.state}; members: {members}): stop its consumers first, "
            f"because Kafka changes start offsets only of a group without members{hint}"
        )
