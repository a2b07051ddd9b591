"""What has settings, as commands name it: topic:orders, broker:0, broker for all, group:g, client-metrics:m."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase

import click

from samsarrow.admin_types import ConfigResource, ConfigResourceType
from samsarrow.cli.connection import Connection

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
    """A resource as the command line has it."""
    kind = _NAMES.get(resource.type, resource.type.name.lower())
    return f"{kind}:{resource.name}" if resource.name else kind


def resource_of(text: str) -> ConfigResource:
    """A resource of the command line, be its name a pattern or not.

    Raises:
        click.UsageError: it is none.
    """
    kind, _, name = text.partition(":")
    if kind not in KINDS or (not name and kind != "broker"):
        raise click.UsageError(
            f"{text!r} has no settings: give topic:NAME, broker:ID, broker for what all brokers share, logger:ID, "
            "group:NAME or client-metrics:NAME"
        )
    if KINDS[kind] in _OF_BROKERS and name and not _pattern(name) and not name.isdecimal():
        raise click.UsageError(f"{text!r} names no broker: give its id, for example {kind}:0")
    return ConfigResource(KINDS[kind], name)


def resources_of(connection: Connection, texts: Sequence[str]) -> list[ConfigResource]:
    """Resources of the command line; patterns stand for all that there are, except Kafka's own topics.

    Raises:
        click.UsageError: one is none, or a pattern is that of none.
    """
    found: dict[ConfigResource, None] = {}
    there: dict[ConfigResourceType, list[str]] = {}
    for text, resource in [(text, resource_of(text)) for text in texts]:
        if not _pattern(resource.name):
            found[resource] = None
            continue
        if resource.type not in there:
            there[resource.type] = _all(connection, resource.type)
        its = [name for name in there[resource.type] if fnmatchcase(name, resource.name)]
        if not its:
            raise click.UsageError(f"there is no {text} at {connection.servers}, or you may not see it")
        found.update((ConfigResource(resource.type, name), None) for name in its)
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


def _pattern(name: str) -> bool:
    return bool(set("*?[") & set(name))
