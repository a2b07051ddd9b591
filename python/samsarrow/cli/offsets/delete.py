"""`samsarrow offsets delete`."""

from __future__ import annotations

from contextlib import suppress

import click

from samsarrow.cli.commands import Command
from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.offsets.apply import WriteOptions, check_idle, describe_store, write_options
from samsarrow.cli.offsets.common import Cluster, TopicChoice, connected, topic_option
from samsarrow.cli.output import confirm, one_by_one, yes_option
from samsarrow.cli.share_groups import check_not_share
from samsarrow.cli.tables import table
from samsarrow.exceptions import GroupIdNotFoundError
from samsarrow.offsets.kafka import batches
from samsarrow.offsets.move import VerificationError, stored


@click.command(cls=Command)
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@connected
@write_options
@topic_option("Only the offsets of these partitions, not the group; repeatable.")
@yes_option
def delete(
    cluster: Cluster, write_options: WriteOptions, groups: tuple[str, ...], topics: tuple[TopicChoice, ...], yes: bool
) -> None:
    """Delete groups with their offsets, or only the offsets of some partitions.

    Only offsets in Kafka can be deleted, because brokers cannot delete offsets from ZooKeeper.
    """
    names = list(dict.fromkeys(groups))
    one_by_one(names, lambda group: _delete(cluster, write_options, group, topics, yes), "group")


def _delete(
    cluster: Cluster, write_options: WriteOptions, group: str, topics: tuple[TopicChoice, ...], yes: bool
) -> None:
    store = cluster.store("kafka", group)
    found = {tp: at for tp, at in stored(store).items() if not topics or any(t.takes(tp) for t in topics)}
    exists = bool(found) or (not topics and cluster.description(group) is not None)
    if not exists:
        # A share group has start offsets, which are not looked up here.
        check_not_share(cluster.admin, group)
        click.echo(f"{describe_store(store)}: nothing to delete")
        return
    click.echo(f"{describe_store(store)}: {'the group and ' if not topics else ''}{len(found)} offsets go")
    for line in table(
        ["TOPIC", "PARTITION", "OFFSET", "METADATA"], [(*tp, at.offset, at.metadata) for tp, at in found.items()]
    ):
        click.echo(line)
    if write_options.dry_run:
        click.echo("dry run: nothing is deleted")
        return
    check_idle(cluster, store, write_options)
    confirm(f"Deleting {'offsets of ' if topics else ''}{group}", yes)
    if topics:
        for batch in batches(found, write_options.batch_size):
            cluster.admin.delete_offsets(group, batch)
    else:
        # Since the lookup, the group may have been deleted with its last offset, or by another client.
        with suppress(GroupIdNotFoundError):
            cluster.admin.delete_groups([group])
    remaining = [tp for tp, at in store.load(list(found)).items() if at is not None]
    if remaining:
        raise VerificationError(
            f"{describe_store(store)} still has {len(remaining)} of the offsets that were deleted",
            dict.fromkeys(remaining),
        )
    click.echo(f"{describe_store(store)}: deleted, read back and gone")
