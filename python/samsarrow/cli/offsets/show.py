"""`samsarrow offsets list`, `describe` and `export`: what is there; nothing is changed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from samsarrow.admin_types import OffsetSpec
from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.offsets.common import Cluster, TopicChoice, connected, storage_option, topic_option
from samsarrow.cli.offsets_lookup import look_up
from samsarrow.cli.output import complain, named, output_option, show, told
from samsarrow.cli.share_groups import check_not_share, without_share_groups
from samsarrow.exceptions import KafkaError, KafkaTimeoutError
from samsarrow.offsets.disk import write_whole
from samsarrow.offsets.formats import FORMATS, Snapshot, dump
from samsarrow.offsets.move import stored
from samsarrow.types import GroupDescription, MemberDescription, OffsetAndMetadata, TopicPartition


def about_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the connection, and the options that choose groups, a storage and partitions."""
    command = topic_option("Only these partitions; repeatable.")(command)
    command = storage_option(command)
    command = click.option("--all-groups", is_flag=True, help="All groups that Kafka lists.")(command)
    return click.argument("groups", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)(connected(command))


@click.command("list")
@connected
@click.option("--state", "states", multiple=True, help="Only groups in this state, for example Empty; repeatable.")
@output_option
def list_groups(cluster: Cluster, states: tuple[str, ...], form: str | None) -> None:
    """List groups: their state, type and protocol.

    Groups that have offsets in ZooKeeper only are known to nobody but ZooKeeper.
    """
    wanted = {state.lower() for state in states}
    groups = [g for g in cluster.admin.list_groups().values() if not wanted or (g.state or "").lower() in wanted]
    show(
        form, ("group", "state", "type", "protocol_type"), [(g.group, g.state, g.type, g.protocol_type) for g in groups]
    )


@dataclass(frozen=True)
class Row:
    """What is shown of a partition."""

    partition: TopicPartition
    at: OffsetAndMetadata | None
    end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        """How many offsets lie before the end."""
        return None if self.at is None or self.end is None else max(self.end - self.at.offset, 0)


HEADS = (
    "group", "state", "topic", "partition", "offset", "end", "lag", "metadata", "leader_epoch", "client_id", "host",
    "member_id", "instance_id",
)  # fmt: skip


@click.command()
@about_groups
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

    A group that Kafka does not know has no state; one without offsets has a line of its own.
    """
    names = which(cluster, groups, all_groups)
    lines: list[tuple[Any, ...]] = []
    errors: dict[str, KafkaError] = {}
    unread: dict[str, KafkaError] = {}
    for group in names:
        try:
            description = cluster.description(group)
            rows, without_end = _rows(cluster, group, storage, topics, description)
        except KafkaTimeoutError:
            # A cluster that does not answer would keep each group waiting as long.
            raise
        except KafkaError as error:
            errors[f"group {group}"] = error
            continue
        unread |= {f"the end of {named(tp)}": error for tp, error in without_end.items()}
        about = (group, description and description.state)
        lines += [(*about, *_line(row)) for row in rows] or [(*about, *[None] * (len(HEADS) - len(about)))]
    show(form, HEADS, lines)
    if unread:
        complain(errors | unread, len(errors) + len(lines), "groups and partitions")
    complain(errors, len(names), "groups")


def _line(row: Row) -> tuple[Any, ...]:
    at, member = row.at, row.member
    kept = (None, None) if at is None else (at.metadata, at.leader_epoch)
    who = (None,) * 4 if member is None else (member.client_id, member.host, member.member_id, member.instance_id)
    return (*row.partition, at and at.offset, row.end, row.lag, *kept, *who)


def which(cluster: Cluster, groups: tuple[str, ...], all_groups: bool) -> list[str]:
    """The groups that a command is about."""
    if all_groups == bool(groups):
        raise click.UsageError("name groups, or pass --all-groups")
    return sorted(without_share_groups(cluster.admin.list_groups())) if all_groups else list(dict.fromkeys(groups))


def _rows(
    cluster: Cluster, group: str, storage: str, topics: tuple[TopicChoice, ...], description: GroupDescription | None
) -> tuple[list[Row], dict[TopicPartition, KafkaError]]:
    """The partitions of a group, and why ends of some are not known."""
    found = stored(
        cluster.store(storage, group), cluster.partitions(topics) if topics and storage == "zookeeper" else None
    )
    # What ZooKeeper has is of other consumers than those that Kafka knows.
    members = description.members if description is not None and storage == "kafka" else ()
    owners = {tp: member for member in members for tp in member.assignment}
    partitions = [tp for tp in sorted({*found, *owners}) if not topics or any(topic.takes(tp) for topic in topics)]
    counts = {name: topic.partitions for name, topic in cluster.admin.list_topics().items()}
    there = [tp for tp in partitions if tp.partition < counts.get(tp.topic, 0)]
    ends: dict[TopicPartition, int] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for tp, at in told(look_up(cluster, there, OffsetSpec.LATEST)) if there else ():
        if isinstance(at, KafkaError):
            errors[tp] = at
        elif at is not None:
            ends[tp] = at.offset
    return [Row(tp, found.get(tp), ends.get(tp), owners.get(tp)) for tp in partitions], errors


@click.command()
@about_groups
@click.option("--format", "form", type=click.Choice(FORMATS), default="json", show_default=True, help="Of the file.")
@click.option(
    "-O", "--output", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="A file instead of stdout."
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
    """Write the offsets of groups down, for `import` and for people.

    The format `zookeeper` is that of Kafka's old ExportZkOffsets: /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET.
    """
    names = which(cluster, groups, all_groups)
    snapshot: Snapshot = {}
    errors: dict[str, KafkaError] = {}
    if storage == "zookeeper":
        for name in names:
            snapshot[name] = stored(cluster.store(storage, name))
    else:
        for name, found in told(cluster.admin.fetch_offsets_many(names)):
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
    if output is None:
        click.echo(text, nl=False)
    else:
        write_whole(output, text)
        count = sum(map(len, snapshot.values()))
        click.echo(f"{count} offsets of {len(snapshot)} groups written to {click.format_filename(output)}", err=True)
    complain(errors, len(names), "groups")
