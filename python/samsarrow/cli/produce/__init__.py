"""`samsarrow produce`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from samsarrow.cli.commands import Command, section
from samsarrow.cli.completion import topics
from samsarrow.cli.connection import Connection, writes_values
from samsarrow.cli.produce.typed import WriteFormats, written_options

of_input, of_columns, of_records = (section(title) for title in ("Input", "Columns", "Records"))
FORMATS = ("value", "ndjson", "json", "raw", "envelope", "csv", "arrow", "parquet")
# Arrow types of CSV columns, by their names on the command line.
CSV_TYPES = {"string": "string", "short": "int16", "int": "int32", "long": "int64", "float": "float32",
             "double": "float64", "boolean": "bool"}  # fmt: skip
ESCAPES = {"\\t": b"\t", "\\0": b"\0", "\\n": b"\n"}


def _separator(_context: click.Context, _parameter: click.Parameter, text: str | None) -> bytes | None:
    if text == "":
        raise click.BadParameter("the separator of key and value is empty")
    return None if text is None else ESCAPES.get(text, text.encode())


def _headers(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> list[tuple[str, bytes | None]]:
    found: list[tuple[str, bytes | None]] = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE, or NAME for null")
        found.append((name, value.encode() if equals else None))
    return found


def _column_types(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, kind = text.rpartition("=")
        if not equals or kind not in CSV_TYPES:
            raise click.BadParameter(f"{text!r} is not NAME=TYPE with a type of {', '.join(CSV_TYPES)}")
        found[name] = CSV_TYPES[kind]
    return found


@click.command(cls=Command)
@click.argument("topic", shell_complete=topics)
@click.argument(
    "files",
    nargs=-1,
    metavar="[FILE]...",
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
)
@writes_values
@of_input(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="The format of the input: by default from each file's suffix, otherwise value, one record per line. raw makes "
    "one record of a file.",
)
@of_input(
    "-K",
    "--key-separator",
    callback=_separator,
    metavar="TEXT",
    help=r"The text between key and value of a line, as in -K : or -K '\t'.",
)
@of_input("--tombstone", is_flag=True, help="An empty value is null: it deletes its key in a compacted topic.")
@of_columns("--key-column", metavar="NAME", help="The column of keys in csv, arrow and parquet; by default key.")
@of_columns(
    "--value-column",
    "value_columns",
    multiple=True,
    metavar="NAME",
    help="The column of values; by default value, or without it all other columns as JSON. Repeatable.",
)
@of_columns("--partition-column", metavar="NAME", help="The column of partitions.")
@of_columns("--timestamp-column", metavar="NAME", help="The column of timestamps.")  # fmt: skip
@of_columns(
    "--column-type",
    "column_types",
    multiple=True,
    callback=_column_types,
    metavar="NAME=TYPE",
    help="The type of a csv column, as amount=long; otherwise cells are text. Repeatable.",
)
@of_records(
    "-H",
    "--header",
    "headers",
    multiple=True,
    callback=_headers,
    metavar="NAME[=VALUE]",
    help="A header of every record; without =VALUE its value is null. Repeatable.",
)
@of_records(
    "-z",
    "--compress",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    help="The compression; by default compression.type, or none.",
)
@of_records("-p", "--partition", type=click.IntRange(0, 2**31 - 1), metavar="P", help="The partition of all records.")
@of_records(
    "--repartition",
    is_flag=True,
    help="Ignore the partitions of envelopes and of tables that consume wrote: keys choose the partition.",
)
@written_options
def produce(connection: Connection, topic: str, files: tuple[Path, ...], **options: Any) -> None:
    """Write files or standard input to a topic.

    Sent records stay in the topic even if a later record fails. In this case the exit code is 3, and the number of sent
    records is printed to standard error.

    \b
      echo "hello" | samsarrow produce greetings
      samsarrow produce orders orders.parquet --key-column customer -z zstd
      printf 'k1:v1\\nk2:\\n' | samsarrow produce table -K : --tombstone
      samsarrow consume orders -o envelope | samsarrow produce copy --format envelope
      samsarrow produce orders orders.parquet --value avro --registry http://localhost:8081
    """  # noqa: D301 - click needs the character
    # Imported here because the import is slow, and help and completion do not need the module.
    from samsarrow.cli.produce.job import Job

    formats = WriteFormats.take(options)
    Job(connection, topic, files, formats=formats, **options).run()
