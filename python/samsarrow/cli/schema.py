"""`samsarrow schema`: schemas of a registry."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

import click

from samsarrow.cli import registry as registries
from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.completion import subjects as complete_subjects
from samsarrow.cli.completion import topics as complete_topics
from samsarrow.cli.connection import Connection, asks_registry, reads_values
from samsarrow.cli.consume.typed import SCHEMAS
from samsarrow.cli.output import check_names, matches, no_rows, output_option, output_options, report_errors, show
from samsarrow.exceptions import KafkaError

if TYPE_CHECKING:
    from samsarrow.registry import RegisteredSchema, SchemaReference, SchemaType

TYPES: dict[str, SchemaType] = {"avro": "AVRO", "json": "JSON", "protobuf": "PROTOBUF"}
SUFFIXES = {".avsc": "avro", ".proto": "protobuf"}
# Maximum number of concurrent lookups of subjects.
CONCURRENCY = 8


@click.group(cls=CommandGroup)
def schema() -> None:
    """Show, check and register schemas of a registry.

    The registry is set by --registry, or by schema_registry_url in a profile, which may have its other options, such as
    schema_registry_basic_auth_user_info and schema_registry_ssl_ca_location. AWS Glue is glue://REGION/REGISTRY.
    """


def _version(_context: click.Context, _parameter: click.Parameter, text: str | None) -> int | str:
    if text is None or text == "latest":
        return "latest"
    if not text.isdecimal() or not 0 < int(text) < 2**31:
        raise click.BadParameter(f"{text!r} is not a version: pass a number from 1 on, or latest")
    return int(text)


def _guid(_context: click.Context, _parameter: click.Parameter, text: str | None) -> UUID | None:
    try:
        return None if text is None else UUID(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a GUID, such as 89791762-2336-4186-9674-299b90a802e2") from None


def _references(
    _context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]
) -> tuple[SchemaReference, ...]:
    if not texts:
        return ()
    from samsarrow.registry import SchemaReference

    found = []
    for text in texts:
        # Names may contain `=`, and subjects may contain colons.
        name, _, target = text.rpartition("=")
        subject, _, version = target.rpartition(":")
        if not name or not subject or not version.isdecimal():
            raise click.BadParameter(f"{text!r} is not NAME=SUBJECT:VERSION, as com.example.User=users-value:1")
        found.append(SchemaReference(name, subject, int(version)))
    return tuple(found)


subject_argument = click.argument("subject", shell_complete=complete_subjects)
file_argument = click.argument(
    "path", metavar="FILE", type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path)
)
type_option = click.option(
    "--type", "kind", type=click.Choice(list(TYPES)), help="The type; by default from the suffix, .avsc or .proto."
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
    """List all subjects, or those that match patterns, with their versions, and the type and id of the latest."""
    from concurrent.futures import ThreadPoolExecutor

    registry = connection.registry
    subjects = sorted(registries.subjects(registry))
    selected = [name for name in subjects if matches(name, patterns)]
    check_names("subject", patterns, subjects, "the registry")

    def look_up(subject: str) -> tuple[object, ...] | KafkaError:
        try:
            versions, latest = registry.versions(subject), registries.look_up(registry, subject)
        except KafkaError as error:
            return error
        return subject, versions, latest.schema_type, latest.guid if latest.id is None else latest.id

    with ThreadPoolExecutor(CONCURRENCY) as pool:
        found = list(pool.map(look_up, selected))
    rows = [row for row in found if not isinstance(row, KafkaError)]
    pairs = zip(selected, found, strict=True)
    errors = {f"subject {name}": error for name, error in pairs if isinstance(error, KafkaError)}
    show(form, ("subject", "versions", "type", "id"), rows, "" if errors else no_rows("subjects", patterns))
    report_errors(errors, len(selected), "subjects")


@schema.command("show")
@click.argument("subject", required=False, shell_complete=complete_subjects)
@asks_registry
@click.option("--version", callback=_version, metavar="N", help="The version of the subject; by default latest.")
@click.option("--id", "number", type=click.IntRange(min=0), metavar="N", help="An id, instead of a subject.")
@click.option("--guid", callback=_guid, metavar="GUID", help="A GUID, instead of a subject.")
@output_options(
    ("text", "json", "ndjson"),
    "text, json or ndjson. By default the schema's text, with its metadata on standard error.",
    default="text",
)
def show_schema(
    connection: Connection, subject: str | None, version: int | str, number: int | None, guid: UUID | None, form: str
) -> None:
    """Show the schema of a subject, an id or a GUID.

    On a terminal JSON is indented; elsewhere the registry's text is unchanged.
    """
    if sum(choice is not None for choice in (subject, number, guid)) != 1:
        raise click.UsageError("pass one of SUBJECT, --id and --guid")
    if subject is None and version != "latest":
        raise click.UsageError("--version is for a SUBJECT")
    found = registries.look_up(connection.registry, subject, version, number, guid)
    references = [f"{ref.name}={ref.subject}:{ref.version}" for ref in found.references]
    if form == "text":
        _print_metadata(found, references)
        click.echo(_readable(found.schema) if sys.stdout.isatty() else found.schema)
        return
    names = ("subject", "version", "id", "guid", "type", "references", "schema")
    row = (found.subject, found.version, found.id, found.guid, found.schema_type, references, found.schema)
    if form == "ndjson":
        show(form, names, [row])
    else:
        known = dict(zip(names, row, strict=True))
        click.echo(json.dumps(known, ensure_ascii=False, indent=2, default=str))


def _print_metadata(found: RegisteredSchema, references: list[str]) -> None:
    known = [
        found.subject,
        found.version and f"version {found.version}",
        found.id and f"id {found.id}",
        found.guid and f"GUID {found.guid}",
        found.schema_type,
    ]
    click.echo(", ".join(str(part) for part in known if part), err=True)
    for reference in references:
        click.echo(f"uses {reference}", err=True)


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
    """Check whether a schema is compatible with a subject, without registering it. If not, the exit code is 1."""
    # Imported here because the import is slow.
    from samsarrow import GlueSchemaRegistry

    text, schema_type = _text(path, kind)
    registry = connection.registry
    if isinstance(registry, GlueSchemaRegistry):
        raise click.UsageError("AWS Glue checks the compatibility of a schema only when it is registered")
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
    """Register a schema as the next version of a subject, and print its id. A registered schema keeps its id."""
    text, schema_type = _text(path, kind)
    number = registries.register(connection.registry, subject, text, schema_type, references, normalize)
    show(form, ("subject", "type", "id"), [(subject, schema_type, number)])


@schema.command()
@click.argument("topic", shell_complete=complete_topics)
@reads_values
@click.option(
    "--value",
    "kind",
    type=click.Choice(list(TYPES)),
    default="json",
    help="The format of values. Schemas of json, the default, are inferred; those of others are the registry's.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=10_000, metavar="N", help="Values to read; by default 10000."
)
@output_options(
    ("arrow", "avro", "json-schema"),
    "arrow, avro or json-schema. By default arrow, a line for each column; the others are for a registry.",
    old=("--as",),
    default="arrow",
)
def infer(connection: Connection, topic: str, kind: str, limit: int, form: str) -> None:
    """Infer columns that fit the first values of a topic. Nothing is registered.

    \b
      samsarrow schema infer orders -o json-schema > orders.json
      samsarrow schema register orders-value orders.json --type json
    """  # noqa: D301 - click needs the character
    # Imported here because the import is slow, and help and completion do not need the module.
    from samsarrow.cli import infer

    if kind == "json":
        found = infer.inferred(connection, topic, limit)
    else:
        found = infer.decoded(connection, topic, SCHEMAS[kind])
    text = infer.text_of(found, form, topic)
    click.echo(_readable(text) if sys.stdout.isatty() else text)


def _text(path: Path, kind: str | None) -> tuple[str, SchemaType]:
    """Reads a schema from a file, and returns its text and its type.

    Raises:
        click.UsageError: neither the option nor the suffix determines the type, or the file is not UTF-8.
    """
    kind = kind or SUFFIXES.get(path.suffix.lower())
    if kind is None:
        raise click.UsageError(
            f"the type of {click.format_filename(path)} is unknown: pass --type, or a file with a suffix of "
            f"{', '.join(SUFFIXES)}"
        )
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        return data.decode(), TYPES[kind]
    except UnicodeDecodeError:
        raise click.UsageError(f"{click.format_filename(path)} is not a schema: it is not UTF-8") from None
