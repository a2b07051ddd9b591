"""`samsarrow offsets reset`: to another place in the partitions."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import click

from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.offsets.apply import Store, Writing, carry_out, check_idle, place, say, write, writing
from samsarrow.cli.offsets.common import Cluster, TopicChoice, connected, storage_option, topic_option
from samsarrow.cli.times import duration_option, instant_of, instant_option
from samsarrow.offsets.journal import Journal, default_folder, resumable
from samsarrow.offsets.move import To, plan, stored, targets
from samsarrow.offsets.store import OffsetStoreError


@click.command()
@click.argument("group", shell_complete=complete_groups)
@connected
@writing
@storage_option
@topic_option("Which partitions, with an offset or without; repeatable.")
@click.option("--all-topics", is_flag=True, help="Every partition that the group has an offset for.")
@click.option("--to-earliest", is_flag=True, help="To the first available offset.")
@click.option("--to-latest", is_flag=True, help="To the end.")
@click.option(
    "--to-datetime",
    callback=instant_option,
    metavar="TIME",
    help="To the first record at or after it, as --from @TIME of consume: local time unless it has an offset.",
)
@click.option(
    "--by-duration",
    callback=duration_option,
    metavar="TIME",
    help="To the first record at or after this long before now: 90s, 2h, 7d, P1DT2H.",
)
@click.option("--shift-by", type=int, metavar="N", help="Move by N offsets, back if negative.")
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset.")
@click.option("--start-over", is_flag=True, help="Forget a shift that was not finished.")
@click.option("--state-dir", type=click.Path(file_okay=False, path_type=Path), help="The folder of unfinished shifts.")
def reset(
    cluster: Cluster,
    writing: Writing,
    group: str,
    storage: str,
    topics: tuple[TopicChoice, ...],
    all_topics: bool,
    to_earliest: bool,
    to_latest: bool,
    to_datetime: int | None,
    by_duration: timedelta | None,
    shift_by: int | None,
    to_offset: int | None,
    start_over: bool,
    state_dir: Path | None,
) -> None:
    """Set the offsets of a group, within what its partitions hold.

    Offsets before the beginning of a partition become the beginning, those after its end become the end. A shift that
    was killed is finished by running it again: what it leads to was written down before the first change.
    """
    now = instant_of("now")
    ways = [
        To("earliest") if to_earliest else None,
        To("latest") if to_latest else None,
        To("time", to_datetime) if to_datetime is not None else None,
        To("time", now - round(by_duration / timedelta(milliseconds=1))) if by_duration is not None else None,
        To("shift", shift_by) if shift_by is not None else None,
        To("offset", to_offset) if to_offset is not None else None,
    ]
    chosen = [way for way in ways if way is not None]
    if len(chosen) != 1:
        raise click.UsageError(
            "pass one of --to-earliest, --to-latest, --to-datetime, --by-duration, --shift-by and --to-offset"
        )
    if bool(topics) == all_topics:
        raise click.UsageError("pass --topic TOPIC[:P,...], or --all-topics")
    store = cluster.store(storage, group)
    [to] = chosen
    if to.kind == "shift":
        _shift(cluster, store, topics, to, writing, start_over, state_dir or default_folder())
        return
    partitions = cluster.partitions(topics) if topics else sorted(stored(store))
    carry_out(cluster, store, targets(cluster.ends, partitions, to, {}), writing)


def _shift(
    cluster: Cluster,
    store: Store,
    topics: tuple[TopicChoice, ...],
    to: To,
    writing: Writing,
    start_over: bool,
    folder: Path,
) -> None:
    scope = sorted(f"{t.name}:{'' if t.partitions is None else sorted(t.partitions)}" for t in topics)
    servers = ",".join(sorted(cluster.servers.split(",")))
    journal = Journal(folder, [servers, place(store), str(to.value), *scope])
    before = None if start_over else journal.unfinished()
    if before is None:
        partitions = cluster.partitions(topics) if topics else sorted(stored(store))
        current = store.load(partitions)
        wanted = targets(cluster.ends, partitions, to, current)
    else:
        when, planned = before
        click.echo(f"going on with the run of {when} that was not finished")
        wanted = {change.partition: change.after for change in planned}
        current = store.load(list(wanted))
        try:
            resumable(planned, current)
        except OffsetStoreError as error:
            raise click.ClickException(
                f"{error}. With --start-over the shift starts again from the current offsets"
            ) from None
    changes = plan(store, wanted)
    say(store, changes, len(wanted) - len(changes))
    if writing.dry_run:
        click.echo("dry run: nothing is written")
        return
    if changes:
        check_idle(cluster, store.group, writing)
        if before is None:
            journal.begin(changes)
        write(store, changes, writing)
    journal.end()
