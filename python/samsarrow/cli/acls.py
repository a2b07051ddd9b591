"""`samsarrow acls`: access control lists."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import product
from typing import Any, TypeVar

import click

from samsarrow.access import AclBinding, AclFilter, AclOperation, AclPermission, PatternType, ResourceType
from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.output import confirm, dry_run_option, output_option, report_errors, show, yes_option
from samsarrow.cli.tables import table
from samsarrow.exceptions import KafkaError
from samsarrow.results import PartialFailureError

E = TypeVar("E", bound=Enum)

Op = AclOperation
# Operations that brokers check, by resource type. Brokers also accept ACLs for other operations, which have no effect.
OPERATIONS = {
    ResourceType.TOPIC: (
        Op.READ, Op.WRITE, Op.CREATE, Op.DELETE, Op.ALTER, Op.DESCRIBE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (Op.READ, Op.DESCRIBE, Op.DELETE, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS),
    ResourceType.CLUSTER: (
        Op.CREATE, Op.ALTER, Op.DESCRIBE, Op.CLUSTER_ACTION, Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS, Op.IDEMPOTENT_WRITE,
    ),
    ResourceType.TRANSACTIONAL_ID: (Op.WRITE, Op.DESCRIBE, Op.TWO_PHASE_COMMIT),
    ResourceType.DELEGATION_TOKEN: (Op.DESCRIBE,),
    ResourceType.USER: (Op.CREATE_TOKENS, Op.DESCRIBE_TOKENS),
}  # fmt: skip
PRODUCER = {
    ResourceType.TOPIC: (Op.WRITE, Op.DESCRIBE, Op.CREATE),
    ResourceType.TRANSACTIONAL_ID: (Op.WRITE, Op.DESCRIBE),
}
CONSUMER = {ResourceType.TOPIC: (Op.READ, Op.DESCRIBE), ResourceType.GROUP: (Op.READ,)}
CLUSTER = "kafka-cluster"
HEAD = ["RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"]

Resources = tuple[tuple[ResourceType, str], ...]


@click.group(cls=CommandGroup)
def acls() -> None:
    """Show and change ACLs (KIP-140).

    Changing ACLs needs the permission ALTER on the cluster, listing them needs DESCRIBE.
    """


def _named(kind: type[E], text: str) -> E:
    """Parses a Kafka name in any spelling: `DESCRIBE_CONFIGS`, `describe-configs`, `DescribeConfigs`."""
    members = {member.name.replace("_", "").lower(): member for member in kind if member.name not in ("UNKNOWN", "ANY")}
    found = members.get(text.replace("_", "").replace("-", "").lower())
    if found is None:
        raise click.BadParameter(f"{text!r} is not one of {', '.join(map(_word, members.values()))}")
    return found


def _operation_names(
    _context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]
) -> tuple[AclOperation, ...]:
    return tuple(_named(AclOperation, value) for value in values)


def _permission(_context: click.Context, _parameter: click.Parameter, value: str | None) -> AclPermission:
    return AclPermission.ANY if value is None else _named(AclPermission, value)


def _word(name: Enum) -> str:
    return name.name.lower().replace("_", "-")


def _noun(kind: ResourceType) -> str:
    return kind.name.lower().replace("_", " ")


def _principals(_context: click.Context, _parameter: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        kind, _, name = value.partition(":")
        if not kind or not name:
            raise click.BadParameter(f"{value!r} is not TYPE:NAME, for example User:alice, or User:* for all")
    return values


@dataclass(frozen=True)
class AclSelection:
    """ACLs that are selected on the command line; an empty field matches everything."""

    resources: Resources
    principals: tuple[str, ...]
    hosts: tuple[str, ...]
    operations: tuple[AclOperation, ...]

    def filters(self, pattern: PatternType, permission: AclPermission) -> list[AclFilter]:
        """Returns one filter per combination of resource, principal, host and operation."""
        return [
            AclFilter(kind, name, principal, operation, permission, host, pattern)
            for (kind, name), principal, host, operation in product(
                self.resources or ((ResourceType.ANY, None),),
                self.principals or (None,),
                self.hosts or (None,),
                self.operations or (Op.ANY,),
            )
        ]


def acl_options(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the options that select ACLs to a command, which receives them as an `AclSelection`."""

    def with_chosen(
        connection: Connection,
        topics: tuple[str, ...],
        groups: tuple[str, ...],
        transactional_ids: tuple[str, ...],
        tokens: tuple[str, ...],
        users: tuple[str, ...],
        cluster: bool,
        principals: tuple[str, ...],
        hosts: tuple[str, ...],
        operations: tuple[AclOperation, ...],
        **arguments: Any,
    ) -> None:
        named = (
            (ResourceType.TOPIC, topics),
            (ResourceType.GROUP, groups),
            (ResourceType.CLUSTER, (CLUSTER,) if cluster else ()),
            (ResourceType.TRANSACTIONAL_ID, transactional_ids),
            (ResourceType.DELEGATION_TOKEN, tokens),
            (ResourceType.USER, users),
        )
        resources = tuple(dict.fromkeys((kind, name) for kind, names in named for name in names))
        parts = (tuple(dict.fromkeys(principals)), tuple(dict.fromkeys(hosts)), tuple(dict.fromkeys(operations)))
        command(connection, AclSelection(resources, *parts), **arguments)

    with_chosen.__name__, with_chosen.__doc__ = command.__name__, command.__doc__
    with_chosen.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    several: dict[str, Any] = {"multiple": True, "metavar": "NAME"}
    for option in (
        click.option(
            "--operation", "operations", multiple=True, callback=_operation_names, metavar="OPERATION",
            help="read, write, describe and so on, or all; repeatable.",
        ),
        click.option("--host", "hosts", multiple=True, metavar="ADDRESS", help="The address of a client; repeatable."),
        click.option(
            "--principal", "principals", multiple=True, callback=_principals, metavar="TYPE:NAME",
            help="A principal, for example User:alice, or User:* for all; repeatable.",
        ),
        click.option("--cluster", is_flag=True, help="The cluster itself."),
        click.option("--user", "users", **several, help="A user for whom others create tokens, TYPE:NAME; repeatable."),
        click.option("--delegation-token", "tokens", **several, help="A delegation token's id; repeatable."),
        click.option("--transactional-id", "transactional_ids", **several, help="A transactional id; repeatable."),
        click.option("--group", "groups", **several, help="A group; repeatable."),
        click.option("--topic", "topics", **several, help="A topic, or * for all; repeatable."),
    ):  # fmt: skip
        with_chosen = option(with_chosen)
    return with_chosen


def _row(acl: AclBinding) -> tuple[str, ...]:
    return (
        acl.resource_type.name, acl.resource_name, acl.pattern_type.name, acl.principal, acl.host, acl.operation.name,
        acl.permission.name,
    )  # fmt: skip


def _print(found: Iterable[AclBinding]) -> None:
    for line in table(HEAD, map(_row, found)):
        click.echo(line)


def _matching(connection: Connection, filters: Iterable[AclFilter]) -> list[AclBinding]:
    matching = {acl: None for acl_filter in filters for acl in connection.admin.describe_acls(acl_filter)}
    return sorted(matching, key=_row)


permission_option = click.option(
    "--permission", callback=_permission, metavar="allow|deny", help="Only ACLs that allow, or that deny."
)
prefixed_option = click.option("--prefixed", is_flag=True, help="The names are prefixes of resource names.")


@acls.command("list")
@connected
@acl_options
@permission_option
@click.option(
    "--pattern",
    type=click.Choice(["any", "match", "literal", "prefixed"]),
    default="any",
    show_default=True,
    help="Which ACLs of that name; match lists all that apply to it, those of its prefixes and of * too.",
)
@output_option
def list_acls(
    connection: Connection, chosen: AclSelection, permission: AclPermission, pattern: str, form: str | None
) -> None:
    """List all ACLs, or those of some resources, principals, hosts and operations."""
    if pattern == "match" and not chosen.resources:
        raise click.UsageError("--pattern match needs the name of a resource, such as --topic NAME")
    found = _matching(connection, chosen.filters(PatternType[pattern.upper()], permission))
    selected = chosen.resources or chosen.principals or chosen.hosts or chosen.operations
    empty = "no ACLs match" if selected or permission is not AclPermission.ANY else "no ACLs"
    show(form, [name.lower() for name in HEAD], [_row(acl) for acl in found], empty)


@acls.command("add")
@connected
@acl_options
@prefixed_option
@click.option("--deny", is_flag=True, help="Deny, which no other ACL can undo.")
@click.option("--producer", is_flag=True, help="The operations of a producer on these topics and transactional ids.")
@click.option("--consumer", is_flag=True, help="The operations of a consumer on these topics and groups.")
@dry_run_option
def add(
    connection: Connection,
    chosen: AclSelection,
    prefixed: bool,
    deny: bool,
    producer: bool,
    consumer: bool,
    dry_run: bool,
) -> None:
    """Add ACLs for each combination of principal, operation, resource and host, by default all hosts.

    Existing ACLs are left unchanged.

    \b
      samsarrow acls add -b HOST:PORT --principal User:alice --topic orders --operation read --operation describe
      samsarrow acls add -b HOST:PORT --principal User:bob --topic orders --group billing --consumer
    """  # noqa: D301 - click needs the character
    if not chosen.resources or not chosen.principals:
        raise click.UsageError("give a resource, such as --topic NAME, and --principal TYPE:NAME")
    if not (chosen.operations or producer or consumer):
        raise click.UsageError("give --operation, --producer or --consumer")
    if prefixed and any(kind is ResourceType.CLUSTER for kind, _ in chosen.resources):
        raise click.UsageError("--cluster has no names with a prefix: add its ACLs without --prefixed")
    permission = AclPermission.DENY if deny else AclPermission.ALLOW
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    acls = [
        AclBinding(kind, name, principal, operation, permission, host, pattern)
        for kind, name in chosen.resources
        for principal in chosen.principals
        for operation in _operations(kind, chosen.operations, producer, consumer)
        for host in chosen.hosts or ("*",)
    ]
    _print(acls)
    if dry_run:
        click.echo("dry run: nothing is added")
        return
    failures: Mapping[AclBinding, KafkaError] = {}
    try:
        connection.admin.create_acls(acls)
    except PartialFailureError as some:
        failures = some.failures
    click.echo(f"{len(acls) - len(failures)} ACLs added, or already present")
    report_errors({" ".join(_row(acl)): error for acl, error in failures.items()}, len(acls), "ACLs")


def _operations(
    kind: ResourceType, given: tuple[AclOperation, ...], producer: bool, consumer: bool
) -> list[AclOperation]:
    """Returns the operations for which ACLs are added.

    Raises:
        click.UsageError: brokers do not check an operation on resources of this type.
    """
    for operation in given:
        if operation is not Op.ALL and operation not in OPERATIONS[kind]:
            possible = ", ".join(map(_word, (*OPERATIONS[kind], Op.ALL)))
            raise click.UsageError(f"{_word(operation)} is not an operation on a {_noun(kind)}; use {possible}")
    roles = [role for role, selected in ((PRODUCER, producer), (CONSUMER, consumer)) if selected]
    operations = dict.fromkeys([*given, *(operation for role in roles for operation in role.get(kind, ()))])
    if not operations:
        raise click.UsageError(
            f"a {'producer' if producer else 'consumer'} does not use a {_noun(kind)}: add its ACLs with a separate "
            "command"
        )
    return list(operations)


@acls.command("remove")
@connected
@acl_options
@permission_option
@prefixed_option
@click.option("--all", "everything", is_flag=True, help="All ACLs of the cluster.")
@yes_option
@dry_run_option
def remove(
    connection: Connection,
    chosen: AclSelection,
    permission: AclPermission,
    prefixed: bool,
    everything: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Remove ACLs of some resources, principals, hosts and operations. Options that are not set match anything.

    Resource names are compared literally. For example, --topic * removes the ACLs of the name *. With --prefixed, the
    ACLs of a prefix are removed.
    """
    named = bool(
        chosen.resources
        or chosen.principals
        or chosen.hosts
        or chosen.operations
        or permission is not AclPermission.ANY
    )
    if named == everything:
        raise click.UsageError("select ACLs with --topic, --principal and so on, or pass --all")
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL if chosen.resources else PatternType.ANY
    filters = chosen.filters(pattern, permission)
    if dry_run or not yes:
        found = _matching(connection, filters)
        _print(found)
        if dry_run or not found:
            click.echo("dry run: nothing is removed" if dry_run else "there is no such ACL")
            return
        confirm(f"Removing {len(found)} ACLs", yes, "changes permissions at once")
    failures: Mapping[AclFilter, KafkaError] = {}
    done: Mapping[AclFilter, tuple[AclBinding, ...]]
    try:
        done = connection.admin.delete_acls(filters)
    except PartialFailureError as some:
        done, failures = some.succeeded, some.failures
    removed = dict.fromkeys(acl for acls in done.values() for acl in acls)
    if yes:
        _print(sorted(removed, key=_row))
    click.echo(f"{len(removed)} ACLs removed")
    report_errors({_filter_text(acl_filter): error for acl_filter, error in failures.items()}, len(filters), "filters")


def _filter_text(acl_filter: AclFilter) -> str:
    """Returns a filter as text, in which `any` stands for fields that are not set."""
    parts = (
        acl_filter.resource_type.name, acl_filter.resource_name, acl_filter.pattern_type.name, acl_filter.principal,
        acl_filter.host, acl_filter.operation.name, acl_filter.permission.name,
    )  # fmt: skip
    return " ".join("any" if part is None else part for part in parts)
