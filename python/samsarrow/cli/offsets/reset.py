"""`samsarrow offsets reset`: setting of offsets to a position in the partitions."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from samsarrow.cli.commands import Command
from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.consume.range import Position, offsets_at, position_option
from samsarrow.cli.offsets.apply import (
    Store,
    Targets,
    WriteOptions,
    apply_changes,
    check_idle,
    describe_store,
    print_changes,
    write,
    write_options,
)
from samsarrow.cli.offsets.common import Cluster, TopicChoice, connected, storage_option, topic_option
from samsarrow.cli.offsets.share import ShareOffsetStore
from samsarrow.cli.output import named
from samsarrow.cli.share_groups import TYPE as SHARE
from samsarrow.cli.share_groups import group_types, of_type
from samsarrow.cli.times import TIME_HELP, duration_option, instant_of, instant_option
from samsarrow.offsets.journal import Journal, default_folder, resumable
from samsarrow.offsets.move import To, plan, stored, targets
from samsarrow.offsets.store import OffsetStoreError
from samsarrow.types import OffsetAndMetadata, TopicPartition


@click.command(cls=Command)
@click.argument("group", shell_complete=complete_groups)
@connected
@write_options
@storage_option
@topic_option("The partitions to reset, with an offset or without; repeatable.")
@click.option("--all-topics", is_flag=True, help="Every partition that the group has an offset for.")
@click.option(
    "--to",
    "position",
    callback=position_option,
    metavar="POSITION",
    help="earliest, latest, OFFSET, -N (N before the end) or TIME, as --from of `samsarrow consume`.",
)
@click.option("--to-earliest", is_flag=True, help="To the first available offset.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option(
    "--to-datetime",
    callback=instant_option,
    metavar="TIME",
    help=f"To the first record at or after {TIME_HELP}.",
)
@click.option(
    "--by-duration",
    callback=duration_option,
    metavar="TIME",
    help="To the first record at or after this long before now: 90s, 2h, 7d, P1DT2H.",
)
@click.option("--shift-by", type=int, metavar="N", help="Move by N offsets, back if negative.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset.")
@click.option("--start-over", is_flag=True, help="Discard an unfinished shift.")
@click.option("--state-dir", type=click.Path(file_okay=False, path_type=Path), help="The folder of unfinished shifts.")
def reset(
    cluster: Cluster,
    write_options: WriteOptions,
    group: str,
    storage: str,
    topics: tuple[TopicChoice, ...],
    all_topics: bool,
    position: Position | None,
    to_earliest: bool,
    to_latest: bool,
    to_datetime: int | None,
    by_duration: timedelta | None,
    shift_by: int | None,
    to_offset: int | None,
    start_over: bool,
    state_dir: Path | None,
) -> None:
    """Set the offsets of a group, within the available offsets of its partitions.

    Offsets before the beginning of a partition are set to the beginning, and offsets after its end are set to the end.
    To complete a shift that was killed, run it again: its target offsets are stored before the first change. Share
    groups have start offsets, which Kafka changes only while the group has no members.
    """
    now = instant_of("now")
    candidates = [
        To("earliest") if to_earliest else None,
        To("latest") if to_latest else None,
        To("time", to_datetime) if to_datetime is not None else None,
        To("time", now - round(by_duration / timedelta(milliseconds=1))) if by_duration is not None else None,
        To("shift", shift_by) if shift_by is not None else None,
        To("offset", to_offset) if to_offset is not None else None,
    ]
    chosen = [candidate for candidate in candidates if candidate is not None]
    if len(chosen) + (position is not None) != 1:
        raise click.UsageError(
            "pass one of --to, --to-earliest, --to-latest, --to-datetime, --by-duration, --shift-by and --to-offset"
        )
    if bool(topics) == all_topics:
        raise click.UsageError("pass --topic TOPIC[:P,...], or --all-topics")
    if position is not None and position.kind == "group":
        raise click.UsageError("--to group would change nothing: pass earliest, latest, OFFSET, -N or TIME")
    store = _store(cluster, storage, group)
    if position is not None:
        partitions = cluster.partitions(topics) if topics else sorted(stored(store))
        found = _targets(cluster, partitions, position)
        if position.kind == "offset":
            _report_limited(found, position.number)
        apply_changes(cluster, store, found, write_options)
        return
    [to] = chosen
    if to.kind == "shift":
        _shift(cluster, store, topics, to, write_options, start_over, state_dir or default_folder())
        return
    partitions = cluster.partitions(topics) if topics else sorted(stored(store))
    found = targets(cluster.end_offsets_consumer, partitions, to, {})
    if to.kind == "offset":
        _report_limited(found, to.value)
    apply_changes(cluster, store, found, write_options)


def _store(cluster: Cluster, storage: str, group: str) -> Store:
    """Returns the store of a group's offsets, or of the start offsets of a share group."""
    if storage == "kafka" and of_type(group_types(cluster.admin), [group], SHARE):
        return ShareOffsetStore(group, cluster.admin)
    return cluster.store(storage, group)


def _targets(
    cluster: Cluster, partitions: list[TopicPartition], position: Position
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Returns the offsets of a position in the partitions."""
    consumer = cluster.end_offsets_consumer
    first, last = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
    return {tp: OffsetAndMetadata(at) for tp, at in offsets_at(consumer, position, first, last).items()}


def _report_limited(found: Targets, offset: int) -> None:
    """Prints the number of partitions that do not have an offset, whose nearest offset is used instead."""
    if limited := [tp for tp, at in found.items() if at.offset != offset]:
        nearest = f"{named(limited[0])} at {found[limited[0]].offset}"
        click.echo(
            f"offset {offset} is not in {len(limited)} of {len(found)} partitions: the nearest is used, {nearest}",
            err=True,
        )


def _shift(
    cluster: Cluster,
    store: Store,
    topics: tuple[TopicChoice, ...],
    to: To,
    write_options: WriteOptions,
    start_over: bool,
    folder: Path,
) -> None:
    scope = sorted(f"{t.name}:{'' if t.partitions is None else sorted(t.partitions)}" for t in topics)
    servers = ",".join(sorted(cluster.servers.split(",")))
    journal = Journal(folder, [servers, describe_store(store), str(to.value), *scope])
    before = None if start_over else journal.unfinished()
    if before is None:
        partitions = cluster.partitions(topics) if topics else sorted(stored(store))
        current = store.load(partitions)
        targets_by_partition = targets(cluster.end_offsets_consumer, partitions, to, current)
    else:
        when, planned = before
        click.echo(f"continuing the unfinished run of {when}")
        targets_by_partition = {change.partition: change.after for change in planned}
        current = store.load(list(targets_by_partition))
        try:
            resumable(planned, current)
        except OffsetStoreError as error:
            raise click.ClickException(
                f"{error}. With --start-over the shift starts again from the current offsets"
            ) from None
    changes = plan(store, targets_by_partition)
    print_changes(store, changes, len(targets_by_partition) - len(changes))
    if write_options.dry_run:
        click.echo("dry run: nothing is written")
        return
    if changes:
        check_idle(cluster, store, write_options)
        if before is None:
            journal.begin(changes)
        write(store, changes, write_options)
    journal.end()
