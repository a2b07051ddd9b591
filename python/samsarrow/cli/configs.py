"""`samsarrow configs`: settings of topics, brokers, loggers, groups and client metrics."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

import click

from samsarrow.admin_types import ConfigEntry, ConfigResource, ConfigSource
from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.completion import resources as complete_resources
from samsarrow.cli.config_ops import changes_of, unset_option
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.output import (
    dry_run_option,
    each_result,
    no_rows,
    output_option,
    print_outcomes,
    report_errors,
    run_batch,
    show,
)
from samsarrow.cli.resources import KINDS, resource_of, resources_of, text_of
from samsarrow.exceptions import KafkaError


@click.group(cls=CommandGroup)
def configs() -> None:
    """Show, change and compare settings of topics, brokers, loggers, groups and client metrics.

    A resource is topic:NAME, broker:ID, broker for the settings that all brokers share, logger:ID (KIP-412), group:NAME
    or client-metrics:NAME (KIP-714). Names may be patterns: 'topic:orders-*', 'broker:*'.
    """


resources_argument = click.argument(
    "names", nargs=-1, required=True, metavar="RESOURCE...", shell_complete=complete_resources
)


def _described(
    connection: Connection, resources: list[ConfigResource], synonyms: bool = False, documentation: bool = False
) -> tuple[dict[ConfigResource, dict[str, ConfigEntry]], dict[str, KafkaError]]:
    found: dict[ConfigResource, dict[str, ConfigEntry]] = {}
    errors: dict[str, KafkaError] = {}
    described = connection.admin.describe_configs(resources, synonyms=synonyms, documentation=documentation)
    for resource, entries in each_result(described):
        if isinstance(entries, KafkaError):
            errors[text_of(resource)] = entries
        else:
            found[resource] = entries
    return found, errors


@configs.command("list")
@click.argument("kinds", nargs=-1, type=click.Choice(list(KINDS)), metavar="[KIND]...")
@connected
@output_option
def list_resources(connection: Connection, kinds: tuple[str, ...], form: str | None) -> None:
    """List resources with settings (Kafka 4.1; client-metrics since 3.7): topic, broker, group and so on."""
    found = connection.admin.list_config_resources([KINDS[kind] for kind in kinds])
    show(form, ("resource",), [(text_of(resource),) for resource in found], no_rows("resources", kinds))


@configs.command()
@resources_argument
@connected
@click.option(
    "-s", "--setting", "patterns", multiple=True, metavar="NAME", help="Only this setting, or pattern; repeatable."
)
@click.option("--all", "everything", is_flag=True, help="Include defaults.")
@click.option("--docs", is_flag=True, help="Include the types and documentation of settings (Kafka 2.6).")
@output_option
def get(
    connection: Connection,
    names: tuple[str, ...],
    patterns: tuple[str, ...],
    everything: bool,
    docs: bool,
    form: str | None,
) -> None:
    """Print settings: by default those that differ from Kafka's defaults, or all, or some by name."""
    resources = resources_of(connection, names)
    found, errors = _described(connection, resources, documentation=docs)
    rows: list[tuple[Any, ...]] = []
    for resource, entries in found.items():
        for name, entry in sorted(entries.items()):
            if patterns and not any(fnmatchcase(name, pattern) for pattern in patterns):
                continue
            if patterns or everything or entry.source is not ConfigSource.DEFAULT:
                extra = (entry.type.name.lower(), entry.documentation) if docs else ()
                row = (text_of(resource), name, entry.value, entry.source.name, entry.read_only, entry.sensitive)
                rows.append((*row, *extra))
    heads = ("resource", "name", "value", "source", "read_only", "sensitive", *(("type", "documentation") * docs))
    empty = "no settings match" if patterns else "no settings differ from the defaults"
    show(form, heads, rows, "" if errors else empty)
    report_errors(errors, len(resources), "resources")


@configs.command("set")
@click.argument("name", metavar="RESOURCE", shell_complete=complete_resources)
@click.argument("texts", nargs=-1, metavar="[CHANGE]...")
@connected
@unset_option
@dry_run_option
def set_settings(
    connection: Connection, name: str, texts: tuple[str, ...], unset: tuple[str, ...], dry_run: bool
) -> None:
    """Change settings of a resource, or of all resources that match a pattern (KIP-339, Kafka 2.3).

    Other settings stay unchanged. With --dry-run brokers only check the changes.

    \b
      samsarrow configs set topic:orders retention.ms=86400000 cleanup.policy+=compact
      samsarrow configs set 'broker:*' --unset log.retention.ms
    """  # noqa: D301 - click needs the character
    if not texts and not unset:
        raise click.UsageError("no change given: pass NAME=VALUE, NAME+=VALUE, NAME-=VALUE, or --unset NAME")
    changes = changes_of(texts, unset)
    resources = resources_of(connection, [name])
    change = connection.admin.alter_configs
    outcomes = run_batch(resources, lambda: change(dict.fromkeys(resources, changes), validate_only=dry_run))
    print_outcomes(
        ((text_of(resource), error) for resource, error in outcomes.items()),
        "would be changed" if dry_run else "changed",
    )


@configs.command()
@click.argument("name", metavar="RESOURCE", shell_complete=complete_resources)
@click.argument("other", required=False, metavar="[RESOURCE]", shell_complete=complete_resources)
@connected
@output_option
def diff(connection: Connection, name: str, other: str | None, form: str | None) -> None:
    """Compare the settings of two resources of one type, or the settings of one resource with Kafka's defaults.

    Only differences are printed. Secrets are not compared, since brokers do not return them. If the default comes from
    a broker setting with another unit, the name of this setting is printed, such as log.retention.hours for
    retention.ms.
    """
    resources = [resource_of(text) for text in (name, other) if text is not None]
    if other is not None and resources[0].type is not resources[1].type:
        raise click.UsageError(f"{name} and {other} have different settings: pass two resources of one type")
    for text, resource in zip((name, other), resources, strict=False):
        if set("*?[") & set(resource.name):
            raise click.UsageError(f"{text} is a pattern: compare two resources, or one with the defaults")
    found, errors = _described(connection, resources, synonyms=other is None)
    if errors:
        report_errors(errors, len(errors), "resources")
    if other is None:
        entries = found[resources[0]]
        differ = [
            entries[setting] for setting in sorted(entries) if entries[setting].source is not ConfigSource.DEFAULT
        ]
        rows = [(entry.name, entry.value, _default(entry), entry.source.name) for entry in differ]
        show(form, ("name", "value", "default", "source"), rows, "no settings differ from the defaults")
        return
    left, right = found[resources[0]], found[resources[1]]
    both = [(setting, _value(left, setting), _value(right, setting)) for setting in sorted({*left, *right})]
    show(form, ("name", "left", "right"), [row for row in both if row[1] != row[2]], "no settings differ")


def _value(entries: Mapping[str, ConfigEntry], name: str) -> str | None:
    return entries[name].value if name in entries else None


def _default(entry: ConfigEntry) -> str | None:
    defaults = [synonym for synonym in entry.synonyms if synonym.source is ConfigSource.DEFAULT]
    if not defaults or defaults[-1].value is None:
        return None
    last = defaults[-1]
    # The last word of a name is its unit. A broker setting may be in hours or minutes, and the topic setting in
    # milliseconds.
    same_unit = last.name.rpartition(".")[2] == entry.name.rpartition(".")[2]
    return last.value if same_unit else f"{last.name}={last.value}"
