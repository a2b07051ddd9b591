"""`samsarrow offsets describe` and `export`, which change nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from samsarrow.admin_types import OffsetSpec
from samsarrow.cli.commands import Command
from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.offsets.common import Cluster, TopicChoice, connected, storage_option, topic_option
from samsarrow.cli.offsets_lookup import look_up
from samsarrow.cli.output import each_result, named, no_rows, output_option, output_options, report_errors, show
from samsarrow.cli.share_groups import TYPE as SHARE
from samsarrow.cli.share_groups import check_not_share, group_types, of_type, share_lags, without_share_groups
from samsarrow.exceptions import GroupIdNotFoundError, KafkaError, KafkaTimeoutError
from samsarrow.offsets.disk import write_whole
from samsarrow.offsets.formats import FORMATS, Snapshot, dump
from samsarrow.offsets.move import stored
from samsarrow.types import GroupDescription, MemberDescription, OffsetAndMetadata, TopicPartition


def group_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the connection options to a command, and the options that select groups, a storage and partitions."""
    command = topic_option("Only these partitions; repeatable.")(command)
    command = storage_option(command)
    command = click.option("--all-groups", is_flag=True, help="All groups that Kafka lists.")(command)
    return click.argument("groups", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)(connected(command))


@dataclass(frozen=True)
class Row:
    """A line of `offsets describe`: a partition of a group."""

    partition: TopicPartition
    at: OffsetAndMetadata | None
    end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        """Number of offsets from the committed offset to the end."""
        return None if self.at is None or self.end is None else max(self.end - self.at.offset, 0)


HEADS = (
    "group", "state", "topic", "partition", "offset", "end", "lag", "metadata", "leader_epoch", "client_id", "host",
    "member_id", "instance_id",
)  # fmt: skip


@click.command(cls=Command)
@group_options
@output_option
def describe(
    cluster: Cluster,
    groups: tuple[str, ...],
    all_groups: bool,
    storage: str,
    topics: tuple[TopicChoice, ...],
    form: str | None,
) -> None:
    """Describe groups: offset, end, lag, metadata and member of each partition.

    A group without offsets and members has a single line. A group that does not exist is an error, exit code 1. The
    offset of a share group is its start offset, the first record that is not finished.
    """
    names = selected_groups(cluster, groups, all_groups, share=storage == "kafka")
    share = of_type(group_types(cluster.admin), names, SHARE) if storage == "kafka" else []
    lines: list[tuple[Any, ...]] = []
    errors: dict[str, KafkaError] = {}
    unread: dict[str, KafkaError] = {}
    for group in names:
        try:
            if group in share:
                lines += _share_lines(cluster, group, topics)
                continue
            description = cluster.description(group)
            rows, without_end = _rows(cluster, group, storage, topics, description)
        except KafkaTimeoutError:
            # If the cluster does not respond, the lookups of all further groups would also time out.
            raise
        except KafkaError as error:
            errors[f"group {group}"] = error
            continue
        if not rows and description is None:
            errors[f"group {group}"] = _no_offsets(storage, topics)
            continue
        unread |= {f"the end of {named(tp)}": error for tp, error in without_end.items()}
        first = (group, description and description.state)
        lines += [(*first, *_line(row)) for row in rows] or [(*first, *[None] * (len(HEADS) - len(first)))]
    show(form, HEADS, lines, "" if errors else no_rows("groups"))
    if unread:
        report_errors(errors | unread, len(errors) + len(lines), "groups and partitions")
    report_errors(errors, len(names), "groups")


def _share_lines(cluster: Cluster, group: str, topics: tuple[TopicChoice, ...]) -> list[tuple[Any, ...]]:
    """Returns the lines of a share group, whose members share partitions and are therefore left out.

    Raises:
        KafkaError: a lookup failed.
    """
    state = cluster.admin.describe_share_groups([group])[group].state
    rows, errors = share_lags(cluster, [group])
    if group in errors:
        raise errors[group]
    unused = [None] * (len(HEADS) - 7)
    selected = [row for row in rows if not topics or any(topic.takes(row.partition) for topic in topics)]
    lines = [(group, state, *row.partition, row.offset, row.end, row.lag, *unused) for row in selected]
    return lines or [(group, state, *[None] * (len(HEADS) - 2))]


def _no_offsets(storage: str, topics: tuple[TopicChoice, ...]) -> KafkaError:
    """Returns the error for a group that Kafka does not know and that has no offsets."""
    partitions = " of these partitions" if topics else ""
    if storage == "zookeeper":
        return KafkaError(f"ZooKeeper has no offsets{partitions} for it")
    return GroupIdNotFoundError(f"the group does not exist, or has no offsets{partitions}")


def _line(row: Row) -> tuple[Any, ...]:
    at, member = row.at, row.member
    stored_fields = (None, None) if at is None else (at.metadata, at.leader_epoch)
    owner = (None,) * 4 if member is None else (member.client_id, member.host, member.member_id, member.instance_id)
    return (*row.partition, at and at.offset, row.end, row.lag, *stored_fields, *owner)


def selected_groups(cluster: Cluster, groups: tuple[str, ...], all_groups: bool, *, share: bool = False) -> list[str]:
    """Returns the groups that the command line selects. `share` includes share groups in all groups."""
    if all_groups == bool(groups):
        raise click.UsageError("name groups, or pass --all-groups")
    if not all_groups:
        return list(dict.fromkeys(groups))
    listed = cluster.admin.list_groups()
    return sorted(listed if share else without_share_groups(listed))


def _rows(
    cluster: Cluster, group: str, storage: str, topics: tuple[TopicChoice, ...], description: GroupDescription | None
) -> tuple[list[Row], dict[TopicPartition, KafkaError]]:
    """Returns the rows of a group's partitions, and the errors of looking up their end offsets."""
    found = stored(
        cluster.store(storage, group), cluster.partitions(topics) if topics and storage == "zookeeper" else None
    )
    # Offsets in ZooKeeper belong to older consumers, which are not members of the group in Kafka.
    members = description.members if description is not None and storage == "kafka" else ()
    owners = {tp: member for member in members for tp in member.assignment}
    partitions = [tp for tp in sorted({*found, *owners}) if not topics or any(topic.takes(tp) for topic in topics)]
    counts = {name: topic.partitions for name, topic in cluster.admin.list_topics().items()}
    existing = [tp for tp in partitions if tp.partition < counts.get(tp.topic, 0)]
    ends: dict[TopicPartition, int] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for tp, at in each_result(look_up(cluster, existing, OffsetSpec.LATEST)) if existing else ():
        if isinstance(at, KafkaError):
            errors[tp] = at
        elif at is not None:
            ends[tp] = at.offset
    return [Row(tp, found.get(tp), ends.get(tp), owners.get(tp)) for tp in partitions], errors


@click.command(cls=Command)
@group_options
@output_options(FORMATS, "The format of the file.", old=("--format",), default="json", show_default=True)
@click.option(
    "-O",
    "--output-file",
    "output",
    type=click.Path(dir_okay=False, writable=True, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="A file; by default, and with -, standard output.",
)
def export(
    cluster: Cluster,
    groups: tuple[str, ...],
    all_groups: bool,
    storage: str,
    topics: tuple[TopicChoice, ...],
    form: str,
    output: Path | None,
) -> None:
    """Export the offsets of groups to a file or to standard output, for `import`.

    The format `zookeeper` is that of Kafka's old ExportZkOffsets: /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET.
    """
    names = selected_groups(cluster, groups, all_groups)
    snapshot: Snapshot = {}
    errors: dict[str, KafkaError] = {}
    if storage == "zookeeper":
        for name in names:
            snapshot[name] = stored(cluster.store(storage, name))
    else:
        for name, found in each_result(cluster.admin.fetch_offsets_many(names)):
            if isinstance(found, KafkaError):
                errors[f"group {name}"] = found
            else:
                snapshot[name] = {tp: at for tp, at in found.items() if at is not None}
    if topics:
        snapshot = {
            group: {tp: at for tp, at in offsets.items() if any(topic.takes(tp) for topic in topics)}
            for group, offsets in snapshot.items()
        }
    for group in sorted(group for group, offsets in snapshot.items() if not offsets):
        if storage == "kafka" and not topics:
            check_not_share(cluster.admin, group)
        click.echo(f"group {group} has no offsets{' of these partitions' if topics else ''}", err=True)
    text = dump(snapshot, form)
    if output in (None, Path("-")):
        click.echo(text, nl=False)
    else:
        write_whole(output, text)
        count = sum(map(len, snapshot.values()))
        click.echo(f"{count} offsets of {len(snapshot)} groups written to {click.format_filename(output)}", err=True)
    report_errors(errors, len(names), "groups")
