"""`samsarrow groups`."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import click

from samsarrow.admin_types import OffsetSpec, RemovedMember
from samsarrow.cli.commands import CommandGroup
from samsarrow.cli.completion import groups as complete_groups
from samsarrow.cli.connection import Connection, connected
from samsarrow.cli.errors import NotFound
from samsarrow.cli.offsets_lookup import look_up
from samsarrow.cli.output import (
    check_names,
    confirm,
    dry_run_option,
    each_result,
    if_exists_option,
    listed,
    matches,
    no_rows,
    output_option,
    print_outcomes,
    report_errors,
    run_batch,
    show,
    states_option,
    yes_option,
)
from samsarrow.cli.share_groups import STREAMS, ShareRow, check_not_share, explain, group_types, of_type, share_lags
from samsarrow.cli.share_groups import TYPE as SHARE
from samsarrow.cli.times import seconds_option
from samsarrow.exceptions import GroupIdNotFoundError, KafkaError, UnknownTopicOrPartitionError
from samsarrow.types import GroupListing, TopicPartition


@click.group(cls=CommandGroup)
def groups() -> None:
    """Show groups with their members, offsets and lag; remove members, delete groups.

    `samsarrow offsets` changes their offsets. Names may be patterns: 'billing-*'.
    """


names_argument = click.argument("names", nargs=-1, metavar="[GROUP]...", shell_complete=complete_groups)
# States of Kafka's GroupState, except Unknown.
STATES = (
    "Assigning", "CompletingRebalance", "Dead", "Empty", "NotReady", "PreparingRebalance", "Reconciling", "Stable",
)  # fmt: skip
group_states = states_option(STATES, "Only groups in this state; repeatable")


def chosen(connection: Connection, names: tuple[str, ...], states: tuple[str, ...] = ()) -> list[str]:
    """Returns the groups with these names or that match these patterns; all groups if none are passed.

    If no name is a pattern and `states` is empty, the names are returned without a check that the groups exist.

    Raises:
        NotFound: a pattern matches no group.
    """
    if names and not states and all(not set("*?[") & set(name) for name in names):
        return list(dict.fromkeys(names))
    listed: Mapping[str, GroupListing] = connection.admin.list_groups()
    candidates = [name for name, group in sorted(listed.items()) if not states or group.state in states]
    found: dict[str, None] = {}
    for name in names or ("*",):
        matching = [group for group in candidates if fnmatchcase(group, name)]
        if not matching and name != "*" and not states:
            raise NotFound(f"group {name}", connection.servers)
        found.update(dict.fromkeys(matching))
    return list(found)


@groups.command("list")
@click.argument("patterns", nargs=-1, metavar="[PATTERN]...")
@connected
@group_states
@output_option
def list_groups(connection: Connection, patterns: tuple[str, ...], states: tuple[str, ...], form: str | None) -> None:
    """List groups with their state, type and protocol."""
    listed = connection.admin.list_groups()
    check_names("group", patterns, listed, connection.servers)
    rows = [
        (group.group, group.state, group.type, group.protocol_type)
        for name, group in sorted(listed.items())
        if (not states or group.state in states) and matches(name, patterns)
    ]
    show(form, ("group", "state", "type", "protocol_type"), rows, no_rows("groups", patterns, states))


@dataclass(frozen=True)
class Row:
    """A partition for which a group has a committed offset or which is assigned to a member."""

    group: str
    partition: TopicPartition
    offset: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """Number of offsets from the committed offset to the end."""
        return None if self.offset is None or self.end is None else max(self.end - self.offset, 0)


def lags(
    connection: Connection,
    names: list[str],
    types: Mapping[str, str | None],
    owned: dict[str, set[TopicPartition]] | None = None,
) -> tuple[list[Row | ShareRow], dict[str, KafkaError]]:
    """Looks up the offsets and lag of groups of all types. Share groups have start offsets, others committed offsets.

    The arguments and the result are those of `committed_lags`.
    """
    share = of_type(types, names, SHARE)
    share_rows, failed = share_lags(connection, share)
    others = [name for name in names if name not in share]
    rows, errors = committed_lags(connection, others, types, owned)
    order = {name: number for number, name in enumerate(names)}
    return sorted([*rows, *share_rows], key=lambda row: (order[row.group], row.partition)), errors | failed


def committed_lags(
    connection: Connection,
    names: list[str],
    types: Mapping[str, str | None],
    owned: dict[str, set[TopicPartition]] | None = None,
) -> tuple[list[Row], dict[str, KafkaError]]:
    """Looks up committed offsets and end offsets of groups, with one request per coordinator and one per leader.

    Args:
        connection: connection to the cluster.
        names: names of the groups.
        types: types of groups, from `group_types`.
        owned: partitions that are assigned to members, by group. They get a row even without a committed offset.

    Returns:
        The rows, and errors by group.
    """
    errors: dict[str, KafkaError] = {}
    offsets: dict[str, dict[TopicPartition, int | None]] = {}
    ends: dict[TopicPartition, int | None] = {}
    for name, found in each_result(connection.admin.group_lag(names)) if names else ():
        if isinstance(found, KafkaError):
            errors[name] = found
            continue
        offsets[name] = dict.fromkeys((owned or {}).get(name, ()))
        offsets[name] |= {lag.partition: lag.committed.offset for lag in found.partitions}
        ends |= {lag.partition: lag.end for lag in found.partitions}
        # Ignores unknown topics, because committed offsets remain for some time after their topic is deleted.
        results = [lag.error for lag in found.partitions if not isinstance(lag.error, UnknownTopicOrPartitionError)]
        if failed := [error for error in results if isinstance(error, KafkaError)]:
            errors[name] = failed[0]
    # A group without committed offsets may not exist, so it is looked up.
    if empty := [name for name, by_partition in offsets.items() if not by_partition]:
        streams = of_type(types, empty, STREAMS)
        described = connection.admin.describe_groups([name for name in empty if name not in streams])
        errors |= {name: found for name, found in each_result(described) if isinstance(found, KafkaError)}
    missing = sorted({tp for by_partition in offsets.values() for tp in by_partition} - ends.keys())
    for tp, end in each_result(look_up(connection, missing, OffsetSpec.LATEST)):
        if isinstance(end, KafkaError):
            errors |= {name: end for name, by_partition in offsets.items() if tp in by_partition}
        elif end is not None:
            ends[tp] = end.offset
    rows = [
        Row(name, tp, offset, ends.get(tp))
        for name, by_partition in offsets.items()
        for tp, offset in sorted(by_partition.items())
    ]
    return rows, errors


@groups.command()
@names_argument
@connected
@group_states
@output_option
def describe(connection: Connection, names: tuple[str, ...], states: tuple[str, ...], form: str | None) -> None:
    """Describe groups: offset, end, lag and member of each partition, and also members without partitions.

    The offset of a share group is its start offset, the first record that is not finished. Its members share
    partitions, so each has a line of its own, as members of Kafka Streams groups have.
    """
    selected = chosen(connection, names, states)
    types = group_types(connection.admin)
    known, errors = describe_all(connection, selected, types)
    owners: dict[tuple[str, TopicPartition], Owner] = {
        (name, tp): member for name, group in known.items() for member in group.members for tp in member.assignment
    }
    owned = {name: {tp for member in group.members for tp in member.assignment} for name, group in known.items()}
    rows, failed = lags(connection, list(known), types, owned)
    by_group = _by_group(rows)
    lines: list[tuple[Any, ...]] = []
    for name, group in known.items():
        partitions = by_group.get(name, [])
        lines += [_line(name, group, row, owners.get((name, row.partition))) for row in partitions]
        lines += [_line(name, group, None, member) for member in group.members if not member.assignment]
        if not partitions and not group.members and name not in failed:
            lines.append(_line(name, group, None, None))
    heads = (
        "group", "state", "topic", "partition", "offset", "end", "lag", "client_id", "host", "member_id", "instance_id",
    )  # fmt: skip
    failures = {**errors, **failed}
    show(form, heads, lines, "" if failures else no_rows("groups", names, states))
    report_group_errors(connection, failures, len(selected))


@dataclass(frozen=True)
class Owner:
    """A member of a group, with the partitions that it does not share with other members."""

    client_id: str
    host: str
    member_id: str
    instance_id: str | None
    assignment: tuple[TopicPartition, ...] = ()


@dataclass(frozen=True)
class Described:
    """State and members of a group of any type."""

    state: str
    members: tuple[Owner, ...]


def describe_all(
    connection: Connection, names: list[str], types: Mapping[str, str | None]
) -> tuple[dict[str, Described], dict[str, KafkaError]]:
    """Describes groups of all types. Returns the groups in the order of `names`, and errors by group."""
    admin = connection.admin
    share, streams = of_type(types, names, SHARE), of_type(types, names, STREAMS)
    others = [name for name in names if name not in share and name not in streams]
    found: dict[str, Described] = {}
    errors: dict[str, KafkaError] = {}
    for name, group in each_result(admin.describe_groups(others)) if others else ():
        if isinstance(group, KafkaError):
            errors[name] = group
            continue
        members = (Owner(m.client_id, m.host, m.member_id, m.instance_id, m.assignment) for m in group.members)
        found[name] = Described(group.state, tuple(members))
    for name, shared in each_result(admin.describe_share_groups(share)) if share else ():
        if isinstance(shared, KafkaError):
            errors[name] = shared
            continue
        found[name] = Described(
            shared.state, tuple(Owner(m.client_id, m.host, m.member_id, None) for m in shared.members)
        )
    for name, application in each_result(admin.describe_streams_groups(streams)) if streams else ():
        if isinstance(application, KafkaError):
            errors[name] = application
            continue
        members = (Owner(m.client_id, m.host, m.member_id, m.instance_id) for m in application.members)
        found[name] = Described(application.state, tuple(members))
    return {name: found[name] for name in names if name in found}, errors


def _line(name: str, group: Described, row: Row | ShareRow | None, member: Owner | None) -> tuple[Any, ...]:
    partition = (None, None) if row is None else tuple(row.partition)
    numbers = (None, None, None) if row is None else (row.offset, row.end, row.lag)
    owner = (None,) * 4 if member is None else (member.client_id, member.host, member.member_id, member.instance_id)
    return (name, group.state, *partition, *numbers, *owner)


def report_group_errors(connection: Connection, errors: dict[str, KafkaError], total: int) -> None:
    """Prints the errors of the groups that failed, and ends the command if any group failed."""
    errors = explain(connection.admin, errors)
    report_errors({f"group {name}": error for name, error in errors.items()}, total, "groups")


@groups.command()
@names_argument
@connected
@group_states
@click.option("--partitions", "each", is_flag=True, help="Each partition, instead of sums.")
@output_option
def lag(connection: Connection, names: tuple[str, ...], states: tuple[str, ...], each: bool, form: str | None) -> None:
    """Show the lag of all or some groups: the number of offsets between their committed offsets and the ends.

    The lag of a share group is the number of records that are not finished.
    """
    selected = chosen(connection, names, states)
    rows, errors = lags(connection, selected, group_types(connection.admin))
    if each:
        lines = [(row.group, *row.partition, row.offset, row.end, row.lag) for row in rows]
        empty = "no offsets" if selected else no_rows("groups", names, states)
        show(form, ("group", "topic", "partition", "offset", "end", "lag"), lines, "" if errors else empty)
    else:
        empty = "" if errors else no_rows("groups", names, states)
        show(form, ("group", "topics", "partitions", "lag"), _sums(selected, rows, errors), empty)
    report_group_errors(connection, errors, len(selected))


def _by_group(rows: list[Row | ShareRow]) -> dict[str, list[Row | ShareRow]]:
    by_group: dict[str, list[Row | ShareRow]] = {}
    for row in rows:
        by_group.setdefault(row.group, []).append(row)
    return by_group


def _sums(names: list[str], rows: list[Row | ShareRow], errors: dict[str, KafkaError]) -> list[tuple[Any, ...]]:
    sums = []
    by_group = _by_group(rows)
    for name in (name for name in names if name not in errors):
        group = by_group.get(name, [])
        topics = {row.partition.topic for row in group}
        sums.append((name, len(topics), len(group), sum(row.lag or 0 for row in group)))
    return sums


@groups.command()
@names_argument
@connected
@click.option(
    "-i",
    "--interval",
    default="2s",
    show_default=True,
    callback=seconds_option,
    metavar="SECONDS",
    help="The interval between checks.",
)
@click.option("-n", "--count", type=click.IntRange(1), metavar="N", help="Exit after this many checks.")
@output_option
def watch(
    connection: Connection, names: tuple[str, ...], interval: float, count: int | None, form: str | None
) -> None:  # fmt: skip
    """Watch the lag of groups until Ctrl-C. Redraws a table, or prints one line of JSON per group and check.

    `samsarrow top` also shows rates, members and rebalances.
    """
    from samsarrow.cli.top import plain
    from samsarrow.cli.top.history import History
    from samsarrow.cli.top.sampler import Sampler

    chosen(connection, names)
    as_table = (form or ("table" if sys.stdout.isatty() else "ndjson")) == "table"
    heads = ("time", "group", "topics", "partitions", "lag", "offsets_per_second")
    history = History()
    sampler = Sampler(connection.admin, names, (), interval, connection.timeout)
    for number, sample in enumerate(plain.samples(sampler, history, count), 1):
        now = time.time()
        lines = [
            (
                round(now, 3),
                row.key,
                row.topics,
                row.partitions,
                row.lag or 0,
                None if row.consumed is None else round(row.consumed, 1),
            )
            for row in history.rows()
            if not row.error
        ]
        if as_table:
            plain.print_time(now)
        empty = "" if plain.errors_of(sample) else no_rows("groups", names)
        show(form, heads[as_table:], [line[as_table:] for line in lines], empty)
        sys.stdout.flush()
        plain.report(sample, last=number == count)


@groups.command()
@click.argument("names", nargs=-1, required=True, metavar="GROUP...", shell_complete=complete_groups)
@connected
@if_exists_option("Groups")
@yes_option
@dry_run_option
def delete(connection: Connection, names: tuple[str, ...], if_exists: bool, yes: bool, dry_run: bool) -> None:
    """Delete groups with their offsets; they must have no members."""
    if if_exists:
        existing = connection.admin.list_groups()
        names = tuple(name for name in names if any(fnmatchcase(group, name) for group in existing))
        if not names:
            click.echo("nothing to delete", err=True)
            return
    found = chosen(connection, names)
    if dry_run:
        rows, errors = lags(connection, found, group_types(connection.admin))
        show(None, ("group", "topics", "partitions", "lag"), _sums(found, rows, errors))
        click.echo("dry run: nothing is deleted", err=True)
        report_group_errors(connection, errors, len(found))
        return
    confirm(f"Deleting {listed(found)}", yes)

    outcomes = run_batch(found, lambda: connection.admin.delete_groups(found))
    if if_exists:
        # Another client may have deleted a group since it was listed.
        gone = [name for name, error in outcomes.items() if isinstance(error, GroupIdNotFoundError)]
        outcomes |= dict.fromkeys(gone)
    print_outcomes(outcomes.items(), "deleted")


@groups.command()
@click.argument("name", metavar="GROUP", shell_complete=complete_groups)
@connected
@click.option("--member", "ids", multiple=True, metavar="ID", help="A member, by its id; repeatable.")
@click.option(
    "--instance",
    "instances",
    multiple=True,
    metavar="ID",
    help="A static member, by its group.instance.id; repeatable.",
)
@click.option("--all", "everyone", is_flag=True, help="All members.")
@click.option(
    "--reason", default="removed by an administrator", show_default=True, help="The reason for the broker's log."
)
@yes_option
@dry_run_option
@output_option
def kick(
    connection: Connection,
    name: str,
    ids: tuple[str, ...],
    instances: tuple[str, ...],
    everyone: bool,
    reason: str,
    yes: bool,
    dry_run: bool,
    form: str | None,
) -> None:
    """Remove members from a group, such as a hanging consumer or a static member that does not return (KIP-345).

    Members that still run rejoin. `groups describe` shows the ids. -o sets the format of --dry-run.
    """
    if bool(ids or instances) == everyone:
        raise click.UsageError("select members with --member and --instance, or pass --all")
    try:
        found = connection.admin.describe_groups([name])[name].members
    except GroupIdNotFoundError:
        check_not_share(connection.admin, name)
        raise
    selected = [member for member in found if everyone or member.member_id in ids or member.instance_id in instances]
    for given, existing in ((ids, {m.member_id for m in found}), (instances, {m.instance_id for m in found})):
        if missing := [member_id for member_id in given if member_id not in existing]:
            raise click.ClickException(f"group {name} has no member {missing[0]}: nothing was done")
    if dry_run:
        rows = [(m.member_id, m.instance_id, m.client_id, m.host, len(m.assignment)) for m in selected]
        show(form, ("member_id", "instance_id", "client_id", "host", "partitions"), rows)
        click.echo("dry run: no member is removed", err=True)
        return
    if not selected:
        click.echo(f"group {name} has no members", err=True)
        return
    confirm(f"Removing {len(selected)} of {len(found)} members from {name}", yes, "makes the group rebalance")
    # Static members are removed by instance id, which still identifies a member that has rejoined with a new member id.
    removed = {
        RemovedMember(instance_id=m.instance_id) if m.instance_id else RemovedMember(m.member_id): m for m in selected
    }
    outcomes = run_batch(removed, lambda: connection.admin.remove_members(name, list(removed), reason=reason))
    print_outcomes(((removed[member].member_id, error) for member, error in outcomes.items()), "removed")
