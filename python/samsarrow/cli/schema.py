"""`samsarrow schema`: what a schema registry has."""

from __future__ import annotations

import json
import sys
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import click

from samsarrow.cli.completion import subjects as complete_subjects
from samsarrow.cli.completion import topics as complete_topics
from samsarrow.cli.connection import Connection, asks_registry, reads_values
from samsarrow.cli.consume.typed import SCHEMAS
from samsarrow.cli.output import complain, output_option, show
from samsarrow.exceptions import KafkaError

if TYPE_CHECKING:
    from samsarrow.registry import RegisteredSchema, SchemaReference, SchemaType

TYPES: dict[str, SchemaType] = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
SUFFIXES = {".avsc": "avro", ".proto": "protobuf"}
# Subjects that are asked about at a time.
AT_ONCE = 8


@click.group()
def schema() -> None:
    """Look at schemas of a registry, check and register them.

    The registry is named by --registry, or by schema_registry_url in a profile, which also has its other options, as
    schema_registry_basic_auth_user_info and schema_registry_ssl_ca_location.
    """


def _version(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | str:
    if text is None or text == "latest":
        return "latest"
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise click.BadParameter(f"{text!r} is no version: they count from 1, and there is latest")
    return int(text)


def _guid(_context: click.Context, _parameter: click.Parameter, text: str | None) -> UUID | None:
    try:
        return None if text is None else UUID(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is no GUID, such as 89791762-2336-4186-9674-299b90a802e2") from None


def _references(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[SchemaReference, ...]:
    if not texts:
        return ()
    from samsarrow.registry import SchemaReference

    found = []
    for text in texts:
        # Addresses may have an =, and subjects a colon.
        name, _, where = text.rpartition("=")
        subject, _, version = where.rpartition(":")
        if not name or not subject or not version.isdecimal():
            raise click.BadParameter(f"{text!r} is not NAME=SUBJECT:VERSION, as com.example.User=users-value:1")
        found.append(SchemaReference(name, subject, int(version)))
    return tuple(found)


subject_argument = click.argument("subject", shell_complete=complete_subjects)
file_argument = click.argument(
    "path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
type_option = click.option(
    "--type", "kind", type=click.Choice(list(TYPES)), help="By default that of the suffix, .avsc or .proto."
)
reference_option = click.option(
    "--reference",
    "references",
    multiple=True,
    callback=_references,
    metavar="NAME=SUBJECT:VERSION",
    help="A schema that it uses; repeatable.",
)


@schema.command("list")
@click.argument("patterns", nargs=-1, metavar="[SUBJECT]...", shell_complete=complete_subjects)
@asks_registry
@output_option
def list_subjects(connection: Connection, patterns: tuple[str, ...], form: str | None) -> None:
    """List subjects with their versions; type and id are the latest's. All, or those of some names and patterns."""
    from concurrent.futures import ThreadPoolExecutor

    registry = connection.registry
    there = sorted(registry.subjects())
    wanted = [one for one in there if not patterns or any(fnmatchcase(one, pattern) for pattern in patterns)]
    for pattern in patterns:
        if not any(fnmatchcase(one, pattern) for one in there):
            raise click.UsageError(f"there is no subject {pattern} in the registry, or you may not see it")

    def look(subject: str) -> tuple[object, ...] | KafkaError:
        try:
            versions, latest = registry.versions(subject), registry.schema(subject=subject)
        except KafkaError as error:
            return error
        return subject, versions, latest.schema_type, latest.id

    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = list(pool.map(look, wanted))
    rows = [one for one in found if not isinstance(one, KafkaError)]
    show(form, ("subject", "versions", "type", "id"), rows)
    errors = {f"subject {name}": one for name, one in zip(wanted, found, strict=True) if isinstance(one, KafkaError)}
    complain(errors, len(wanted), "subjects")


@schema.command("show")
@click.argument("subject", required=False, shell_complete=complete_subjects)
@asks_registry
@click.option("--version", callback=_version, metavar="N", help="Of the subject; by default latest.")
@click.option("--id", "number", type=click.IntRange(min=0), metavar="N", help="In the place of a subject.")
@click.option("--guid", callback=_guid, metavar="GUID", help="In the place of a subject.")
@click.option(
    "-o",
    "--output",
    "form",
    type=click.Choice(["text", "json", "ndjson"]),
    default="text",
    help="By default the schema's text, and what is known of it on standard error.",
)
def show_schema(
    connection: Connection, subject: str | None, version: int | str, number: int | None, guid: UUID | None, form: str
) -> None:
    """Show a schema: of a subject, an id or a GUID.

    On a terminal JSON is indented; elsewhere the text is as the registry has it.
    """
    if sum(one is not None for one in (subject, number, guid)) != 1:
        raise click.UsageError("one of SUBJECT, --id and --guid says which schema")
    if subject is None and version != "latest":
        raise click.UsageError("--version is of a subject")
    found = connection.registry.schema(id=number, guid=guid, subject=subject, version=version)  # type: ignore[arg-type]
    refers = [f"{one.name}={one.subject}:{one.version}" for one in found.references]
    if form == "text":
        _say(found, refers)
        click.echo(_readable(found.schema) if sys.stdout.isatty() else found.schema)
        return
    names = ("subject", "version", "id", "guid", "type", "references", "schema")
    row = (found.subject, found.version, found.id, found.guid, found.schema_type, refers, found.schema)
    if form == "ndjson":
        show(form, names, [row])
    else:
        known = dict(zip(names, row, strict=True))
        click.echo(json.dumps(known, ensure_ascii=False, indent=2, default=str))


def _say(found: RegisteredSchema, refers: list[str]) -> None:
    known = [
        found.subject,
        found.version and f"version {found.version}",
        found.id and f"id {found.id}",
        found.guid and f"GUID {found.guid}",
        found.schema_type,
    ]
    click.echo(", ".join(str(one) for one in known if one), err=True)
    for one in refers:
        click.echo(f"uses {one}", err=True)


def _readable(text: str) -> str:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    except (ValueError, RecursionError):
        return text


@schema.command()
@subject_argument
@file_argument
@asks_registry
@type_option
@reference_option
def check(
    connection: Connection, subject: str, path: Path, kind: str | None, references: tuple[SchemaReference, ...]
) -> None:
    """Check whether a schema may be a subject's next. Nothing is registered. Exit code 1: it may not be."""
    text, schema_type = _text(path, kind)
    registry = connection.registry
    registry.check(subject, text, schema_type=schema_type, references=references)
    click.echo(f"{subject}: it may be the next ({registry.compatibility(subject)})")


@schema.command()
@subject_argument
@file_argument
@asks_registry
@type_option
@reference_option
@click.option("--normalize", is_flag=True, help="Let the registry normalize the schema first.")
@output_option
def register(
    connection: Connection,
    subject: str,
    path: Path,
    kind: str | None,
    references: tuple[SchemaReference, ...],
    normalize: bool,
    form: str | None,
) -> None:
    """Register a schema as the next of a subject, and print its id. One that is there already keeps its id."""
    text, schema_type = _text(path, kind)
    number = connection.registry.register(
        subject, text, schema_type=schema_type, references=references, normalize=normalize
    )
    show(form, ("subject", "type", "id"), [(subject, schema_type, number)])


@schema.command()
@click.argument("topic", shell_complete=complete_topics)
@reads_values
@click.option(
    "--value",
    "kind",
    type=click.Choice(list(TYPES)),
    default="json",
    help="What values are, by default json: these are read. Of others the registry has the schema.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=10_000, metavar="N", help="Values that are read; by default 10000."
)
@click.option(
    "--as",
    "form",
    type=click.Choice(["arrow", "avro", "json-schema"]),
    default="arrow",
    help="By default arrow, a line for each column; the others are what a registry takes.",
)
def infer(connection: Connection, topic: str, kind: str, limit: int, form: str) -> None:
    """Find columns that the first values of a topic fit into. Nothing is registered.

    \b
      samsarrow schema infer orders --as json-schema > orders.json
      samsarrow schema register orders-value orders.json --type json
    """  # noqa: D301 - the character that click wants
    # What reads records takes its time to be imported: help and completion do without.
    from samsarrow.cli import infer

    if kind == "json":
        found = infer.inferred(connection, topic, limit)
    else:
        found = infer.decoded(connection, topic, SCHEMAS[kind])
    text = infer.text_of(found, form, topic)
    click.echo(_readable(text) if sys.stdout.isatty() else text)


def _text(path: Path, kind: str | None) -> tuple[str, SchemaType]:
    """A schema and its type.

    Raises:
        click.UsageError: neither option nor suffix says the type, or it is no text.
    """
    kind = kind or SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise click.UsageError(
            f"what is in {click.format_filename(path)}? Give --type, or a suffix of {', '.join(SUFFIXES)}"
        )
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return data.decode(), TYPES[kind]
    except UnicodeDecodeError:
        raise click.UsageError(f"{click.format_filename(path)} is not a schema: it is not UTF-8") from None
