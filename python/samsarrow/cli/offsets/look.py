"""`samsarrow offsets list`, `describe` and `export`: what is there; nothing is changed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click

from samsarrow.cli.offsets.common import Cluster, TopicChoice, connected, storage_option, table, topic_option
from samsarrow.exceptions import KafkaError
from samsarrow.offsets.disk import write_whole
from samsarrow.offsets.formats import FORMATS, Snapshot, dump
from samsarrow.offsets.move import stored
from samsarrow.types import GroupDescription, MemberDescription, OffsetAndMetadata, TopicPartition


def about_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the connection, and the options that choose groups, a storage and partitions."""
    command = topic_option("Only these partitions; repeatable.")(command)
    command = storage_option(command)
    command = click.option("--all-groups", is_flag=True, help="All groups that Kafka lists.")(command)
    return click.argument("groups", nargs=-1, metavar="[GROUP]...")(connected(command))


@click.command("list")
@connected
@click.option("--state", "states", multiple=True, help="Only groups in this state, for example Empty; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
def list_groups(cluster: Cluster, states: tuple[str, ...], as_json: bool) -> None:
    """List groups: their state, type and protocol.

    Groups that have offsets in ZooKeeper only are known to nobody but ZooKeeper.
    """
    wanted = {state.lower() for state in states}
    groups = [g for g in cluster.admin.list_groups().values() if not wanted or (g.state or "").lower() in wanted]
    if as_json:
        for group in groups:
            click.echo(json.dumps(group._asdict(), ensure_ascii=False))
        return
    for line in table(
        ["GROUP", "STATE", "TYPE", "PROTOCOL"], [(g.group, g.state, g.type, g.protocol_type) for g in groups]
    ):
        click.echo(line)


@dataclass(frozen=True)
class Row:
    """What is told of a partition."""

    partition: TopicPartition
    at: OffsetAndMetadata | None
    end: int | None
    member: MemberDescription | None

    @property
    def lag(self) -> int | None:
        """How many offsets lie before the end."""
        return None if self.at is None or self.end is None else max(self.end - self.at.offset, 0)


@click.command()
@about_groups
@click.option("--json", "as_json", is_flag=True, help="One JSON object a group, each on a line.")
def describe(
    cluster: Cluster,
    groups: tuple[str, ...],
    all_groups: bool,
    storage: str,
    topics: tuple[TopicChoice, ...],
    as_json: bool,
) -> None:
    """Describe groups: offset, end, lag, metadata and member of each partition."""
    for number, group in enumerate(which(cluster, groups, all_groups)):
        description = cluster.description(group)
        rows = _rows(cluster, group, storage, topics, description)
        if as_json:
            click.echo(json.dumps(_tree(group, storage, description, rows), ensure_ascii=False))
            continue
        if number:
            click.echo()
        _print(group, storage, description, rows)


def which(cluster: Cluster, groups: tuple[str, ...], all_groups: bool) -> list[str]:
    """The groups that a command is about."""
    if all_groups == bool(groups):
        raise click.UsageError("name groups, or give --all-groups")
    return sorted(cluster.admin.list_groups()) if all_groups else list(dict.fromkeys(groups))


def _rows(
    cluster: Cluster, group: str, storage: str, topics: tuple[TopicChoice, ...], description: GroupDescription | None
) -> list[Row]:
    found = stored(
        cluster.store(storage, group), cluster.partitions(topics) if topics and storage == "zookeeper" else None
    )
    # What ZooKeeper has is of other consumers than those that Kafka knows.
    members = description.members if description is not None and storage == "kafka" else ()
    owners = {tp: member for member in members for tp in member.assignment}
    partitions = [tp for tp in sorted({*found, *owners}) if not topics or any(topic.takes(tp) for topic in topics)]
    counts = {name: topic.partitions for name, topic in cluster.admin.list_topics().items()}
    there = [tp for tp in partitions if tp.partition < counts.get(tp.topic, 0)]
    ends = cluster.consumer.end_offsets(there) if there else {}
    return [Row(tp, found.get(tp), ends.get(tp), owners.get(tp)) for tp in partitions]


def _print(group: str, storage: str, description: GroupDescription | None, rows: list[Row]) -> None:
    if description is None:
        state = "not known to Kafka"
    else:
        state = f"{description.state}, {description.type}, {len(description.members)} members"
    click.echo(f"{group} ({state}; offsets in {'ZooKeeper' if storage == 'zookeeper' else 'Kafka'})")
    lines = [
        (
            *row.partition, row.at and row.at.offset, row.end, row.lag, row.at and row.at.metadata,
            row.member and row.member.client_id, row.member and row.member.host, row.member and row.member.member_id,
        )
        for row in rows
    ]  # fmt: skip
    for line in table(["TOPIC", "PARTITION", "OFFSET", "END", "LAG", "METADATA", "CLIENT", "HOST", "MEMBER"], lines):
        click.echo(line)


def _tree(group: str, storage: str, description: GroupDescription | None, rows: list[Row]) -> dict[str, object]:
    return {
        "group": group,
        "storage": storage,
        "state": description and description.state,
        "type": description and description.type,
        "assignor": description and description.assignor,
        "members": 0 if description is None else len(description.members),
        "partitions": [
            {
                "topic": row.partition.topic,
                "partition": row.partition.partition,
                "offset": row.at and row.at.offset,
                "end": row.end,
                "lag": row.lag,
                "metadata": row.at and row.at.metadata,
                "leader_epoch": row.at and row.at.leader_epoch,
                "member": row.member
                and {
                    "member_id": row.member.member_id,
                    "instance_id": row.member.instance_id,
                    "client_id": row.member.client_id,
                    "host": row.member.host,
                },
            }
            for row in rows
        ],
    }


@click.command()
@about_groups
@click.option("--format", "form", type=click.Choice(FORMATS), default="json", show_default=True)
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="A file instead of stdout."
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
    if storage == "zookeeper":
        for name in names:
            snapshot[name] = stored(cluster.store(storage, name))
    else:
        for name, found in cluster.admin.fetch_offsets_many(names).items():
            if isinstance(found, KafkaError):
                raise found
            snapshot[name] = {tp: at for tp, at in found.items() if at is not None}
    if topics:
        snapshot = {
            group: {tp: at for tp, at in offsets.items() if any(topic.takes(tp) for topic in topics)}
            for group, offsets in snapshot.items()
        }
    for group in sorted(group for group, offsets in snapshot.items() if not offsets):
        click.echo(f"group {group} has no offsets{' of these partitions' if topics else ''}", err=True)
    text = dump(snapshot, form)
    if output is None:
        click.echo(text, nl=False)
        return
    write_whole(output, text)
    count = sum(map(len, snapshot.values()))
    click.echo(f"{count} offsets of {len(snapshot)} groups written to {click.format_filename(output)}", err=True)
