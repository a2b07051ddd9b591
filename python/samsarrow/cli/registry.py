"""Schema registry of a command: one with Confluent's API, or AWS Glue Schema Registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias
from uuid import UUID

import click

if TYPE_CHECKING:
    from samsarrow import GlueSchemaRegistry, SchemaRegistry
    from samsarrow.registry import RegisteredSchema, SchemaReference, SchemaType

    Registry: TypeAlias = SchemaRegistry | GlueSchemaRegistry


def open_registry(url: str, options: Mapping[str, str]) -> Registry:
    """Creates the client of a registry.

    Args:
        url: URL of a registry with Confluent's API, or several; or `glue://REGION/REGISTRY` for AWS Glue. Without
            REGION, the region is that of the environment; without REGISTRY, the registry is `default-registry`.
        options: options of the registry client with dotted names, without the prefix.

    Raises:
        ConfigurationError: the URL is invalid, or an option is unknown, has an invalid value or does not apply to the
            kind of registry.
    """
    from samsarrow.glue import registry_of_url

    return registry_of_url(url, options)


def subjects(registry: Registry) -> list[str]:
    """Returns the subjects of a registry, or the names of the schemas in AWS Glue."""
    from samsarrow import GlueSchemaRegistry

    return registry.schemas() if isinstance(registry, GlueSchemaRegistry) else registry.subjects()


def look_up(
    registry: Registry,
    subject: str | None,
    version: int | str = "latest",
    number: int | None = None,
    guid: UUID | None = None,
) -> RegisteredSchema:
    """Returns the schema of a subject, an id or a GUID.

    Raises:
        click.UsageError: AWS Glue has no ids.
    """
    from samsarrow import GlueSchemaRegistry

    if not isinstance(registry, GlueSchemaRegistry):
        return registry.schema(id=number, guid=guid, subject=subject, version=version)  # type: ignore[arg-type]
    if number is not None:
        raise click.UsageError("schemas in AWS Glue have no ids: pass SUBJECT, or --guid with the UUID of a version")
    return registry.schema(uuid=guid, name=subject, version=version)  # type: ignore[arg-type]


def register(
    registry: Registry,
    subject: str,
    text: str,
    schema_type: SchemaType,
    references: Sequence[SchemaReference],
    normalize: bool,
) -> int | UUID:
    """Registers a schema, and returns its id, or in AWS Glue the UUID of its version.

    Raises:
        click.UsageError: AWS Glue has no references and does not normalize schemas.
    """
    from samsarrow import GlueSchemaRegistry

    if not isinstance(registry, GlueSchemaRegistry):
        return registry.register(subject, text, schema_type=schema_type, references=references, normalize=normalize)
    if references:
        raise click.UsageError("--reference: AWS Glue stores no references; register one text that has all types")
    if normalize:
        raise click.UsageError("--normalize has no effect with AWS Glue, which does not normalize schemas")
    return registry.register(subject, text, schema_type=schema_type)
