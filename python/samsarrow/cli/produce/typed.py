"""Formats that columns are written in: `--key`, `--value`, and what belongs to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from samsarrow.cli.consume.typed import FORMATS, SCHEMAS, check_schema_options, schema_options, text_of

if TYPE_CHECKING:
    import pyarrow as pa

    from samsarrow.cli.connection import Connection

_SCHEMA_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)
_OPTIONS = (
    click.option("--value", type=FORMATS, help="The format of values from columns of csv, arrow and parquet."),
    click.option("--key", type=FORMATS, help="The format of keys from a column."),
    click.option(
        "--value-schema",
        type=_SCHEMA_FILE,
        metavar="FILE",
        help="What values are written with, and the registry is to have; by default what follows from the columns "
        "(avro), or the latest version of TOPIC-value.",
    ),
    click.option("--key-schema", type=_SCHEMA_FILE, metavar="FILE", help="As --value-schema, of keys."),
    click.option("--message", metavar="NAME", help="With protobuf: the message of the file; by default the first."),
    click.option(
        "--import",
        "imports",
        multiple=True,
        type=_SCHEMA_FILE,
        metavar="FILE",
        help="With protobuf: a file that schemas import and the registry does not have; repeatable.",
    ),
    click.option(
        "--recursion",
        type=click.IntRange(0, 1000),
        metavar="N",
        help="With avro or protobuf: how deep columns have a type that contains itself.",
    ),
)


def written_options(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options, which `Written.of` takes."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@dataclass(frozen=True)
class Written:
    """What the options say.

    Raises:
        click.UsageError: they make no sense together.
    """

    value: str | None = None
    key: str | None = None
    value_schema: Path | None = None
    key_schema: Path | None = None
    message: str | None = None
    imports: tuple[Path, ...] = ()
    recursion: int | None = None

    @classmethod
    def of(cls, options: dict[str, Any]) -> Written:
        """Takes its own out of the options of a command."""
        return cls(**{one.name: options.pop(one.name) for one in fields(cls)})

    def __post_init__(self) -> None:
        for name, form, schema in (("value", self.value, self.value_schema), ("key", self.key, self.key_schema)):
            if schema is not None and form not in SCHEMAS:
                raise click.UsageError(f"--{name}-schema is for --{name} {' or '.join(SCHEMAS)}")
        check_schema_options(self.key, self.value, self.message, self.imports, self.recursion)

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None

    def formats(self, connection: Connection) -> dict[str, Any]:
        """Those of keys and values, as `send_batch` takes them.

        Raises:
            click.UsageError: it is not known what is written.
            ConfigurationError: a schema cannot be read.
        """
        return {
            "key_format": self._format(connection, "key", self.key, self.key_schema),
            "value_format": self._format(connection, "value", self.value, self.value_schema),
        }

    def types(self, formats: dict[str, Any], topic: str) -> dict[str, pa.DataType]:
        """The types of keys and values that formats know, for cells of CSV, which have none.

        Args:
            formats: of `formats`.
            topic: whose subjects a registry has.
        """
        import pyarrow as pa

        import samsarrow
        from samsarrow.exceptions import SchemaNotFoundError

        found = {}
        for name in ("key", "value"):
            if (form := formats[f"{name}_format"]) is None:
                continue
            try:
                empty = samsarrow.decode_values(pa.array([], pa.binary()), form, topic=topic, key=name == "key")
            except SchemaNotFoundError:
                # The schema follows from the columns, which are text.
                continue
            found[name] = empty.type
        return found

    def _format(self, connection: Connection, name: str, form: str | None, schema: Path | None) -> Any:
        if form not in SCHEMAS:
            return form
        import samsarrow

        registry = connection.registry if connection.has_registry else None
        if registry is None and schema is None:
            raise click.UsageError(
                f"--{name} {form} needs a schema: give --registry URL, or --{name}-schema FILE for values without ids"
            )
        given: dict[str, Any] = {"framing": "none" if registry is None else "auto"}
        if schema is not None:
            given["schema"] = text_of(schema)
        given |= schema_options(form, self.message, self.imports, self.recursion)
        return getattr(samsarrow, SCHEMAS[form])(registry=registry, **given)
