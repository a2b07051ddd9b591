"""`samsarrow quotas`: quotas of users, clients and addresses."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import click

from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.numbers import Size
from samsarrow.cli.output import (
    confirm,
    dry_run_option,
    listed,
    no_rows,
    output_option,
    print_outcomes,
    run_batch,
    show,
    yes_option,
)
from samsarrow.cli.times import bytes_of
from samsarrow.cluster_types import QuotaEntity

TYPES = ("user", "client-id", "ip")
Parts = dict[str, tuple[str | None, ...]]


@click.group(cls=CommandGroup)
def quotas() -> None:
    """Show, set and delete quotas (KIP-546, Kafka 2.6).

    A quota is for a user, a client id, both together, or an address. --default-user and similar options select all
    entities without a quota of their own.
    """


def quota_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that select quota entities to a command, which receives them as `parts`."""

    def with_parts(*arguments: Any, **options: Any) -> None:
        parts: Parts = {}
        for kind in TYPES:
            key = kind.replace("-", "_")
            names: tuple[str | None, ...] = tuple(dict.fromkeys(options.pop(f"of_{key}")))
            if "" in names:
                raise click.UsageError(f"--{kind} '' is empty: --default-{kind} is for all without a quota")
            if options.pop(f"default_{key}"):
                names = (*names, None)
            if names:
                parts[kind] = names
        if "ip" in parts and len(parts) > 1:
            raise click.UsageError("quotas of addresses cannot be combined: omit --user and --client-id")
        command(*arguments, parts=parts, **options)

    with_parts.__name__, with_parts.__doc__ = command.__name__, command.__doc__
    with_parts.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    for kind, what in reversed((("user", "A user"), ("client-id", "A client id"), ("ip", "An address"))):
        key = kind.replace("-", "_")
        others = click.option(
            f"--default-{kind}", f"default_{key}", is_flag=True, help="All entities without a quota of their own."
        )
        named = click.option(f"--{kind}", f"of_{key}", multiple=True, metavar="NAME", help=f"{what}; repeatable.")
        with_parts = named(others(with_parts))
    return with_parts


def entities_of(parts: Parts) -> list[QuotaEntity]:
    """Returns the entities of each combination of user and client id.

    Raises:
        click.UsageError: no entity is selected.
    """
    if not parts:
        raise click.UsageError("select quotas with --user, --client-id, --ip, or --default-user and similar options")
    return [QuotaEntity(dict(zip(parts, names, strict=True))) for names in product(*parts.values())]


def text_of(entity: QuotaEntity) -> str:
    """Returns an entity as text, such as `user alice` or `default client-id`."""
    parts = [(kind, entity.parts[kind]) for kind in TYPES if kind in entity.parts]
    return ", ".join(f"default {kind}" if name is None else f"{kind} {name}" for kind, name in parts)


def _cell(entity: QuotaEntity, kind: str) -> str | None:
    if kind not in entity.parts:
        return None
    name = entity.parts[kind]
    return "(default)" if name is None else name


@quotas.command("list")
@connected
@quota_options
@click.option("--strict", is_flag=True, help="Only entities without other parts: users without a client id.")
@output_option
def list_quotas(connection: Connection, parts: Parts, strict: bool, form: str | None) -> None:
    """List all quotas, or those of some users, clients and addresses. (default): all without a quota of their own."""
    if strict and not parts:
        raise click.UsageError("--strict needs --user, --client-id or --ip")
    found: dict[QuotaEntity, dict[str, float]] = {}
    for names in product(*parts.values()):
        found |= connection.admin.describe_quotas(dict(zip(parts, names, strict=True)) or None, strict=strict)
    rows = [
        (
            *(_cell(entity, kind) for kind in TYPES),
            name,
            _short(name, value),
        )
        for entity, values in sorted(found.items(), key=lambda item: text_of(item[0]))
        for name, value in sorted(values.items())
    ]
    show(form, ("user", "client_id", "ip", "quota", "value"), rows, no_rows("quotas", list(parts)))


def _short(name: str, value: float) -> float:
    if not value.is_integer():
        return value
    return Size(value) if name.endswith("_byte_rate") else int(value)


def _values(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    """Callback of QUOTA=VALUE."""
    found: dict[str, float] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not name or not equals:
            raise click.BadParameter(f"{text!r} is not QUOTA=VALUE, for example producer_byte_rate=1MB")
        if name in found:
            raise click.BadParameter(f"{name} is given twice")
        size = bytes_of(value) if name.endswith("_byte_rate") else None
        try:
            found[name] = float(value if size is None else size)
        except ValueError:
            raise click.BadParameter(f"{value!r} of {name} is not a number or a size such as 1MB or 512KiB") from None
        if not math.isfinite(found[name]) or found[name] < 0:
            raise click.BadParameter(f"{value!r} of {name} must be 0 or more")
    return found


@quotas.command("set")
@click.argument("values", nargs=-1, required=True, callback=_values, metavar="QUOTA=VALUE...")
@connected
@quota_options
@dry_run_option
def set_quotas(connection: Connection, values: dict[str, float], parts: Parts, dry_run: bool) -> None:
    """Set quotas, all in one request. Other quotas of the same user or client stay unchanged.

    producer_byte_rate and consumer_byte_rate are bytes per second of each broker, request_percentage is of a broker's
    threads, controller_mutation_rate partitions a second, connection_creation_rate connections a second of an address.

    \b
      samsarrow quotas set --user alice producer_byte_rate=10MB consumer_byte_rate=20MB
      samsarrow quotas set --default-user --client-id batch request_percentage=50
    """  # noqa: D301 - click needs the character
    entities = entities_of(parts)
    _alter(connection, dict.fromkeys(entities, values), "would be set" if dry_run else "set", dry_run)


@quotas.command()
@click.argument("names", nargs=-1, metavar="[QUOTA]...")
@connected
@quota_options
@yes_option
@dry_run_option
def delete(connection: Connection, names: tuple[str, ...], parts: Parts, yes: bool, dry_run: bool) -> None:
    """Delete all or some quotas of users, clients and addresses."""
    changes: dict[QuotaEntity, dict[str, float | None]] = {}
    for entity in entities_of(parts):
        quotas = connection.admin.describe_quotas(entity.parts, strict=True).get(entity, {})
        if removed := {name: None for name in quotas if not names or name in names}:
            changes[entity] = dict(removed)
        else:
            click.echo(f"{text_of(entity)}: nothing to delete", err=True)
    if not changes:
        return
    if not dry_run:
        confirm(f"Deleting the quotas of {listed([text_of(entity) for entity in changes])}", yes)
    _alter(connection, changes, "would be deleted" if dry_run else "deleted", dry_run)


def _alter(connection: Connection, changes: dict[QuotaEntity, Any], done: str, dry_run: bool) -> None:
    outcomes = run_batch(changes, lambda: connection.admin.alter_quotas(changes, validate_only=dry_run))
    print_outcomes(
        ((f"{text_of(entity)}, {', '.join(changes[entity])}", error) for entity, error in outcomes.items()),
        done,
    )
