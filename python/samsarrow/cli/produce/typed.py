"""Formats in which keys and values are encoded: `--key`, `--value`, and their options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samsarrow.cli.commands import section
from samsarrow.cli.consume.typed import FORMATS, SCHEMAS, check_schema_options, schema_options, text_of

if TYPE_CHECKING:
    import pyarrow as pa

    from samsarrow.cli.connection import Connection

_SCHEMA_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
option = section("Keys and values")
_OPTIONS = (
    option(
        "--value",
        type=FORMATS,
        metavar="FORMAT",
        help=f"The format of values from columns of csv, arrow and parquet: {', '.join(FORMATS.choices)}.",
    ),
    option("--key", type=FORMATS, metavar="FORMAT", help="The format of keys from a column, with the same names."),
    option(
        "--value-schema",
        type=_SCHEMA_FILE,
        metavar="FILE",
        help="The schema to write values with, registered if necessary; by default derived from the columns (avro), or "
        "the latest version of TOPIC-value.",
    ),
    option("--key-schema", type=_SCHEMA_FILE, metavar="FILE", help="As --value-schema, of keys."),
    option("--message", metavar="NAME", help="With protobuf: the message of the file; by default the first."),
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
        help="With avro or protobuf: the depth of columns whose type contains itself.",
    ),
)


def written_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options of `WriteFormats` to a command."""
    for add_option in reversed(_OPTIONS):
        command = add_option(command)
    return command


@dataclass(frozen=True)
class WriteFormats:
    """Formats of keys and values on the command line, and their options.

    Raises:
        click.UsageError: options contradict each other.
    """

    value: str | None = None
    key: str | None = None
    value_schema: Path | None = None
    key_schema: Path | None = None
    message: str | None = None
    imports: tuple[Path, ...] = ()
    recursion: int | None = None

    @classmethod
    def take(cls, options: dict[str, Any]) -> WriteFormats:
        """Removes the options of this class from the options of a command, and creates an object from them."""
        return cls(**{field.name: options.pop(field.name) for field in fields(cls)})

    def __post_init__(self) -> None:
        for name, form, schema in (("value", self.value, self.value_schema), ("key", self.key, self.key_schema)):
            if schema is not None and form not in SCHEMAS:
                raise click.UsageError(f"--{name}-schema is for --{name} {' or '.join(SCHEMAS)}")
        check_schema_options(self.key, self.value, self.message, self.imports, self.recursion)

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None

    def formats(self, connection: Connection) -> dict[str, Any]:
        """Returns the format arguments of `send_batch`.

        Raises:
            click.UsageError: the options do not determine the schema to write with.
            ConfigurationError: a schema cannot be read.
        """
        return {
            "key_format": self._format(connection, "key", self.key, self.key_schema),
            "value_format": self._format(connection, "value", self.value, self.value_schema),
        }

    def types(self, formats: dict[str, Any], topic: str) -> dict[str, pa.DataType]:
        """Returns the Arrow types of keys and values in these formats, for parsing CSV cells.

        Args:
            formats: result of `formats`.
            topic: topic from which the subjects in a registry are derived.
        """
        import pyarrow as pa

        import samsarrow
        from samsarrow.exceptions import SchemaNotFoundError

        types = {}
        for name in ("key", "value"):
            if (form := formats[f"{name}_format"]) is None:
                continue
            try:
                empty = samsarrow.decode_values(pa.array([], pa.binary()), form, topic=topic, key=name == "key")
            except SchemaNotFoundError:
                # The schema will be derived from the columns, which are text in this case.
                continue
            types[name] = empty.type
        return types

    def _format(self, connection: Connection, name: str, form: str | None, schema: Path | None) -> Any:
        if form not in SCHEMAS:
            return form
        import samsarrow

        registry = connection.registry if connection.has_registry else None
        if registry is None and schema is None:
            raise click.UsageError(
                f"--{name} {form} needs a schema: give --registry URL, or --{name}-schema FILE for values without ids"
            )
        arguments: dict[str, Any] = {"framing": "none" if registry is None else "auto"}
        if schema is not None:
            arguments["schema"] = text_of(schema)
        arguments |= schema_options(form, self.message, self.imports, self.recursion)
        return getattr(samsarrow, SCHEMAS[form])(registry=registry, **arguments)
