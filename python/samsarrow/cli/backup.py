"""`samsarrow backup`."""

from __future__ import annotations

import time
from pathlib import Path

import click

from samsarrow.cli.commands import Command, section
from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.completion import topics as complete_topics
from samsarrow.cli.connection import Connection, reads_topics
from samsarrow.cli.numbers import written_text
from samsarrow.cli.progress import progress
from samsarrow.cli.times import bytes_of

CODECS = ("zstd", "snappy", "gzip", "lz4", "none")
of_files = section("Files")


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
def backup(
    connection: Connection,
    names: tuple[str, ...],
    folder: Path,
    file_size: int,
    compress: str,
    groups: tuple[str, ...],
    all_groups: bool,
    skip_lost: bool,
) -> None:
    """Back up topics to a folder: records as Parquet, settings, and the offsets of groups.

    The backup ends at the current end of each partition, and has committed records only. A run that was interrupted is
    completed by the same command. After a complete backup, the command adds the records that are new.

    \b
      samsarrow backup orders -O backups/orders
      samsarrow backup 'orders-*' -O backups/orders --all-groups
      samsarrow restore backups/orders --topic-map orders=copy
    """  # noqa: D301 - click needs the character
    # Imported here because the imports are slow, and help and completion do not need the modules.
    from samsarrow._backup import calls
    from samsarrow.cli.names import chosen_topics

    if groups and all_groups:
        raise click.UsageError("--group and --all-groups contradict each other")
    started = time.monotonic()
    result = calls.backup(
        list(chosen_topics(connection, names)),
        folder,
        client_options(connection, "consumer", "admin"),
        {},
        groups="all" if all_groups else groups,
        on_data_loss="skip" if skip_lost else "raise",
        file_size=file_size,
        compression=compress,
        timeout=connection.timeout,
        bar=progress,
    )
    manifest = result.manifest
    for loss in result.losses:
        click.echo(f"{loss} were lost: retention or delete_records removed them", err=True)
    if result.resumed:
        click.echo(f"completed the backup of {manifest.made}; run the command again to add newer records", err=True)
    for name, topic in sorted(manifest.topics.items()):
        click.echo(f"{name}: {topic.rows:,} records in {len(topic.files)} files", err=True)
    for name, offsets in sorted(manifest.groups.items()):
        click.echo(f"group {name}: {len(offsets)} offsets", err=True)
    text = written_text(result.rows, result.size, time.monotonic() - started)
    click.echo(f"{text} written to {click.format_filename(folder)}", err=True)
