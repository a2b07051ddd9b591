"""`samsarrow offsets import`, `copy` and `migrate`: transfer of offsets between files, groups and storages."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import click

from samsarrow.cli.commands import Command
from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.offsets.apply import (
    Store,
    WriteOptions,
    apply_changes,
    check_idle,
    describe_store,
    selected_offsets,
    write_options,
)
from samsarrow.cli.offsets.common import (
    STORAGES,
    Cluster,
    TopicChoice,
    connected,
    storage_option,
    topic_option,
)
from samsarrow.cli.output import one_by_one
from samsarrow.cli.share_groups import check_not_share
from samsarrow.cli.times import duration_option
from samsarrow.offsets.formats import FORMATS, FormatError, parse
from samsarrow.offsets.move import VerificationError, keep_equal


@click.command("import", cls=Command)
@click.argument("file", type=click.File("r", encoding="utf-8"))
@connected
@write_options
@storage_option
@click.option("--format", "form", type=click.Choice(FORMATS), help="By default detected.")
@click.option("--group", metavar="GROUP", help="The group of the file, if it has several or names none.")
@click.option("--to-group", metavar="GROUP", help="Another group to write to.")
@topic_option("Only these partitions; repeatable.")
@click.option("--keep-leader-epochs", is_flag=True, help="For the same cluster only: they mean nothing on another one.")
def import_(
    cluster: Cluster,
    write_options: WriteOptions,
    file: Any,
    storage: str,
    form: str | None,
    group: str | None,
    to_group: str | None,
    topics: tuple[TopicChoice, ...],
    keep_leader_epochs: bool,
) -> None:
    """Import offsets from a file that `export` or Kafka's own tools wrote."""
    try:
        groups = parse(file.read(), form)
    except FormatError as error:
        raise click.UsageError(f"{click.format_filename(file.name)}: {error}") from None
    if not groups:
        raise click.ClickException(f"{click.format_filename(file.name)} has no offsets: nothing was done")
    if group is not None:
        # If the file has no group names, its offsets are for the group in --group.
        offsets = groups.get(group, groups.get("") if set(groups) == {""} else None)
        if offsets is None:
            raise click.UsageError(f"the file has no group {group}, but {', '.join(sorted(groups)) or 'none'}")
        groups = {group: offsets}
    if "" in groups:
        raise click.UsageError("the file does not name its group: pass --group")
    if to_group is not None and len(groups) != 1:
        raise click.UsageError(f"--to-group needs one group, but the file has {len(groups)}: choose with --group")

    def write(name: str) -> None:
        selected = {
            tp: at if keep_leader_epochs else at._replace(leader_epoch=None)
            for tp, at in groups[name].items()
            if not topics or any(topic.takes(tp) for topic in topics)
        }
        apply_changes(cluster, cluster.store(storage, to_group or name), selected, write_options)

    one_by_one(list(groups), write, "group")


@click.command(cls=Command)
@click.argument("source", shell_complete=complete_groups)
@click.argument("target", shell_complete=complete_groups)
@connected
@write_options
@topic_option("Only these partitions; repeatable.")
@storage_option
def copy(
    cluster: Cluster,
    write_options: WriteOptions,
    source: str,
    target: str,
    topics: tuple[TopicChoice, ...],
    storage: str,
) -> None:
    """Copy the offsets of one group to another, with their metadata."""
    if source == target:
        raise click.UsageError("a group cannot be copied to itself")
    if storage == "kafka":
        check_not_share(cluster.admin, source)
    found = selected_offsets(cluster.store(storage, source), topics)
    apply_changes(cluster, cluster.store(storage, target), found, write_options)


@click.command(cls=Command)
@click.argument("groups", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@connected
@write_options
@click.option(
    "--to", "target", type=STORAGES, required=True, help="The storage to write to; offsets are read from the other."
)
@topic_option("Only these partitions; repeatable.")
@click.option(
    "--dual-commit",
    callback=duration_option,
    metavar="TIME",
    help="Then keep both equal for this long: 90s, 2h. The larger offset wins.",
)
@click.option(
    "--interval",
    callback=duration_option,
    default="1s",
    show_default=True,
    metavar="TIME",
    help="The interval between checks.",
)
def migrate(
    cluster: Cluster,
    write_options: WriteOptions,
    groups: tuple[str, ...],
    target: str,
    topics: tuple[TopicChoice, ...],
    dual_commit: timedelta | None,
    interval: timedelta,
) -> None:
    """Copy the offsets of groups from ZooKeeper to Kafka, or back.

    Needs brokers that support both: before Kafka 4.0, with ZooKeeper. ZooKeeper stores neither metadata nor leader
    epochs. The source is not changed.
    """
    if dual_commit is not None and (len(groups) != 1 or topics):
        raise click.UsageError("--dual-commit is for one group and all of its partitions")

    def move(group: str) -> None:
        old, new = (
            cluster.store(s, group) for s in (("zookeeper", "kafka") if target == "kafka" else ("kafka", "zookeeper"))
        )
        if not write_options.dry_run:
            check_idle(cluster, new, write_options)
        apply_changes(cluster, new, selected_offsets(old, topics), write_options)
        if dual_commit is not None and not write_options.dry_run:
            _dual_commit(cluster.store("zookeeper", group), cluster.store("kafka", group), dual_commit, interval)

    one_by_one(list(dict.fromkeys(groups)), move, "group")


def _dual_commit(zookeeper: Store, kafka: Store, window: timedelta, interval: timedelta) -> None:
    click.echo(f"keeping ZooKeeper and Kafka equal for {window}; Ctrl-C ends it early")

    def print_round(to_zookeeper: int, to_kafka: int) -> None:
        if to_zookeeper or to_kafka:
            click.echo(f"{datetime.now():%H:%M:%S}  {to_zookeeper} offsets to ZooKeeper, {to_kafka} to Kafka")

    try:
        rejected = keep_equal(zookeeper, kafka, window, interval=interval, on_round=print_round)
    except KeyboardInterrupt:
        click.echo("ended early")
        rejected = keep_equal(zookeeper, kafka, 0, on_round=print_round)
    if rejected:
        name = ", ".join(f"{tp.topic}-{tp.partition}" for tp in list(rejected)[:10])
        raise VerificationError(
            f"{describe_store(zookeeper)} is ahead of Kafka in {len(rejected)} partitions ({name}), and Kafka accepts "
            "no offsets from outside while the group has members: a consumer still commits to ZooKeeper"
        )
    click.echo("both are equal")
