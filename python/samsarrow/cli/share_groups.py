"""Share groups (KIP-932) and Kafka Streams groups (KIP-1071) in commands on groups and offsets.

Share groups have no committed offsets. Their position in a partition is the start offset: the first record that is not
finished. Kafka counts their lag, because records behind the start offset may be finished too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from samsarrow.admin_types import OffsetSpec
from samsarrow.cli.offsets_lookup import look_up
from samsarrow.cli.output import each_result
from samsarrow.exceptions import GroupIdNotFoundError, KafkaError, UnknownTopicOrPartitionError
from samsarrow.types import GroupListing, TopicPartition

if TYPE_CHECKING:
    from samsarrow import Admin
    from samsarrow.cli.connection import Connection

TYPE = "share"
STREAMS = "streams"


@dataclass(frozen=True)
class ShareRow:
    """A partition of a share group: its start offset, the end of the partition, and the lag."""

    group: str
    partition: TopicPartition
    offset: int
    end: int | None
    lag: int | None


def without_share_groups(listed: Mapping[str, GroupListing]) -> dict[str, GroupListing]:
    """Returns the groups that are not share groups, and therefore can have committed offsets."""
    return {name: group for name, group in listed.items() if group.type != TYPE}


def group_types(admin: Admin) -> dict[str, str | None]:
    """Returns the type of each group that Kafka lists. Brokers before 3.8 do not report types."""
    try:
        return {name: group.type for name, group in admin.list_groups().items()}
    except KafkaError:
        # Requests for the groups themselves may succeed, and otherwise report the error of each group.
        return {}


def of_type(types: Mapping[str, str | None], names: Iterable[str], kind: str) -> list[str]:
    """Returns the groups of a type."""
    return [name for name in names if types.get(name) == kind]


def share_lags(connection: Connection, names: list[str]) -> tuple[list[ShareRow], dict[str, KafkaError]]:
    """Looks up the start offsets and end offsets of share groups. Returns the rows, and errors by group."""
    errors: dict[str, KafkaError] = {}
    starts = []
    for name, found in each_result(connection.admin.list_share_offsets(names)) if names else ():
        if isinstance(found, KafkaError):
            errors[name] = found
            continue
        for tp, at in each_result(found):
            if isinstance(at, UnknownTopicOrPartitionError) or at is None:
                continue
            if isinstance(at, KafkaError):
                errors[name] = at
            else:
                starts.append((name, tp, at))
    ends: dict[TopicPartition, int] = {}
    partitions = sorted({tp for _, tp, _ in starts})
    for tp, end in each_result(look_up(connection, partitions, OffsetSpec.LATEST)) if partitions else ():
        if isinstance(end, KafkaError):
            errors |= {name: end for name, of, _ in starts if of == tp}
        elif end is not None:
            ends[tp] = end.offset
    rows = []
    for name, tp, at in sorted(starts, key=lambda start: start[:2]):
        last = ends.get(tp)
        lag = at.lag if at.lag is not None or last is None else max(last - at.start, 0)
        rows.append(ShareRow(name, tp, at.start, last, lag))
    return rows, errors


def explain(admin: Admin, errors: Mapping[str, KafkaError]) -> dict[str, KafkaError]:
    """Returns the errors by group. Errors of share groups are replaced by an error that explains the reason."""
    if not any(isinstance(error, GroupIdNotFoundError) for error in errors.values()):
        return dict(errors)
    listed = admin.list_groups()
    return {name: share_group_error(name) if _is(listed, name, TYPE) else error for name, error in errors.items()}


def check_not_share(admin: Admin, group: str) -> None:
    """Rejects a share group.

    Raises:
        KafkaError: the group is a share group.
    """
    if _is(admin.list_groups(), group, TYPE):
        raise share_group_error(group)


def share_group_error(name: str) -> KafkaError:
    """Returns the error that a command on committed offsets reports for a share group."""
    return KafkaError(
        f"{name} is a share group, which has no committed offsets: use `samsarrow groups describe`, `groups lag`, "
        "`offsets describe` or `offsets reset`"
    )


def _is(listed: Mapping[str, GroupListing], name: str, kind: str) -> bool:
    return name in listed and listed[name].type == kind
