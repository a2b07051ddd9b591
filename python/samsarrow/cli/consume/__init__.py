"""`samsarrow consume`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from samsarrow.cli.completion import groups, topics
from samsarrow.cli.connection import Connection, reads_values
from samsarrow.cli.consume.formats import CODECS, FORMATS, Rotation
from samsarrow.cli.consume.range import partitions_option, position_option
from samsarrow.cli.consume.typed import ReadFormats, typed_options


def _rotation(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Rotation | None:
    return None if text is None else Rotation.parse(text)


@click.command()
@click.argument("topic_names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topics)
@reads_values
@click.option(
    "--from",
    "start",
    callback=position_option,
    metavar="POSITION",
    help="beginning, end, OFFSET, -N (N before the end), @TIME (@2026-11-01T10:00, @-1h), or group: what --group has "
    "committed. By default beginning, with -f end.",
)
@click.option(
    "--until",
    callback=position_option,
    metavar="POSITION",
    help="end, OFFSET, -N or @TIME, exclusive. By default the current end, with -f none.",
)
@click.option("-n", "--count", type=click.IntRange(min=0), metavar="N", help="The maximum number of records to read.")
@click.option(
    "--tail",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="The newest N over all partitions, by their timestamps; before any filter.",
)
@click.option("--per-partition", is_flag=True, help="With --tail: the newest N of each partition.")
@click.option("-f", "--follow", is_flag=True, help="Continue as records arrive, until Ctrl-C.")
@click.option(
    "-g",
    "--group",
    shell_complete=groups,
    metavar="GROUP",
    help="Read as a member of this group, and commit the offsets of written records. With --from group: start at its "
    "offsets, without joining it and without committing.",
)
@click.option("--no-commit", is_flag=True, help="With -g: do not commit.")
@click.option(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    callback=partitions_option,
    metavar="P,...",
    help="Only these partitions: 3, 0,2 or 5-7; repeatable.",
)
@typed_options
@click.option("--grep", metavar="REGEX", help="Only values that match this expression (RE2; (?i) for any case).")
@click.option(
    "--header", "headers", multiple=True, metavar="NAME[=VALUE]", help="Only records with this header; repeatable."
)
@click.option(
    "--where",
    metavar="CONDITION",
    help="Only records for which it is true: \"value.amount > 10 and header.kind == 'sale'\".",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="By default from the suffix of -O, otherwise value: one line per record.",
)
@click.option(
    "--template",
    metavar="TEXT",
    help=r"The format of each line: '{offset}\t{key}\t{value}'; {value:json}, {key:hex} and so on. \c at its end omits "
    "the newline.",
)
@click.option("--text", is_flag=True, help="Keys and values as text in arrow and parquet, where they are bytes.")
@click.option("--unpack", is_flag=True, help="Members of values as columns, in csv, arrow and parquet.")
@click.option(
    "-z",
    "--compress",
    type=click.Choice(CODECS["parquet"]),
    help="The compression of parquet, by default snappy, and of arrow, by default none.",
)
@click.option(
    "-O",
    "--output-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A file; arrow and parquet files appear when they are complete.",
)
@click.option(
    "--rotate", callback=_rotation, metavar="LIMIT",
    help="With -O: a new file, FILE-000001 and so on, after 100MB, 1h or 1000000 rows; with commas, the first of them.",
)  # fmt: skip
@click.option(
    "--overwrite", is_flag=True,
    help="With -g and -O: replace FILE, whose rows the group does not read again, instead of adding rows to it.",
)  # fmt: skip
def consume(connection: Connection, **options: Any) -> None:
    """Read topics up to their current ends, or with -f continuously.

    Without -f a read ends at the current ends of the partitions, even if no records are before them because of
    transaction markers or compaction, or if other members of a group read some partitions.

    \b
      samsarrow consume orders --tail 10
      samsarrow consume orders --from @-1h --where "value.amount > 100" --format ndjson | jq .
      samsarrow consume orders -O orders.parquet --unpack
      samsarrow consume orders --value avro --registry http://localhost:8081 -O orders.parquet
      samsarrow consume orders -f -g archive -O orders.parquet --rotate 100MB,1h
      samsarrow consume orders --format envelope | samsarrow produce copy --format envelope
    """  # noqa: D301 - click needs the character
    # Imported here because the import is slow, and help and completion do not need the module.
    from samsarrow.cli.consume.job import Job

    Job(connection, ReadFormats.take(options), **options).run()
