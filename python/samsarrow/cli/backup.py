"""`samsarrow backup`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from samsarrow.cli.commands import Command, section
from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.completion import topics as complete_topics
from samsarrow.cli.connection import Connection, reads_topics
from samsarrow.cli.errors import NotFound, PartialFailure
from samsarrow.cli.numbers import written_text
from samsarrow.cli.output import if_exists_option, output_option, show
from samsarrow.cli.progress import progress
from samsarrow.cli.times import bytes_of

if TYPE_CHECKING:
    from samsarrow._backup.results import BackupResult

CODECS = ("zstd", "snappy", "gzip", "lz4", "none")
of_files = section("Files")
_HEADS = ("topic", "partitions", "records", "added", "files", "bytes", "state")


def _size(_context: click.Context, _parameter: click.Parameter, text: str) -> int:
    size = bytes_of(text)
    if not size:
        raise click.BadParameter(f"{text!r} is not a size, for example 256MB")
    return size


def client_options(connection: Connection, *clients: str) -> dict[str, str]:
    """Returns the options of several kinds of clients, without those that backups set themselves.

    Files and profiles may have such options for other commands.
    """
    from samsarrow._backup.options import FIXED
    from samsarrow.config import kafka_name

    merged = {name: value for client in clients for name, value in connection.options_of(client).items()}
    return {name: value for name, value in merged.items() if kafka_name(name) not in FIXED}


@click.command(cls=Command)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=complete_topics)
@reads_topics
@of_files(
    "-O",
    "--output-folder",
    "folder",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="The folder of the backup, which is created. A backup in it is completed, or gets what is new.",
)
@of_files(
    "--file-size",
    default="256MB",
    show_default=True,
    callback=_size,
    metavar="SIZE",
    help="Bytes of records in a file, before compression.",
)
@of_files("-z", "--compress", type=click.Choice(CODECS), default="zstd", show_default=True, help="The compression.")
@click.option(
    "-g",
    "--group",
    "groups",
    multiple=True,
    shell_complete=complete_groups,
    metavar="GROUP",
    help="Include the committed offsets of this group; repeatable. By default those of the last run.",
)
@click.option("--all-groups", is_flag=True, help="Include the committed offsets of all groups that have some.")
@click.option(
    "--skip-lost", is_flag=True, help="Continue if retention removes records before they are read; list their offsets."
)
@if_exists_option("Topics")
@output_option
def backup(
    connection: Connection,
    names: tuple[str, ...],
    folder: Path,
    file_size: int,
    compress: str,
    groups: tuple[str, ...],
    all_groups: bool,
    skip_lost: bool,
    if_exists: bool,
    form: str | None,
) -> None:
    """Back up topics to a folder: records as Parquet, settings, and the offsets of groups.

    The backup ends at the current end of each partition, and has committed records only. A run that was interrupted is
    completed by the same command. After a complete backup, the command adds the records that are new.

    If a topic fails, for example because it was deleted, its files stay in the backup, the others are backed up, and
    the exit code is 3. With --if-exists, topics that do not exist any more are no error.

    \b
      samsarrow backup orders -O backups/orders
      samsarrow backup 'orders-*' -O backups/orders --all-groups
      samsarrow restore backups/orders --topic-map orders=copy
    """  # noqa: D301 - click needs the character
    # Imported here because the imports are slow, and help and completion do not need the modules.
    from samsarrow._backup import calls
    from samsarrow._backup.errors import BackupIncompleteError

    if groups and all_groups:
        raise click.UsageError("--group and --all-groups contradict each other")
    started = time.monotonic()
    topics = _chosen(connection, names, folder, if_exists)
    if not topics:
        show(form, _HEADS, (), "no topics")
        return
    incomplete: BackupIncompleteError | None = None
    try:
        result = calls.backup(
            topics,
            folder,
            client_options(connection, "consumer", "admin"),
            {},
            groups="all" if all_groups else groups,
            on_data_loss="skip" if skip_lost else "raise",
            file_size=file_size,
            compression=compress,
            if_exists=if_exists,
            timeout=connection.timeout,
            bar=progress,
        )
    except BackupIncompleteError as error:
        if error.result is None:
            raise
        incomplete, result = error, error.result
    _report(result, topics, form)
    text = written_text(result.rows, result.size, time.monotonic() - started)
    click.echo(f"{text} written to {click.format_filename(folder)}", err=True)
    if incomplete is not None:
        raise PartialFailure("\n".join([str(incomplete), *getattr(incomplete, "__notes__", ())]))


def _chosen(connection: Connection, names: Sequence[str], folder: Path, if_exists: bool) -> list[str]:
    """Returns the topics with these names or that match these patterns, in the cluster or in the backup.

    Raises:
        NotFound: neither has a topic of a name.
    """
    from samsarrow._backup.folder import MANIFEST, read_manifest
    from samsarrow.cli.names import chosen_topics

    found = set(chosen_topics(connection, names, if_exists=True))
    known = read_manifest(folder).topics if (folder / MANIFEST).exists() else ()
    for name in names:
        matching = {topic for topic in {*found, *known} if topic == name or fnmatchcase(topic, name)}
        if not matching and not if_exists:
            raise NotFound(f"topic {name}", connection.servers)
        found |= matching
    return sorted(found)


def _report(result: BackupResult, topics: Sequence[str], form: str | None) -> None:
    """Prints a row for each topic, and on standard error losses and groups."""
    manifest = result.manifest
    for loss in result.losses:
        click.echo(f"{loss} were lost: retention or delete_records removed them", err=True)
    if result.resumed:
        later = sorted(set(topics) - manifest.topics.keys())
        click.echo(
            f"completed the backup of {manifest.made}; run the command again to add newer records"
            + (f", and {', '.join(later)}" if later else ""),
            err=True,
        )
    rows = []
    for name, topic in sorted(manifest.topics.items()):
        size = sum(file.size for file in topic.files)
        state = "missing" if name in result.missing else "failed" if topic.error is not None else "complete"
        rows.append((name, len(topic.partitions), topic.rows, result.added.get(name, 0), len(topic.files), size, state))
    show(form, _HEADS, rows)
    for name, offsets in sorted(manifest.groups.items()):
        click.echo(f"group {name}: {len(offsets)} offsets", err=True)
