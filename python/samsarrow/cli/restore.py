"""`samsarrow restore`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from samsarrow.cli.backup import client_options
from samsarrow.cli.commands import Command
from samsarrow.cli.config_ops import unset_option
from samsarrow.cli.connection import Connection, reads_and_writes_topics
from samsarrow.cli.errors import PartialFailure
from samsarrow.cli.output import dry_run_option, output_option, show
from samsarrow.cli.progress import progress


def _pairs(_context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.strip():
            raise click.BadParameter(f"{value!r} is not {parameter.metavar}")
        if name.strip() in found:
            raise click.BadParameter(f"{name.strip()} is given twice")
        found[name.strip()] = text.strip()
    return found


@click.command(cls=Command)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@reads_and_writes_topics
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only this topic of the backup; repeatable.")
@click.option(
    "--topic-map",
    multiple=True,
    callback=_pairs,
    metavar="OLD=NEW",
    help="Restore topic OLD of the backup as NEW; repeatable.",
)
@click.option(
    "--config",
    "configs",
    multiple=True,
    callback=_pairs,
    metavar="NAME=VALUE",
    help="A setting of the topics in place of that of the backup, such as retention.ms=-1; repeatable.",
)
@unset_option
@click.option(
    "-r",
    "--replication-factor",
    type=click.IntRange(1, 32767),
    metavar="N",
    help="The number of replicas; by default that of the backup.",
)
@click.option(
    "-g", "--group", "groups", multiple=True, metavar="GROUP", help="Only the offsets of this group; repeatable."
)
@click.option("--no-groups", is_flag=True, help="Do not restore the offsets of groups.")
@dry_run_option
@output_option
def restore(
    connection: Connection,
    folder: Path,
    topics: tuple[str, ...],
    topic_map: dict[str, str],
    configs: dict[str, str],
    unset: tuple[str, ...],
    replication_factor: int | None,
    groups: tuple[str, ...],
    no_groups: bool,
    dry_run: bool,
    form: str | None,
) -> None:
    """Restore topics of a backup, with their settings and the offsets of groups.

    Files are checked first, and restored records are read back and compared. Topics must not exist, or have no records.
    A restore that was interrupted is continued by the same command. With --dry-run all files are read and compared, and
    the cluster is only checked.

    Retention applies again when the restore is complete: it deletes records that are older than retention.ms, of which
    a warning has the number. Use --config retention.ms=-1 to keep them.

    \b
      samsarrow restore backups/orders
      samsarrow restore backups/orders --topic-map orders=copy --no-groups
      samsarrow restore backups/orders --dry-run
    """  # noqa: D301 - click needs the character
    # Imported here because the import is slow, and help and completion do not need the module.
    from samsarrow._backup import calls
    from samsarrow._backup.errors import RestoreIncompleteError

    if groups and no_groups:
        raise click.UsageError("--group and --no-groups contradict each other")
    if both := sorted(set(configs) & set(unset)):
        raise click.UsageError(f"--config and --unset contradict each other: {both[0]}")
    started = time.monotonic()
    if dry_run:
        calls.verify(folder, bar=progress)
    try:
        result = calls.restore(
            folder,
            client_options(connection, "admin", "consumer", "producer"),
            {},
            topics=topics or None,
            topic_map=topic_map,
            configs={**configs, **dict.fromkeys(unset)},
            replication_factor=replication_factor,
            groups=() if no_groups else groups or None,
            dry_run=dry_run,
            timeout=connection.timeout,
            bar=progress,
        )
    except RestoreIncompleteError as error:
        raise PartialFailure("\n".join([str(error), *getattr(error, "__notes__", ())])) from None
    except KeyboardInterrupt as interrupted:
        for note in getattr(interrupted, "__notes__", ()):
            click.echo(note, err=True)
        raise
    for topic in result.topics:
        if topic.backup_error is not None:
            text = f"the last backup of {topic.source} failed, and has older or fewer records: {topic.backup_error}"
            click.echo(f"{topic.name}: {text}", err=True)
    heads = ("topic", "source", "records", "written", "state")
    show(form, heads, [(t.name, t.source, t.rows, t.written, t.state) for t in result.topics])
    for name, offsets in sorted(result.offsets.items()):
        click.echo(f"group {name}: {len(offsets)} offsets", err=True)
    if dry_run:
        rows = sum(topic.rows for topic in result.topics if topic.state != "present")
        click.echo(f"the files are complete, and {rows:,} records would be restored", err=True)
    else:
        written = sum(topic.written for topic in result.topics)
        seconds = time.monotonic() - started
        records = f"{written:,} record{'s' if written != 1 else ''}"
        click.echo(f"{records} restored and compared in {seconds:.1f} s", err=True)
