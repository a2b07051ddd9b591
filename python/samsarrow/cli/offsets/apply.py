"""Shared code of the commands that write offsets: they print the changes, write them and read them back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import click

from samsarrow.cli.offsets.common import Cluster, TopicChoice, offset_or_none
from samsarrow.cli.offsets.share import ShareOffsetStore
from samsarrow.cli.progress import progress
from samsarrow.cli.tables import table
from samsarrow.offsets.kafka import BATCH, KafkaOffsetStore, ZooKeeperOffsetStore
from samsarrow.offsets.move import Change, apply, plan, stored
from samsarrow.types import OffsetAndMetadata, TopicPartition

Store = KafkaOffsetStore | ZooKeeperOffsetStore | ShareOffsetStore
Targets = Mapping[TopicPartition, OffsetAndMetadata]


@dataclass(frozen=True)
class WriteOptions:
    """Options that all commands that write offsets have."""

    dry_run: bool
    force: bool
    batch_size: int


def write_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options in `WriteOptions` to a command, which receives them as a `WriteOptions` object."""

    def with_options(cluster: Cluster, dry_run: bool, force: bool, batch_size: int, **arguments: Any) -> None:
        command(cluster, WriteOptions(dry_run, force, batch_size), **arguments)

    with_options.__name__, with_options.__doc__ = command.__name__, command.__doc__
    with_options.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for option in (
        click.option(
            "--batch-size", type=click.IntRange(min=1), default=BATCH, show_default=True, help="Partitions per request."
        ),
        click.option("--force", is_flag=True, help="Also while the group has members."),
        click.option("--dry-run", is_flag=True, help="Only show what would change."),
    ):
        with_options = option(with_options)
    return with_options


def check_idle(cluster: Cluster, store: Store, write_options: WriteOptions) -> None:
    """Rejects an active group, because its members may commit at the same time.

    Raises:
        click.ClickException: the group has members, and --force is not set or has no effect.
    """
    if isinstance(store, ShareOffsetStore):
        store.check_idle(write_options.force)
        return
    group = store.group
    description = cluster.description(group)
    if description is None or not description.active or write_options.force:
        return
    members = ", ".join(sorted({f"{m.client_id} at {m.host}" for m in description.members}))
    raise click.ClickException(
        f"group {group} is active ({description.state}; members: {members or 'none yet'}): stop its consumers first. "
        "With --force the command tries anyway, but Kafka accepts offsets of a group only from its members"
    )


def apply_changes(cluster: Cluster, store: Store, targets: Targets, write_options: WriteOptions) -> list[Change]:
    """Prints the changes that bring a store to the target offsets, writes them and reads them back."""
    changes = plan(store, targets)
    print_changes(store, changes, len(targets) - len(changes))
    if not changes or write_options.dry_run:
        if changes:
            click.echo("dry run: nothing is written")
        return changes
    check_idle(cluster, store, write_options)
    write(store, changes, write_options)
    return changes


def describe_store(store: Store) -> str:
    """Returns the group and the storage of a store as text."""
    if isinstance(store, ShareOffsetStore):
        return f"share group {store.group}"
    return f"group {store.group} in {'ZooKeeper' if isinstance(store, ZooKeeperOffsetStore) else 'Kafka'}"


def print_changes(store: Store, changes: list[Change], same: int) -> None:
    """Prints the changes; `same` is the number of partitions without a change."""
    click.echo(f"{describe_store(store)}: {len(changes)} partitions change, {same} are already right")
    rows = [(*c.partition, offset_or_none(c.before), offset_or_none(c.after), c.after.metadata) for c in changes]
    if changes:
        for line in table(["TOPIC", "PARTITION", "BEFORE", "AFTER", "METADATA"], rows):
            click.echo(line)


def write(store: Store, changes: list[Change], write_options: WriteOptions) -> None:
    """Writes the changes, and reads them back."""
    with progress(f"writing to {describe_store(store)}", len(changes), "partitions") as update:
        apply(store, changes, batch_size=write_options.batch_size, progress=update)
    click.echo(f"{describe_store(store)}: {len(changes)} partitions written, read back and equal")


def selected_offsets(source: Store, topics: tuple[TopicChoice, ...]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets that a group has stored for the selected partitions.

    Raises:
        click.ClickException: the group has no offset for any of them, probably because a name is misspelt.
    """
    found = {tp: at for tp, at in stored(source).items() if not topics or any(topic.takes(tp) for topic in topics)}
    if not found:
        raise click.ClickException(
            f"{describe_store(source)} has no offsets" + (" of these partitions" if topics else "")
        )
    return found
