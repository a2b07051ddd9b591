"""Formats in which keys and values are decoded: `--key`, `--value`, and their options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samsarrow.cli.commands import section
from samsarrow.cli.completion import subjects

if TYPE_CHECKING:
    from samsarrow.cli.connection import Connection

# Names of the format classes in `samsarrow` that have schemas. The classes are imported at first use.
SCHEMAS = {"avro": "Avro", "json": "Json", "protobuf": "Protobuf"}
# Types in `--where`, by the format of one of Kafka's built-in serializers.
PLAIN = {"string": "text", "short": "number", "int": "number", "long": "number", "float": "number",
         "double": "number", "boolean": "truth", "uuid": "text"}  # fmt: skip
FORMATS = click.Choice([*SCHEMAS, *PLAIN])
FRAMINGS = ("auto", "confluent", "apicurio8", "none")
# Output formats that write undecoded bytes.
RAW_FORMATS = ("raw", "envelope")

_SCHEMA_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def _names(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(name.strip() for text in texts for name in text.split(","))
    if "" in names:
        raise click.BadParameter("a name is empty: give id,user.city")
    return names


option = section("Keys and values")
_OPTIONS = (
    option(
        "--value",
        type=FORMATS,
        metavar="FORMAT",
        help=f"The format of values, which are decoded into objects and columns: {', '.join(FORMATS.choices)}.",
    ),
    option("--key", type=FORMATS, metavar="FORMAT", help="The format of keys, with the same names."),
    option(
        "--fields",
        multiple=True,
        callback=_names,
        metavar="NAME,...",
        help="Only these fields of values with a schema, as id,user.city; the rest is skipped.",
    ),
    option(
        "--on-decode-error",
        type=click.Choice(["raise", "null"]),
        help="On a key or value that cannot be read: raise ends the command before it, null writes null with its bytes "
        "and the reason. By default raise.",
    ),
    option(
        "--value-schema",
        type=_SCHEMA_FILE,
        metavar="FILE",
        help="The schema of the rows, instead of the registry's. Without a registry also the schema that values were "
        "written with.",
    ),
    option("--key-schema", type=_SCHEMA_FILE, metavar="FILE", help="As --value-schema, of keys."),
    option(
        "--value-subject",
        shell_complete=subjects,
        metavar="SUBJECT[:VERSION]",
        help="The subject of the schema of the rows; by default the latest version of TOPIC-value.",
    ),
    option(
        "--key-subject",
        shell_complete=subjects,
        metavar="SUBJECT[:VERSION]",
        help="As --value-subject, of keys; by default TOPIC-key.",
    ),
    option(
        "--message",
        metavar="NAME",
        help="With --value protobuf or --key protobuf: the message of the file; by default the first.",
    ),
    option(
        "--import",
        "imports",
        multiple=True,
        type=_SCHEMA_FILE,
        metavar="FILE",
        help="With protobuf: a file that schemas import and the registry does not have; repeatable.",
    ),
    option(
        "--recursion",
        type=click.IntRange(0, 1000),
        metavar="N",
        help="With avro or protobuf: how often to follow a type that contains itself; deeper values are invalid.",
    ),
    option(
        "--framing",
        type=click.Choice(FRAMINGS),
        help="Where keys and values name their schema; by default auto, a header or Confluent's prefix; none without a "
        "registry.",
    ),
)


def typed_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of `ReadFormats` to a command."""
    for add_option in reversed(_OPTIONS):
        command = add_option(command)
    return command


@dataclass(frozen=True)
class ReadFormats:
    """Formats of keys and values on the command line, and their options.

    Raises:
        click.UsageError: options contradict each other.
    """

    value: str | None = None
    key: str | None = None
    fields: tuple[str, ...] = ()
    on_decode_error: str | None = None
    value_schema: Path | None = None
    key_schema: Path | None = None
    value_subject: str | None = None
    key_subject: str | None = None
    message: str | None = None
    imports: tuple[Path, ...] = ()
    recursion: int | None = None
    framing: str | None = None

    @classmethod
    def take(cls, options: dict[str, Any]) -> ReadFormats:
        """Removes the options of this class from the options of a command, and creates an object from them."""
        return cls(**{field.name: options.pop(field.name) for field in fields(cls)})

    def __post_init__(self) -> None:
        schemas = " or ".join(SCHEMAS)
        for given, form, option in (
            (self.fields, self.value, "--fields"),
            (self.value_schema, self.value, "--value-schema"),
            (self.value_subject, self.value, "--value-subject"),
            (self.key_schema, self.key, "--key-schema"),
            (self.key_subject, self.key, "--key-subject"),
        ):
            if given and form not in SCHEMAS:
                raise click.UsageError(f"{option} is for --{'key' if 'key' in option else 'value'} {schemas}")
        if self.framing is not None and not {self.key, self.value} & SCHEMAS.keys():
            raise click.UsageError(f"--framing is for --value {schemas}")
        check_schema_options(self.key, self.value, self.message, self.imports, self.recursion)
        if self.on_decode_error is not None and not self:
            raise click.UsageError("--on-decode-error is for --value and --key: bytes are always valid")
        for name, schema, subject in (
            ("value", self.value_schema, self.value_subject),
            ("key", self.key_schema, self.key_subject),
        ):
            if schema is not None and subject is not None:
                raise click.UsageError(f"--{name}-schema and --{name}-subject both set the schema of rows: pass one")

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None

    @property
    def columns(self) -> frozenset[str]:
        """Names of the decoded columns, `key` or `value` or both."""
        return frozenset(name for name, form in (("key", self.key), ("value", self.value)) if form is not None)

    @property
    def kinds(self) -> dict[str, str]:
        """Types that `key` and `value` have in `--where`."""
        return {name: PLAIN.get(form or "", "text") for name, form in (("key", self.key), ("value", self.value))}

    @property
    def integers(self) -> frozenset[str]:
        """Names of the columns that are decoded as integers."""
        return frozenset(
            name for name, form in (("key", self.key), ("value", self.value)) if form in ("short", "int", "long")
        )

    def check(self, form: str, unpack: bool) -> None:
        """Rejects combinations that an output format does not support.

        Raises:
            click.UsageError: the output format writes undecoded bytes, or `unpack` is set and values have no members.
        """
        if self and form in RAW_FORMATS:
            raise click.UsageError(f"-o {form} writes undecoded bytes: omit --key and --value")
        if unpack and self.value is not None and self.value not in SCHEMAS:
            raise click.UsageError(f"--unpack makes columns of members, and --value {self.value} has none")

    def arguments(self, connection: Connection, topics: Sequence[str]) -> dict[str, Any]:
        """Returns the arguments of `Consumer`.

        Raises:
            click.UsageError: the options do not determine the schema of keys or values.
            ConfigurationError: a schema cannot be read.
        """
        if not self:
            return {}
        only = topics[0] if len(set(topics)) == 1 else None
        value = self._format(connection, "value", self.value, self.value_schema, self.value_subject, only)
        key = self._format(connection, "key", self.key, self.key_schema, self.key_subject, only)
        return {"value_format": value, "key_format": key, "on_decode_error": self.on_decode_error or "raise"}

    def _format(
        self,
        connection: Connection,
        name: str,
        form: str | None,
        schema: Path | None,
        subject: str | None,
        topic: str | None,
    ) -> Any:
        if form not in SCHEMAS:
            return form
        import samsarrow
        from samsarrow.values.registry_schemas import topic_subject

        registry = connection.registry if connection.has_registry else None
        if registry is None and schema is None:
            raise click.UsageError(
                f"--{name} {form} needs schemas: give --registry URL, or --{name}-schema FILE if all values were "
                "written with it"
            )
        if registry is None and self.framing not in (None, "none"):
            raise click.UsageError(f"--framing {self.framing} needs a --registry: ids stand for what it has")
        arguments: dict[str, Any] = {"framing": self.framing or ("auto" if registry is not None else "none")}
        if name == "value" and self.fields:
            arguments["fields"] = list(self.fields)
        arguments |= schema_options(form, self.message, self.imports, self.recursion)
        if schema is not None:
            arguments["schema"] = text_of(schema)
        elif subject is not None:
            base, colon, version = subject.rpartition(":")
            numbered = bool(colon) and version.isdecimal()
            arguments["subject"], arguments["version"] = (base, int(version)) if numbered else (subject, "latest")
        elif topic is not None:
            arguments["subject"] = topic_subject(registry, topic, name == "key")
        elif registry is not None:
            raise click.UsageError(
                f"several topics are written as one table: set the schema of its rows by --{name}-subject SUBJECT "
                f"or --{name}-schema FILE"
            )
        return getattr(samsarrow, SCHEMAS[form])(registry=registry, **arguments)


def check_schema_options(
    key: str | None, value: str | None, message: str | None, imports: tuple[Path, ...], recursion: int | None
) -> None:
    """Rejects options that neither the format of keys nor the format of values has.

    Raises:
        click.UsageError: such an option is passed.
    """
    for given, option, formats in (
        (message is not None, "--message", ("protobuf",)),
        (bool(imports), "--import", ("protobuf",)),
        (recursion is not None, "--recursion", ("avro", "protobuf")),
    ):
        if given and not {key, value} & set(formats):
            raise click.UsageError(f"{option} is for --value {' or '.join(formats)}")


def schema_options(
    form: str | None, message: str | None, imports: tuple[Path, ...], recursion: int | None
) -> dict[str, Any]:
    """Returns the options as arguments of the format's class."""
    arguments: dict[str, Any] = {}
    if form == "protobuf" and message is not None:
        arguments["message"] = message
    if form == "protobuf" and imports:
        arguments["imports"] = {str(path): text_of(path) for path in imports}
    if form in ("avro", "protobuf") and recursion is not None:
        arguments["recursion"] = recursion
    return arguments


def text_of(path: Path) -> str:
    """Reads the text of a schema.

    Raises:
        click.UsageError: the file is not UTF-8.
    """
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        raise click.UsageError(f"{click.format_filename(path)} is not a schema: it is not UTF-8") from None
