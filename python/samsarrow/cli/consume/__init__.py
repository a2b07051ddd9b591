"""`samsarrow consume`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from samsarrow.cli.commands import Command, section
from samsarrow.cli.completion import groups, topics
from samsarrow.cli.connection import Connection, reads_values
from samsarrow.cli.consume.formats import CODECS, FORMATS, Rotation
from samsarrow.cli.consume.range import partitions_option, position_option
from samsarrow.cli.consume.typed import ReadFormats, typed_options
from samsarrow.cli.output import output_options

OUTPUT = "Output"
from_range, of_group, as_filter, of_output = (section(title) for title in ("Range", "Group", "Filters", OUTPUT))


def _rotation(_context: click.Context, _parameter: click.Parameter, text: str | None) -> Rotation | None:
    return None if text is None else Rotation.parse(text)


@click.command(cls=Command)
@click.argument("topic_names", nargs=-1, required=True, metavar="TOPIC...", shell_complete=topics)
@reads_values
@from_range(
    "--from",
    "start",
    callback=position_option,
    metavar="POSITION",
    help="earliest, latest, OFFSET, -N (N before the end), TIME (2026-11-01T10:00, -1h, @1793527200000), or group: "
    "what --group has committed. By default earliest, with -f latest.",
)
@from_range(
    "--until",
    callback=position_option,
    metavar="POSITION",
    help="latest, OFFSET, -N or TIME, exclusive. By default the current end, with -f none.",
)
@from_range("-n", "--count", type=click.IntRange(min=0), metavar="N", help="The maximum number of records to read.")
@from_range(
    "--tail",
    type=click.IntRange(1, 1_000_000),
    metavar="N",
    help="The newest N over all partitions, by their timestamps; before any filter.",
)
@from_range("--per-partition", is_flag=True, help="With --tail: the newest N of each partition.")
@from_range("-f", "--follow", is_flag=True, help="Continue as records arrive, until Ctrl-C.")
@from_range(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    callback=partitions_option,
    metavar="P,...",
    help="Only these partitions: 3, 0,2 or 5-7; repeatable.",
)
@of_group(
    "-g",
    "--group",
    shell_complete=groups,
    metavar="GROUP",
    help="Read as a member of this group, and commit the offsets of written records. With --from group: start at its "
    "offsets, without joining it and without committing.",
)
@of_group("--no-commit", is_flag=True, help="With -g: do not commit.")
@of_group(
    "--ack",
    type=click.Choice(["accept", "release"]),
    help="With -g: read as a member of this share group. accept: written records are accepted, others return to the "
    "group. release: all records return to the group at the end, with one delivery more. Ends when no record arrives "
    "for 3 s, or with -f at Ctrl-C.",
)
@as_filter("--grep", metavar="REGEX", help="Only values that match this expression (RE2; (?i) for any case).")
@as_filter(
    "--header", "headers", multiple=True, metavar="NAME[=VALUE]", help="Only records with this header; repeatable."
)
@as_filter(
    "--where",
    metavar="CONDITION",
    help="Only records for which it is true: \"value.amount > 10 and header.kind == 'sale'\".",
)
@typed_options
@output_options(
    FORMATS,
    f"{', '.join(FORMATS)}. By default from the suffix of -O, otherwise value: one line per record. table shows keys, "
    "and members of values as columns.",
    old=("--format",),
    section=OUTPUT,
)
@of_output(
    "--template",
    metavar="TEXT",
    help=r"The format of each line: '{offset}\t{key}\t{value}'; {value:json}, {key:hex} and so on. \c at its end omits "
    "the newline.",
)
@of_output(
    "--text",
    is_flag=True,
    help="Keys and values as text in arrow and parquet, where they are bytes; values as one column in table.",
)
@of_output("--unpack", is_flag=True, help="Members of values as columns, in csv, arrow and parquet.")
@of_output(
    "-O",
    "--output-file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="A file, or - for standard output; arrow and parquet files appear when they are complete.",
)
@of_output(
    "-z",
    "--compress",
    type=click.Choice(CODECS["parquet"]),
    help="The compression codec of a file: by default snappy for parquet, none for arrow.",
)
@of_output(
    "--rotate",
    callback=_rotation,
    metavar="LIMIT",
    help="With -O: a new file, FILE-000001 and so on, after 100MB, 1h or 1000000 rows; with commas, the first of them.",
)
@of_output(
    "--overwrite",
    is_flag=True,
    help="With -g and -O: replace FILE, whose rows the group does not read again, instead of adding rows to it.",
)
def consume(connection: Connection, **options: Any) -> None:
    """Print the records of topics up to their current ends, or with -f continuously.

    Names may be quoted patterns, such as 'orders-*', which choose among the topics that exist at the start.

    Without -f the command stops at the current end of each partition, even if no record is before it because of
    transaction markers or compaction, or if other members of a group read some partitions.

    \b
      samsarrow consume orders --tail 10 -o table
      samsarrow consume orders --from -1h --where "value.amount > 100" -o ndjson | jq .
      samsarrow consume orders -O orders.parquet --unpack
      samsarrow consume orders --value avro --registry http://localhost:8081 -O orders.parquet
      samsarrow consume orders -f -g archive -O orders.parquet --rotate 100MB,1h
      samsarrow consume jobs -g workers --ack accept -n 10
      samsarrow consume orders -o envelope | samsarrow produce copy --format envelope
    """  # noqa: D301 - click needs the character
    # Imported here because the import is slow, and help and completion do not need the module.
    from samsarrow.cli.consume.job import Job

    Job(connection, ReadFormats.take(options), **options).run()
