"""What the commands that write share: say what changes, write, read back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from samsarrow.cli.offsets.common import Cluster, TopicChoice, shown
from samsarrow.cli.progress import progress
from samsarrow.cli.tables import table
from samsarrow.offsets.kafka import BATCH, KafkaOffsetStore, ZooKeeperOffsetStore
from samsarrow.offsets.move import Change, apply, plan, stored
from samsarrow.types import OffsetAndMetadata, TopicPartition

Store = KafkaOffsetStore | ZooKeeperOffsetStore
Wanted = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True)
class Writing:
    """How to write."""

    dry_run: bool
    force: bool
    batch_size: int


def writing(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of all that write, as a `Writing`."""

    def with_writing(cluster: Cluster, dry_run: bool, force: bool, batch_size: int, **arguments: Any) -> None:
        command(cluster, Writing(dry_run, force, batch_size), **arguments)

    with_writing.__name__, with_writing.__doc__ = command.__name__, command.__doc__
    with_writing.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option(
            "--batch-size", type=click.IntRange(min=1), default=BATCH, show_default=True, help="Partitions a request."
        ),
        click.option("--force", is_flag=True, help="Also while the group has members."),
        click.option("--dry-run", is_flag=True, help="Only show what would change."),
    ):
        with_writing = option(with_writing)
    return with_writing


def check_idle(cluster: Cluster, group: str, writing: Writing) -> None:
    """That nobody in the group commits at the same time."""
    description = cluster.description(group)
    if description is None or not description.active or writing.force:
        return
    members = ", ".join(sorted({f"{m.client_id} at {m.host}" for m in description.members}))
    raise click.ClickException(
        f"group {group} is active ({description.state}; members: {members or 'none yet'}): stop its consumers first. "
        "With --force the command tries anyway, but Kafka accepts offsets of a group only from its members"
    )


def carry_out(cluster: Cluster, store: Store, wanted: Wanted, writing: Writing) -> list[Change]:
    """Makes a store hold `wanted`: says what changes, writes, reads back."""
    changes = plan(store, wanted)
    say(store, changes, len(wanted) - len(changes))
    if not changes or writing.dry_run:
        if changes:
            click.echo("dry run: nothing is written")
        return changes
    check_idle(cluster, store.group, writing)
    write(store, changes, writing)
    return changes


def place(store: Store) -> str:
    """Group and storage, for people."""
    return f"group {store.group} in {'ZooKeeper' if isinstance(store, ZooKeeperOffsetStore) else 'Kafka'}"


def say(store: Store, changes: list[Change], same: int) -> None:
    """What is going to change."""
    click.echo(f"{place(store)}: {len(changes)} partitions change, {same} are already right")
    rows = [(*c.partition, shown(c.before), shown(c.after), c.after.metadata) for c in changes]
    if changes:
        for line in table(["TOPIC", "PARTITION", "BEFORE", "AFTER", "METADATA"], rows):
            click.echo(line)


def write(store: Store, changes: list[Change], writing: Writing) -> None:
    """Writes, and reads back."""
    with progress(f"writing to {place(store)}", len(changes)) as update:
        apply(store, changes, batch_size=writing.batch_size, progress=update)
    click.echo(f"{place(store)}: {len(changes)} partitions written, read back and equal")


def chosen(source: Store, topics: tuple[TopicChoice, ...]) -> dict[TopicPartition, OffsetAndMetadata]:
    """What a group has, of these partitions.

    Raises:
        click.ClickException: nothing, which is more likely a misspelt name than meant.
    """
    found = {tp: at for tp, at in stored(source).items() if not topics or any(topic.takes(tp) for topic in topics)}
    if not found:
        raise click.ClickException(f"{place(source)} has no offsets" + (" of these partitions" if topics else ""))
    return found
