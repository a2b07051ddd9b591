"""Handling of share groups (KIP-932), which commands on committed offsets and lag do not support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from samsarrow.exceptions import GroupIdNotFoundError, KafkaError
from samsarrow.types import GroupListing

if TYPE_CHECKING:
    from samsarrow import Admin

TYPE = "share"


def without_share_groups(listed: Mapping[str, GroupListing]) -> dict[str, GroupListing]:
    """Returns the groups that are not share groups, and therefore can have committed offsets."""
    return {name: group for name, group in listed.items() if group.type != TYPE}


def explain(admin: Admin, errors: Mapping[str, KafkaError]) -> dict[str, KafkaError]:
    """Returns the errors by group. Errors of share groups are replaced by an error that explains the reason."""
    if not any(isinstance(error, GroupIdNotFoundError) for error in errors.values()):
        return dict(errors)
    listed = admin.list_groups()
    return {name: share_group_error(name) if _is_share(listed, name) else error for name, error in errors.items()}


def check_not_share(admin: Admin, group: str) -> None:
    """Rejects a share group.

    Raises:
        KafkaError: the group is a share group.
    """
    if _is_share(admin.list_groups(), group):
        raise share_group_error(group)


def share_group_error(name: str) -> KafkaError:
    """Returns the error that a command on committed offsets reports for a share group."""
    return KafkaError(
        f"{name} is a share group, which has no committed offsets: use `list_share_offsets` and "
        "`describe_share_groups` of `samsarrow.Admin`"
    )


def _is_share(listed: Mapping[str, GroupListing], name: str) -> bool:
    return name in listed and listed[name].type == TYPE
