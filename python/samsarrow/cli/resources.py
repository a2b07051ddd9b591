"""Parsing of resources on the command line: topic:orders, broker:0, broker (for all), group:g, client-metrics:m."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import click

from samsarrow.admin_types import ConfigResource, ConfigResourceType
from samsarrow.cli.connection import Connection
from samsarrow.cli.errors import NotFound
from samsarrow.cli.names import is_pattern

KINDS = {
    "topic": ConfigResourceType.TOPIC,
    "broker": ConfigResourceType.BROKER,
    "logger": ConfigResourceType.BROKER_LOGGER,
    "group": ConfigResourceType.GROUP,
    "client-metrics": ConfigResourceType.CLIENT_METRICS,
}
_NAMES = {kind: name for name, kind in KINDS.items()}
_OF_BROKERS = (ConfigResourceType.BROKER, ConfigResourceType.BROKER_LOGGER)


def text_of(resource: ConfigResource) -> str:
    """Returns a resource in its command-line form."""
    kind = _NAMES.get(resource.type, resource.type.name.lower())
    return f"{kind}:{resource.name}" if resource.name else kind


def resource_of(text: str) -> ConfigResource:
    """Parses a resource on the command line, whose name may be a pattern.

    Raises:
        click.UsageError: the text is not a resource.
    """
    kind, colon, name = text.partition(":")
    if kind not in KINDS or (not name and kind != "broker"):
        hint = f"name the type of the resource, for example topic:{text}" if not colon else "name a resource"
        raise click.UsageError(
            f"{text!r} is not a resource: {hint}. Resources are topic:NAME, broker:ID, broker for the settings of all "
            "brokers, logger:ID, group:NAME and client-metrics:NAME"
        )
    if KINDS[kind] in _OF_BROKERS and name and not is_pattern(name) and not name.isdecimal():
        raise click.UsageError(f"{text!r} names no broker: give its id, for example {kind}:0")
    return ConfigResource(KINDS[kind], name)


def resources_of(connection: Connection, texts: Sequence[str]) -> list[ConfigResource]:
    """Parses resources on the command line. Patterns match all existing resources except internal topics.

    Raises:
        click.UsageError: a text is not a resource.
        NotFound: no resource matches a pattern.
    """
    found: dict[ConfigResource, None] = {}
    existing: dict[ConfigResourceType, list[str]] = {}
    for text, resource in [(text, resource_of(text)) for text in texts]:
        if not is_pattern(resource.name):
            found[resource] = None
            continue
        if resource.type not in existing:
            existing[resource.type] = _all(connection, resource.type)
        matching = [name for name in existing[resource.type] if fnmatchcase(name, resource.name)]
        if not matching:
            raise NotFound(text, connection.servers)
        found.update((ConfigResource(resource.type, name), None) for name in matching)
    return list(found)


def _all(connection: Connection, kind: ConfigResourceType) -> list[str]:
    admin = connection.admin
    if kind is ConfigResourceType.TOPIC:
        return sorted(topic.name for topic in admin.list_topics().values() if not topic.internal)
    if kind is ConfigResourceType.GROUP:
        return sorted(admin.list_groups())
    if kind in _OF_BROKERS:
        return [str(broker.id) for broker in admin.describe_cluster().brokers]
    return sorted(resource.name for resource in admin.list_config_resources([kind]))
